"""Fat binaries in files, and how many kernels the PTX has that a software GPU would take of one."""

from __future__ import annotations

import ctypes
import mmap
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

OURS = 75
PTX = 1
LZ4, ZSTD, ONE_ONLY = 0x2000, 0x8000, 0x300000
MAGIC = struct.pack("<IH", 0xBA55ED50, 1)
HEADER = struct.Struct("<IHHQ")
ENTRY = struct.Struct("<HHIQI8xI8xQ8xQ")  # kind, version, header, bytes, packed, arch, flags, plain
KERNEL = re.compile(rb"\.entry\s+([\w$.]+)")
MOST_PLAIN = 512 << 20


@dataclass(frozen=True)
class Entry:
    kind: int
    arch: int
    flags: int
    packed: bytes
    plain_bytes: int


def fatbins(path: Path) -> Iterator[bytes]:
    """Each whole fat binary in the file, wherever it lies."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        at = content.find(MAGIC)
        while at >= 0:
            _, _, header, size = HEADER.unpack_from(content, at)
            if header == HEADER.size and size <= len(content) - at - header:
                yield content[at : at + header + size]
                at += header + size
            else:
                at += len(MAGIC)
            at = content.find(MAGIC, at)


def entries(fatbin: bytes) -> Iterator[Entry]:
    at = HEADER.size
    while at + ENTRY.size <= len(fatbin):
        kind, _, header, size, packed, arch, flags, plain = ENTRY.unpack_from(fatbin, at)
        content = fatbin[at + header : at + header + (packed if flags & (LZ4 | ZSTD) else size)]
        yield Entry(kind, arch, flags, content, plain)
        at += header + size


def kernels(fatbin: bytes) -> list[str] | None:
    """Names of the kernels in the PTX that a software GPU takes: for a fat binary that is refused whole.

    None where it has no PTX that it would take.
    """
    texts = [e for e in entries(fatbin) if e.kind == PTX and not e.flags & ONE_ONLY]
    if not texts:
        return None
    suits = [e for e in texts if e.arch <= OURS]
    best = max(suits, key=lambda e: e.arch) if suits else min(texts, key=lambda e: e.arch)
    return [name.decode() for name in KERNEL.findall(plain(best))]


def plain(entry: Entry) -> bytes:
    if not entry.flags & (LZ4 | ZSTD):
        return entry.packed
    if entry.plain_bytes > MOST_PLAIN:
        raise ValueError(f"an entry of {entry.plain_bytes} bytes")
    return zstd(entry) if entry.flags & ZSTD else lz4(entry.packed)


def zstd(entry: Entry) -> bytes:
    library = ctypes.CDLL("libzstd.so.1")
    library.ZSTD_decompress.restype = ctypes.c_size_t
    out = ctypes.create_string_buffer(entry.plain_bytes)
    size = ctypes.c_size_t
    done = library.ZSTD_decompress(out, size(entry.plain_bytes), entry.packed, size(len(entry.packed)))
    if done > entry.plain_bytes:
        raise ValueError("a damaged zstd frame")
    return out.raw[:done]


def lz4(packed: bytes) -> bytes:
    """One LZ4 block."""
    out, at = bytearray(), 0

    def length(first: int) -> int:
        nonlocal at
        total = first
        while first == 15 or first == 255:
            first = packed[at]
            total += first
            at += 1
        return total

    while at < len(packed):
        token = packed[at]
        at += 1
        literals = length(token >> 4)
        out += packed[at : at + literals]
        at += literals
        if at >= len(packed):
            break
        back = packed[at] | packed[at + 1] << 8
        at += 2
        count = length(token & 15) + 4
        start = len(out) - back
        for i in range(count):
            out.append(out[start + i])
    return bytes(out)
