"""Texture sampling by the formulas of the CUDA programming guide ("Texture Fetching"), in exact arithmetic.

Written from the guide alone: coordinates are fractions, and a filter's weights are multiples of 1/256.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from tests.softgpu.bench import Buffer, Description, Device, Level

KINDS = ("linear", "1d", "2d", "3d", "a1d", "a2d", "cube", "acube")
FORMATS = ("u8", "u16", "u32", "s8", "s16", "s32", "f16", "f32")
MODES = ("wrap", "clamp", "mirror", "border")
STORED = {
    **{f"u{bits}": np.dtype(f"uint{bits}") for bits in (8, 16, 32)},
    **{f"s{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32)},
    **{"f16": np.dtype("float16"), "f32": np.dtype("float32")},
}
DIMENSIONS = {"linear": 1, "1d": 1, "2d": 2, "3d": 3, "a1d": 1, "a2d": 2, "cube": 2, "acube": 2}
HUGE = Fraction(2) ** 200


@dataclass
class Texture:
    """``levels``: arrays of planes, rows, elements and channels."""

    kind: str
    format: str
    levels: list[np.ndarray]
    mode: str = "clamp"
    linear: bool = False
    normalized: bool = False
    as_float: bool = False
    srgb: bool = False
    between_levels: bool = False
    anisotropic: bool = False
    gathers: bool = True
    bias: float = 0
    least: float = 0
    greatest: float = 100
    border: tuple[float, float, float, float] = (0, 0, 0, 0)
    surface: bool = False
    pitch: int = 0  # bytes between rows; 0: no gap
    buffers: list[Buffer] = field(default_factory=list)

    def make(self, device: Device) -> int:
        description = Description(
            surface=self.surface,
            kind=KINDS.index(self.kind),
            format=FORMATS.index(self.format),
            channels=self.levels[0].shape[3],
            gathers=self.gathers,
            linear=self.linear,
            normalized_coordinates=self.normalized,
            as_float=self.as_float,
            srgb=self.srgb,
            linear_between_levels=self.between_levels,
            anisotropic=self.anisotropic,
            bias=self.bias,
            least_level=self.least,
            greatest_level=self.greatest,
            border=self.border,
        )
        description.address[:] = [MODES.index(self.mode)] * 3
        places = []
        for level in self.levels:
            planes, rows, width, channels = level.shape
            pitch = self.pitch or width * channels * level.itemsize
            padded = np.full((planes, rows, pitch), 0xEE, np.uint8)
            padded[:, :, : width * channels * level.itemsize] = (
                np.ascontiguousarray(level).view(np.uint8).reshape(planes, rows, -1)
            )
            self.buffers.append(device.buffer(padded))
            places.append(
                Level(
                    base=self.buffers[-1].address,
                    row_pitch=pitch,
                    plane_pitch=pitch * rows,
                    width=width,
                    height=rows,
                    depth=planes,
                )
            )
        return device.texture(description, places)

    def free(self) -> None:
        for buffer in self.buffers:
            buffer.free()
        self.buffers.clear()

    @property
    def gives_floats(self) -> bool:
        return self.format in ("f16", "f32") or self.promotes

    @property
    def promotes(self) -> bool:
        return self.as_float and self.format in ("u8", "u16", "s8", "s16")


def promoted(texture: Texture, value: int, channel: int) -> np.float32:
    """[0, 1] or [-1, 1]."""
    largest = {"u8": 255, "u16": 65535, "s8": 127, "s16": 32767}[texture.format]
    number = np.float32(max(np.float32(value) / np.float32(largest), np.float32(-1)))
    if texture.srgb and texture.format == "u8" and channel < 3:
        x = float(number)
        number = np.float32(x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4)
    return number


def words(texture: Texture, values: Sequence[int | float]) -> list[int]:
    """Four channels as the registers have them; what is missing is 0, and 1 in the last."""
    out = []
    for channel in range(4):
        if channel >= len(values):
            one = int(np.float32(1).view(np.uint32)) if texture.gives_floats else 1
            out.append(one if channel == 3 else 0)
        elif texture.gives_floats:
            out.append(int(np.float32(values[channel]).view(np.uint32)))
        else:
            out.append(int(values[channel]) & 0xFFFFFFFF)
    return out


def element(texture: Texture, level: int, place: tuple[int, int, int]) -> list[int]:
    """By its plane, row and column; a place that has a negative number is the border."""
    array = texture.levels[level]
    if min(place) < 0:
        bits = np.array(texture.border, np.float32).view(np.uint32)
        filled = words(texture, [0] * array.shape[3])
        return [int(bits[i]) if i < array.shape[3] else filled[i] for i in range(4)]
    raw = [array[place][channel] for channel in range(array.shape[3])]
    if texture.promotes:
        return words(texture, [promoted(texture, int(x), i) for i, x in enumerate(raw)])
    return words(texture, [x.item() for x in raw])


def exact(x: float) -> Fraction | None:
    """None: there is no such number, and the coordinate is taken for 0."""
    if math.isnan(x):
        return None
    return Fraction(x) if math.isfinite(x) else (HUGE if x > 0 else -HUGE)


def position(texture: Texture, x: float | Fraction, extent: int, mode: str, normalized: bool) -> Fraction:
    """In elements, wrapped or mirrored."""
    infinite = isinstance(x, float) and math.isinf(x)
    number = x if isinstance(x, Fraction) else exact(x)
    if number is None or (infinite and mode in ("wrap", "mirror")):
        return Fraction(0)
    if not normalized:
        return number
    whole = math.floor(number)
    if mode == "wrap":
        number -= whole
    elif mode == "mirror":
        number = 1 - (number - whole) if whole % 2 else number - whole
    return number * extent


def settled(index: int, extent: int, mode: str) -> int:
    if 0 <= index < extent:
        return index
    if mode == "border":
        return -1
    if mode == "wrap":
        return index % extent
    return min(max(index, 0), extent - 1)


def axis(
    texture: Texture, x: float | Fraction, extent: int, *, linear: bool, face: bool = False
) -> list[tuple[int, Fraction]]:
    """Which elements along one dimension, and their weights."""
    normalized = texture.normalized or face
    mode = "clamp" if face else texture.mode
    if mode in ("wrap", "mirror") and not normalized:
        mode = "clamp"
    at = position(texture, x, extent, mode, normalized)
    if not linear:
        index = math.floor(at)
        return [(settled(index, extent, mode), Fraction(1))]
    at -= Fraction(1, 2)
    index = math.floor(at)
    second = Fraction(math.floor((at - index) * 256 + Fraction(1, 2)), 256)
    return [
        (settled(index, extent, mode), 1 - second),
        (settled(index + 1, extent, mode), second),
    ]


@dataclass
class Request:
    at: tuple[float, ...]
    layer: int = 0
    level: float | None = None
    dx: tuple[float, ...] | None = None
    dy: tuple[float, ...] | None = None


FACES = {
    # major axis and sign: number, s, t and their signs (the guide's table)
    (0, 1): (0, 2, -1, 1, -1),
    (0, -1): (1, 2, 1, 1, -1),
    (1, 1): (2, 0, 1, 2, 1),
    (1, -1): (3, 0, 1, 2, -1),
    (2, 1): (4, 0, 1, 1, -1),
    (2, -1): (5, 0, -1, 1, -1),
}


def projected(at: tuple[float, ...]) -> tuple[int, Fraction | float, Fraction | float]:
    """Face and place on it, from 0 to 1. Of equal sizes z comes first, then y."""
    sizes = [abs(x) for x in at]
    major = max((2, 1, 0), key=lambda i: sizes[i])
    sign = -1 if math.copysign(1, at[major]) < 0 else 1
    number, s, s_sign, t, t_sign = FACES[major, sign]
    m = sizes[major]
    if m == 0 or not all(map(math.isfinite, at)):
        raise ValueError("a direction that has no face")
    return (
        number,
        (Fraction(at[s]) * s_sign / Fraction(m) + 1) / 2,
        (Fraction(at[t]) * t_sign / Fraction(m) + 1) / 2,
    )


def in_level(texture: Texture, level: int, at: Sequence[float | Fraction], plane: int) -> list[int]:
    array = texture.levels[level]
    extents = [array.shape[2], array.shape[1], array.shape[0]]
    count = DIMENSIONS[texture.kind]
    face = texture.kind in ("cube", "acube")
    linear = texture.linear and texture.gives_floats
    axes = [axis(texture, at[i], extents[i], linear=linear, face=face) for i in range(count)]
    sums = [Fraction(0)] * 4
    for corner in itertools.product(*axes):
        weight = math.prod(part[1] for part in corner)
        if weight == 0:
            continue
        index = [part[0] for part in corner] + [0] * (3 - count)
        x, y, z = index[0], index[1], index[2] if count == 3 else plane
        found = element(texture, level, (z, y, x))
        if not linear:
            return found
        values = np.array(found, np.uint32).view(np.float32)
        sums = [total + weight * Fraction(float(v)) for total, v in zip(sums, values, strict=True)]
    return [int(np.float32(float(total)).view(np.uint32)) for total in sums]


def level_of(texture: Texture, request: Request) -> Fraction:
    level = 0.0 if request.level is None or math.isnan(request.level) else request.level
    if request.dx is not None and request.dy is not None:
        array = texture.levels[0]
        extents = [array.shape[2], array.shape[1], array.shape[0]]
        scale = extents if texture.normalized else [1, 1, 1]
        lengths = [
            math.sqrt(sum((d * s) ** 2 for d, s in zip(by, scale, strict=False)))
            for by in (request.dx, request.dy)
        ]
        level = math.log2(max(lengths)) if max(lengths) else -math.inf
    level = max(min(level + texture.bias, texture.greatest), texture.least)
    return Fraction(min(max(level, 0), len(texture.levels) - 1))


def sample(texture: Texture, request: Request) -> list[int]:
    plane = request.layer if texture.kind in ("a1d", "a2d") else 0
    at: Sequence[float | Fraction] = request.at
    planes = texture.levels[0].shape[0]
    if texture.kind in ("a1d", "a2d"):
        plane = min(plane & 0xFFFFFFFF, planes - 1)
    if texture.kind in ("cube", "acube"):
        number, s, t = projected(request.at)
        plane = number + (
            6 * min(request.layer & 0xFFFFFFFF, planes // 6 - 1) if texture.kind == "acube" else 0
        )
        at = (s, t)
    asked = level_of(texture, request)
    if not texture.between_levels or not texture.gives_floats:
        return in_level(texture, math.floor(asked + Fraction(1, 2)), at, plane)
    lower = math.floor(asked)
    second = Fraction(math.floor((asked - lower) * 256 + Fraction(1, 2)), 256)
    total = [Fraction(0)] * 4
    for level, weight in ((lower, 1 - second), (lower + 1, second)):
        if weight:
            values = np.array(in_level(texture, level, at, plane), np.uint32).view(np.float32)
            total = [a + weight * Fraction(float(v)) for a, v in zip(total, values, strict=True)]
    return [int(np.float32(float(x)).view(np.uint32)) for x in total]


def gathered(texture: Texture, request: Request, channel: int) -> list[int]:
    """One channel of the four elements of a bilinear filter: those of the next row first."""
    plane, at = request.layer, request.at
    if texture.kind == "cube":
        plane, *at = projected(request.at)  # type: ignore[assignment]
    array = texture.levels[0]
    face = texture.kind == "cube"
    (x0, _), (x1, _) = axis(texture, at[0], array.shape[2], linear=True, face=face)
    (y0, _), (y1, _) = axis(texture, at[1], array.shape[1], linear=True, face=face)
    places = ((y1, x0), (y1, x1), (y0, x1), (y0, x0))
    return [element(texture, 0, (plane, y, x))[channel] for y, x in places]
