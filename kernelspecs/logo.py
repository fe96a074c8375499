"""The logo of a kernel spec: a chip whose green part is the share of the GPU that the kernel gets."""

from __future__ import annotations

import math

from gpu_kernels.units import Size

CENTRE, RADIUS = 32, 17
LEAST = 1 / 24
"""The smallest part that can still be seen at 32 pixels, of the circle."""
UNKNOWN = 1 / 8
"""What a size in MiB shows: how much of a GPU it is depends on the GPU."""


def share_path(size: Size) -> str:
    """The green part as an SVG path, clockwise from twelve o'clock; whole GPUs fill the circle."""
    part = UNKNOWN if size.gpus is None else max(LEAST, min(1.0, float(size.gpus)))
    if part >= 1:
        top, around = CENTRE - RADIUS, f"A{RADIUS} {RADIUS} 0 1 1"
        return f"M{CENTRE} {top}{around} {CENTRE} {CENTRE + RADIUS}{around} {CENTRE} {top}Z"
    angle = 2 * math.pi * part
    x, y = CENTRE + RADIUS * math.sin(angle), CENTRE - RADIUS * math.cos(angle)
    large = int(part > 0.5)
    return f"M{CENTRE} {CENTRE}V{CENTRE - RADIUS}A{RADIUS} {RADIUS} 0 {large} 1 {x:.2f} {y:.2f}Z"
