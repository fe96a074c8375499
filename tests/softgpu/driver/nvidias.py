"""NVIDIA's own compilers, as their wheels bring them."""

from __future__ import annotations

import ctypes
import importlib.util
import subprocess
from ctypes import byref, c_char_p, c_size_t, c_void_p
from pathlib import Path

import pytest


def original(name: str) -> Path:
    """NVIDIA's own library of this name; the test is skipped where its wheel is not installed."""
    nvidia = importlib.util.find_spec("nvidia")
    folders = (nvidia and nvidia.submodule_search_locations) or ()
    found = next((path for folder in folders for path in Path(folder).glob(f"*/lib/{name}")), None)
    if found is None:
        pytest.skip(f"NVIDIA's {name} is not installed")
    return found


def exported(library: Path) -> set[str]:
    """The names of what it exports, as functions."""
    command = ["nm", "-D", "--defined-only", library]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    words = (line.split() for line in listed.splitlines())
    return {name.partition("@")[0] for _, kind, name in words if kind in "TWi"}


class Compiled:
    """A program of NVRTC's; `code` is what compiling it answered."""

    def __init__(self, nvrtc: ctypes.CDLL, source: str, *options: str) -> None:
        self.nvrtc, self.handle = nvrtc, c_void_p()
        made = nvrtc.nvrtcCreateProgram(byref(self.handle), source.encode(), b"source.cu", 0, None, None)
        assert made == 0
        listed = (c_char_p * len(options))(*(option.encode() for option in options))
        self.code = nvrtc.nvrtcCompileProgram(self.handle, len(options), listed)

    def size(self, what: str) -> int:
        size = c_size_t()
        assert getattr(self.nvrtc, f"nvrtcGet{what}Size")(self.handle, byref(size)) == 0
        return size.value

    def get(self, what: str) -> bytes:
        content = ctypes.create_string_buffer(self.size(what) + 1)
        content[len(content) - 1] = b"\x7f"
        assert getattr(self.nvrtc, f"nvrtcGet{what}")(self.handle, content) == 0
        assert content.raw[-1:] == b"\x7f", "no more is written than was said"
        return content.raw[:-1]

    def destroy(self) -> None:
        assert self.nvrtc.nvrtcDestroyProgram(byref(self.handle)) == 0
        assert not self.handle.value
