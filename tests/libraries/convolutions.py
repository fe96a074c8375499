"""cuDNN's convolutions and poolings against NumPy."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tests.libraries.cudnn_on_device import FLOAT, KINDS, Cudnn, Filter, Kind, Scale, Tensor, random
from tests.libraries.on_device import apart

Results = Iterator[tuple[str, float]]


@dataclass(frozen=True)
class Case:
    """x of this shape by so many filters with this window."""

    x: tuple[int, ...]
    filters: int
    window: tuple[int, ...]
    pads: tuple[int, ...]
    steps: tuple[int, ...]
    dilations: tuple[int, ...]
    groups: int = 1
    mode: int = 1
    more: tuple[int, ...] = ()  # windows beyond those that fit

    @property
    def w(self) -> tuple[int, ...]:
        return (self.filters, self.x[1] // self.groups, *self.window)

    @property
    def y(self) -> tuple[int, ...]:
        each = zip(self.x[2:], self.window, self.pads, self.steps, self.dilations, strict=True)
        places = [(size + 2 * pad - ((k - 1) * d + 1)) // step + 1 for size, k, pad, step, d in each]
        more = self.more or (0,) * len(places)
        return (self.x[0], self.filters, *(p + m for p, m in zip(places, more, strict=True)))


CASES = [
    Case((2, 3, 7, 9), 4, (3, 3), (1, 1), (1, 1), (1, 1)),
    Case((3, 4, 9, 8), 6, (3, 2), (0, 1), (2, 3), (1, 1), groups=2),
    Case((1, 2, 11, 10), 3, (3, 3), (2, 2), (1, 2), (2, 3)),
    Case((2, 6, 5, 5), 6, (3, 3), (1, 1), (1, 1), (1, 1), groups=6),
    Case((2, 5, 6, 7), 3, (1, 1), (0, 0), (1, 1), (1, 1)),
    Case((2, 3, 6, 6), 2, (2, 3), (1, 0), (1, 1), (1, 1), mode=0),
    Case((2, 3, 5, 6, 4), 4, (2, 3, 3), (1, 1, 0), (1, 2, 1), (1, 1, 1)),
    Case((1, 4, 1, 1), 8, (1, 1), (0, 0), (1, 1), (1, 1)),
    Case((1, 1, 1, 70000), 1, (1, 5), (0, 2), (1, 1), (1, 1)),
    Case((2, 8, 40, 40), 16, (5, 5), (2, 2), (1, 1), (1, 1)),
]


def taps(case: Case) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """Each place of the window, and where in the padded image it lies for all places of the result."""
    for tap in itertools.product(*(range(k) for k in case.window)):
        at = [k - 1 - t if case.mode == 0 else t for k, t in zip(case.window, tap, strict=True)]
        starts = [a * d for a, d in zip(at, case.dilations, strict=True)]
        yield (
            tap,
            tuple(
                slice(start, start + (places - 1) * step + 1, step)
                for start, places, step in zip(starts, case.y[2:], case.steps, strict=True)
            ),
        )


def padded(x: np.ndarray, case: Case) -> np.ndarray:
    return np.pad(x, [(0, 0), (0, 0), *((pad, pad) for pad in case.pads)])


def flat(images: np.ndarray) -> np.ndarray:
    """Space as one axis."""
    return images.reshape(*images.shape[:2], -1)


def split(case: Case) -> Iterator[tuple[slice, slice]]:
    """Channels and filters of each group."""
    channels, filters = case.x[1] // case.groups, case.filters // case.groups
    for g in range(case.groups):
        yield slice(g * channels, (g + 1) * channels), slice(g * filters, (g + 1) * filters)


def forward(case: Case, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    y, wide = np.zeros(case.y), padded(x, case)
    for (channels, filters), (tap, part) in itertools.product(split(case), list(taps(case))):
        image = wide[(slice(None), channels, *part)]
        y[:, filters] += np.einsum("nc...,kc->nk...", image, w[(filters, slice(None), *tap)])
    return y


def back_to_data(case: Case, w: np.ndarray, dy: np.ndarray) -> np.ndarray:
    wide = padded(np.zeros(case.x), case)
    for (channels, filters), (tap, part) in itertools.product(split(case), list(taps(case))):
        share = np.einsum("nk...,kc->nc...", dy[:, filters], w[(filters, slice(None), *tap)])
        wide[(slice(None), channels, *part)] += share
    inner = tuple(slice(pad, pad + size) for pad, size in zip(case.pads, case.x[2:], strict=True))
    return wide[(slice(None), slice(None), *inner)]


def back_to_filter(case: Case, x: np.ndarray, dy: np.ndarray) -> np.ndarray:
    dw, wide = np.zeros(case.w), padded(x, case)
    for (channels, filters), (tap, part) in itertools.product(split(case), list(taps(case))):
        image = wide[(slice(None), channels, *part)]
        dw[(filters, slice(None), *tap)] = np.einsum("nkp,ncp->kc", flat(dy[:, filters]), flat(image))
    return dw


def each_case() -> Iterator[tuple[str, Case, Kind, str, tuple[float, float]]]:
    """All cases in single precision by layout; some of them in other types, and with other scalars."""
    for (number, case), layout in itertools.product(enumerate(CASES), ("nchw", "nhwc", "gaps")):
        yield "float", case, FLOAT, layout, (1, 0) if number % 2 else (0.5, 2)
    for (name, kind), case in itertools.product(KINDS.items(), CASES[:4]):
        if name != "float":
            yield name, case, kind, "nchw", (1.5, 0.5)


def filter_layout(layout: str) -> str:
    return "nhwc" if layout == "nhwc" else "nchw"


def convolution(dnn: Cudnn) -> Results:
    for name, case, kind, layout, (alpha, beta) in each_case():
        x, w, y = (random(kind, *shape) for shape in (case.x, case.w, case.y))
        by = dnn.convolution(case.pads, case.steps, case.dilations, case.groups, case.mode)
        a, b = Scale(alpha, kind), Scale(beta, kind)
        work = (by, 1, None, 0, b)

        def on_device(layout: str = layout, kind: Kind = kind, x=x, w=w, y=y) -> list[Tensor]:
            return [
                Tensor(dnn, x, kind, layout),
                Filter(dnn, w, kind, filter_layout(layout)),
                Tensor(dnn, y, kind, layout),
            ]

        X, W, Y = on_device()
        dnn("cudnnConvolutionForward", a, X, W, *work, Y)
        yield f"forward-{name}", apart(Y.get(), alpha * forward(case, x, w) + beta * y)
        X, W, Y = on_device()
        dnn("cudnnConvolutionBackwardData", a, W, Y, *work, X)
        yield f"data-{name}", apart(X.get(), alpha * back_to_data(case, w, y) + beta * x)
        X, W, Y = on_device()
        dnn("cudnnConvolutionBackwardFilter", a, X, Y, *work, W)
        yield f"filter-{name}", apart(W.get(), alpha * back_to_filter(case, x, y) + beta * w)


def bias(dnn: Cudnn) -> Results:
    for (name, kind), layout in itertools.product(KINDS.items(), ("nchw", "nhwc", "gaps")):
        dy, db = random(kind, 3, 4, 5, 6), random(kind, 1, 4, 1, 1)
        DY, DB = Tensor(dnn, dy, kind, layout), Tensor(dnn, db, kind)
        dnn("cudnnConvolutionBackwardBias", Scale(2, kind), DY, Scale(0.5, kind), DB)
        yield f"bias-{name}", apart(DB.get(), 2 * dy.sum((0, 2, 3), keepdims=True) + 0.5 * db)


def fused(dnn: Cudnn) -> Results:
    """A convolution, what is added to it, and a rectifier."""
    case = CASES[1]
    by = dnn.convolution(case.pads, case.steps, case.dilations, case.groups)
    relu = dnn.descriptor("Activation", "Activation", 1, 0, ctypes.c_double(0))
    for (name, kind), layout, beta in itertools.product(KINDS.items(), ("nchw", "nhwc"), (0.0, 0.5)):
        x, w, z = random(kind, *case.x), random(kind, *case.w), random(kind, *case.y)
        shift = random(kind, 1, case.filters, 1, 1)
        Y = Tensor(dnn, z, kind, layout)
        dnn(
            *("cudnnConvolutionBiasActivationForward", Scale(0.75, kind), Tensor(dnn, x, kind, layout)),
            *(Filter(dnn, w, kind, layout), by, 1, None, 0, Scale(beta, kind)),
            *(Tensor(dnn, z, kind, layout), Tensor(dnn, shift, kind), relu, Y),
        )
        wanted = np.maximum(0.75 * forward(case, x, w) + beta * z + shift, 0)
        yield f"fused-{name}", apart(Y.get(), wanted)


def windows(x: np.ndarray, case: Case, fill: float) -> np.ndarray:
    """The numbers of each place's window, along the last axis."""
    wide = np.pad(x, [(0, 0), (0, 0), *((pad, pad + 9) for pad in case.pads)], constant_values=fill)
    return np.stack([wide[(slice(None), slice(None), *part)] for _, part in taps(case)], -1)


POOLS = [
    Case((2, 3, 8, 9), 3, (2, 2), (0, 0), (2, 2), (1, 1)),
    Case((2, 3, 7, 9), 3, (3, 3), (1, 1), (2, 1), (1, 1)),
    Case((1, 2, 6, 5, 7), 2, (3, 2, 2), (1, 0, 1), (1, 2, 2), (1, 1, 1)),
    Case((2, 2, 6, 7), 2, (3, 3), (0, 0), (2, 2), (1, 1), more=(1, 1)),
]


def pooled(mode: int, x: np.ndarray, case: Case) -> np.ndarray:
    if mode in (0, 3):
        return windows(x, case, -np.inf).max(-1)
    total = windows(x, case, 0).sum(-1)
    inside = windows(np.ones_like(x), case, 0).sum(-1)
    return total / (inside if mode == 2 else np.prod(case.window))


def gradient(function: Callable[[np.ndarray], float], x: np.ndarray) -> np.ndarray:
    """By small steps in each number."""
    result, step = np.zeros_like(x), 1e-5
    for place in np.ndindex(x.shape):
        there, back = x.copy(), x.copy()
        there[place] += step
        back[place] -= step
        result[place] = (function(there) - function(back)) / (2 * step)
    return result


def pooling(dnn: Cudnn) -> Results:
    for (name, kind), case, mode, layout in itertools.product(
        KINDS.items(), POOLS, (0, 1, 2, 3), ("nchw", "nhwc", "gaps")
    ):
        x, dy = random(kind, *case.x), random(kind, *case.y)
        ints = _ints(case.window), _ints(case.pads), _ints(case.steps)
        by = dnn.descriptor("Pooling", "PoolingNd", mode, 1, len(case.window), *ints)
        one, two, half = Scale(1, kind), Scale(2, kind), Scale(0.5, kind)
        X, Y = Tensor(dnn, x, kind, layout), Tensor(dnn, dy, kind, layout)
        dnn("cudnnPoolingForward", by, two, X, half, Y)
        yield f"pool-{name}", apart(Y.get(), 2 * pooled(mode, x, case) + 0.5 * dy)
        if name == "double" and layout == "nhwc":
            Y, DX = Tensor(dnn, pooled(mode, x, case), kind, layout), Tensor(dnn, x, kind, layout)
            DY = Tensor(dnn, dy, kind, layout)
            dnn("cudnnPoolingBackward", by, one, Y, DY, X, half, DX)
            slope = gradient(lambda at, m=mode, c=case, d=dy: float((pooled(m, at, c) * d).sum()), x)
            yield "pool-back", apart(DX.get(), slope + 0.5 * x)


def _ints(values: Sequence[int]) -> ctypes.Array[ctypes.c_int]:
    return (ctypes.c_int * len(values))(*values)
