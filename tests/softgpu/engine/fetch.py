"""Kernels of one texture or surface instruction, a thread an access."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.softgpu.bench import Device
from tests.softgpu.engine.textures import Request

HEAD = ".version 8.5\n.target sm_75\n.address_size 64\n"
PLACES = {
    "1d": "{X}",
    "2d": "{X, Y}",
    "3d": "{X, Y, Z, Z}",
    "a1d": "{%r1, X}",
    "a2d": "{%r1, X, Y, Y}",
    "cube": "{X, Y, Z, Z}",
    "acube": "{%r1, X, Y, Z}",
}
CHANGES = {"1d": "{A}", "2d": "{A, B}", "a1d": "{A}", "a2d": "{A, B}"}
CHANGES_OF_THREE = "{A, B, C, C}"


def place(geometry: str, register: str) -> str:
    text = PLACES[geometry]
    for number, letter in enumerate("XYZ"):
        text = text.replace(letter, f"%{register}{number + 2}")
    return text


def changes(geometry: str, first: int) -> str:
    text = CHANGES.get(geometry, CHANGES_OF_THREE)
    for number, letter in enumerate("ABC"):
        text = text.replace(letter, f"%f{first + number}")
    return text


def kernel(instruction: str, results: str = "st.global.v4.b32 [%rd2], {%r20, %r21, %r22, %r23};") -> str:
    """Thread i reads its object's number, and row i of the coordinates into %r1-%r11, %f2-%f11."""
    loads = "".join(
        f"ld.global.b32 %r{i + 1}, [%rd1+{4 * i}]; mov.b32 %f{i + 1}, %r{i + 1};" for i in range(11)
    )
    return f"""{HEAD}.visible .entry k(.param .u64 out, .param .u64 in, .param .u64 handles) {{
.reg .pred %p<3>; .reg .b16 %h<8>; .reg .b32 %r<40>; .reg .f32 %f<40>; .reg .b64 %rd<20>;
mov.u32 %r0, %tid.x;
ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; ld.param.u64 %rd3, [handles];
mad.wide.u32 %rd1, %r0, 48, %rd1;
mad.wide.u32 %rd2, %r0, 32, %rd2;
mad.wide.u32 %rd3, %r0, 8, %rd3;
ld.global.u64 %rd4, [%rd3];
{loads}
{instruction}
{results}
ret; }}"""


def fetch(opcode: str, geometry: str, coordinate: str = "f") -> str:
    """``tex`` or ``tld4`` with all its operands."""
    more = ""
    if ".level" in opcode:
        more = f", %{coordinate}5"
    elif ".grad" in opcode:
        more = f", {changes(geometry, 6)}, {changes(geometry, 9)}"
    return f"{opcode} {{%r20, %r21, %r22, %r23}}, [%rd4, {place(geometry, coordinate)}]{more};"


def rows(requests: Sequence[Request], *, by_element: bool = False) -> np.ndarray:
    table = np.zeros((len(requests), 12), np.uint32)
    kind = np.int32 if by_element else np.float32
    for row, request in zip(table, requests, strict=True):
        row[0] = np.uint32(request.layer & 0xFFFFFFFF)
        row[1 : 1 + len(request.at)] = np.array(request.at, kind).view(np.uint32)
        row[4] = np.array([request.level or 0], kind).view(np.uint32)[0]
        for first, by in ((5, request.dx), (8, request.dy)):
            if by is not None:
                row[first : first + len(by)] = np.array(by, np.float32).view(np.uint32)
    return table


def run(device: Device, text: str, handles: Sequence[int], table: np.ndarray) -> np.ndarray:
    """32 bytes of results for each row."""
    count = len(table)
    out = device.buffer(np.zeros((count, 8), np.uint32))
    given, objects = device.buffer(table), device.buffer(np.array(handles, np.uint64))
    try:
        device.load(text)(out, given, objects, block=count)
        return out.get()
    finally:
        for buffer in (out, given, objects):
            buffer.free()
