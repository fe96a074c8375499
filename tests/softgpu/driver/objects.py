"""Descriptors of arrays, textures and surfaces as cuda.h lays them out, and what makes objects of them."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_char, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p

import numpy as np

from tests.softgpu.engine.textures import MODES, Texture

from .raw import Cuda

FORMATS = {"u8": 1, "u16": 2, "u32": 3, "s8": 8, "s16": 9, "s32": 10, "f16": 0x10, "f32": 0x20}
ARRAY, MIPMAPPED, LINEAR, PITCHED = range(4)
LAYERED, SURFACE, CUBEMAP, GATHER = 1, 2, 4, 8
AS_INTEGER, NORMALIZED, SRGB, SEAMLESS = 1, 2, 0x10, 0x40


class Linear(ctypes.Structure):
    _fields_ = (("address", c_uint64), ("format", c_uint), ("channels", c_uint), ("bytes", c_size_t))


class Pitched(ctypes.Structure):
    _fields_ = (
        ("address", c_uint64),
        ("format", c_uint),
        ("channels", c_uint),
        ("width", c_size_t),
        ("height", c_size_t),
        ("pitch", c_size_t),
    )


class Of(ctypes.Union):
    _fields_ = (
        ("array", c_uint64),
        ("linear", Linear),
        ("pitched", Pitched),
        ("reserved", c_int * 32),
    )


class Resource(ctypes.Structure):
    _fields_ = (("type", c_uint), ("of", Of), ("flags", c_uint))


class Sampling(ctypes.Structure):
    _fields_ = (
        ("address", c_uint * 3),
        ("filter", c_uint),
        ("flags", c_uint),
        ("anisotropy", c_uint),
        ("level_filter", c_uint),
        ("bias", c_float),
        ("least", c_float),
        ("greatest", c_float),
        ("border", c_float * 4),
        ("reserved", c_int * 12),
    )


class View(ctypes.Structure):
    _fields_ = (
        ("format", c_uint),
        ("width", c_size_t),
        ("height", c_size_t),
        ("depth", c_size_t),
        ("first_level", c_uint),
        ("last_level", c_uint),
        ("first_layer", c_uint),
        ("last_layer", c_uint),
        ("reserved", c_uint * 16),
    )


class ArrayDescriptor(ctypes.Structure):
    _fields_ = (
        ("width", c_size_t),
        ("height", c_size_t),
        ("depth", c_size_t),
        ("format", c_uint),
        ("channels", c_uint),
        ("flags", c_uint),
    )


class Memcpy3D(ctypes.Structure):
    _fields_ = (
        *(
            (side + name, kind)
            for side in ("src", "dst")
            for name, kind in (
                ("XInBytes", c_size_t),
                ("Y", c_size_t),
                ("Z", c_size_t),
                ("LOD", c_size_t),
                ("MemoryType", c_uint),
                ("Host", c_void_p),
                ("Device", c_uint64),
                ("Array", c_uint64),
                ("reserved", c_void_p),
                ("Pitch", c_size_t),
                ("Height", c_size_t),
            )
        ),
        ("WidthInBytes", c_size_t),
        ("Height", c_size_t),
        ("Depth", c_size_t),
    )


HOST, ON_ARRAY = 1, 3


def sampling(texture: Texture) -> Sampling:
    made = Sampling(
        filter=texture.linear,
        flags=(0 if texture.as_float else AS_INTEGER)
        | (NORMALIZED if texture.normalized else 0)
        | (SRGB if texture.srgb else 0),
        anisotropy=16 if texture.anisotropic else 0,
        level_filter=texture.between_levels,
        bias=texture.bias,
        least=texture.least,
        greatest=texture.greatest,
    )
    made.address[:] = [MODES.index(texture.mode)] * 3
    made.border[:] = texture.border
    return made


def copy(cuda: Cuda, array: int, level: np.ndarray, *, back: bool = False) -> None:
    """A level's planes, rows and elements into an array, or out of it."""
    planes, rows, width, channels = level.shape
    row = width * channels * level.itemsize
    given = Memcpy3D(WidthInBytes=row, Height=rows, Depth=planes)
    host, there = ("dst", "src") if back else ("src", "dst")
    setattr(given, f"{host}MemoryType", HOST)
    setattr(given, f"{host}Host", level.ctypes.data)
    setattr(given, f"{host}Pitch", row)
    setattr(given, f"{host}Height", rows)
    setattr(given, f"{there}MemoryType", ON_ARRAY)
    setattr(given, f"{there}Array", array)
    cuda.cuMemcpy3D_v2(byref(given))


def array_of(cuda: Cuda, texture: Texture, flags: int = 0) -> int:
    """An array or a mipmapped one with what the texture's levels hold."""
    planes, rows, width, channels = texture.levels[0].shape
    layered = texture.kind in ("a1d", "a2d", "acube")
    cube = texture.kind in ("cube", "acube")
    given = ArrayDescriptor(
        width=width,
        height=0 if texture.kind in ("1d", "a1d") else rows,
        depth=planes if layered or cube or texture.kind == "3d" else 0,
        format=FORMATS[texture.format],
        channels=channels,
        flags=flags | (LAYERED if layered else 0) | (CUBEMAP if cube else 0),
    )
    if len(texture.levels) == 1:
        array = int(cuda.new("cuArray3DCreate_v2", byref(given)))
        copy(cuda, array, texture.levels[0])
        return array
    array = int(cuda.new("cuMipmappedArrayCreate", byref(given), len(texture.levels)))
    for number, level in enumerate(texture.levels):
        copy(cuda, int(cuda.new("cuMipmappedArrayGetLevel", array, number)), level)
    return array


def resource(kind: int, handle: int = 0) -> Resource:
    made = Resource(type=kind)
    made.of.array = handle
    return made


def of_array(cuda: Cuda, texture: Texture, flags: int = 0) -> Resource:
    kind = ARRAY if len(texture.levels) == 1 else MIPMAPPED
    return resource(kind, array_of(cuda, texture, flags))


def linear(address: int, texture: Texture) -> Resource:
    level = texture.levels[0]
    made = Resource(type=LINEAR)
    made.of.linear = Linear(address, FORMATS[texture.format], level.shape[3], level.nbytes)
    return made


def pitched(address: int, texture: Texture) -> Resource:
    _, rows, width, channels = texture.levels[0].shape
    made = Resource(type=PITCHED)
    made.of.pitched = Pitched(address, FORMATS[texture.format], channels, width, rows, texture.pitch)
    return made


def texture_object(cuda: Cuda, given: Resource, texture: Texture, view: View | None = None) -> int:
    seen = byref(view) if view else c_void_p()
    return int(cuda.new("cuTexObjectCreate", byref(given), byref(sampling(texture)), seen))


def surface_object(cuda: Cuda, array: int) -> int:
    return int(cuda.new("cuSurfObjectCreate", byref(resource(ARRAY, array))))


def raw_bytes(structure: ctypes.Structure) -> bytes:
    return bytes((c_char * ctypes.sizeof(structure)).from_buffer(structure))
