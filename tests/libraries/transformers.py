"""cuDNN's spatial transformers against NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from tests.libraries.convolutions import gradient
from tests.libraries.cudnn_on_device import DOUBLE, FLOAT, KINDS, Cudnn, Scale, Tensor, random
from tests.libraries.on_device import OnDevice, apart
from tests.libraries.recurrent import at, ints

Results = Iterator[tuple[str, float]]


def placed(theta: np.ndarray, height: int, width: int) -> np.ndarray:
    y, x = np.meshgrid(np.linspace(-1, 1, height), np.linspace(-1, 1, width), indexing="ij")
    return np.einsum("nij,hwj->nhwi", theta, np.stack([x, y, np.ones_like(x)], -1))


def sampled(x: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Between the four nearest numbers; outside there are zeros."""
    (n, c, height, width), (_, h, w, _) = x.shape, grid.shape
    wide = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
    y = np.zeros((n, c, h, w))
    for i, j, k in itertools.product(range(n), range(h), range(w)):
        across = (grid[i, j, k, 0] + 1) / 2 * (width - 1) + 1
        down = (grid[i, j, k, 1] + 1) / 2 * (height - 1) + 1
        if not (0 < across < width + 1 and 0 < down < height + 1):
            continue
        left, top = int(across), int(down)
        right_share, low_share = across - left, down - top
        upper = (1 - right_share) * wide[i, :, top, left] + right_share * wide[i, :, top, left + 1]
        lower = (1 - right_share) * wide[i, :, top + 1, left] + right_share * wide[i, :, top + 1, left + 1]
        y[i, :, j, k] = (1 - low_share) * upper + low_share * lower
    return y


def transformers(dnn: Cudnn) -> Results:
    for (name, kind), layout in itertools.product(KINDS.items(), ("nchw", "nhwc", "gaps")):
        images, channels, height, width = 2, 3, 4, 5
        by = dnn.descriptor(
            *("SpatialTransformer", "SpatialTransformerNd", 0, kind.code, 4),
            ints((images, channels, height, width)),
        )
        theta = kind.rounded(random(kind, images, 2, 3) * 0.8)
        Theta = OnDevice(kind.to(theta))
        Grid = OnDevice(kind.to(np.zeros((images, height, width, 2))))
        dnn("cudnnSpatialTfGridGeneratorForward", by, at(Theta), at(Grid))
        grid = kind.back(Grid.get()).astype("float64")
        yield f"grid-{name}", apart(grid, placed(theta, height, width))
        d_grid = random(kind, *grid.shape)
        DTheta, DGrid = OnDevice(kind.to(theta)), OnDevice(kind.to(d_grid))
        dnn("cudnnSpatialTfGridGeneratorBackward", by, at(DGrid), at(DTheta))
        places = grid.shape[1:3]
        slope = gradient(lambda t, d=d_grid, p=places: float((placed(t, *p) * d).sum()), theta)
        yield f"grid-back-{name}", apart(kind.back(DTheta.get()).astype("float64"), slope)

        x, y = random(kind, images, channels, 6, 7), random(kind, images, channels, height, width)
        X, Y = Tensor(dnn, x, kind, layout), Tensor(dnn, y, kind, layout)
        two, half = Scale(2, kind), Scale(0.5, kind)
        dnn("cudnnSpatialTfSamplerForward", by, two, X, at(Grid), half, Y)
        yield f"sample-{name}", apart(Y.get(), 2 * sampled(x, grid) + 0.5 * y)
        if kind is not DOUBLE:
            continue
        DX, DY = Tensor(dnn, x, kind, layout), Tensor(dnn, y, kind, layout)
        before = d_grid
        dnn("cudnnSpatialTfSamplerBackward", by, two, X, half, DX, two, DY, at(Grid), half, at(DGrid))
        slope = gradient(lambda a, g=grid, d=y: float((sampled(a, g) * d).sum()), x)
        yield "sample-back", apart(DX.get(), 2 * slope + 0.5 * x)
        slope = gradient(lambda g, a=x, d=y: float((sampled(a, g) * d).sum()), grid)
        yield "sample-back-grid", apart(DGrid.get(), 2 * slope + 0.5 * before)
    yield from nowhere(dnn)
    yield from one_place(dnn)


def nowhere(dnn: Cudnn) -> Results:
    """Places that are no numbers, or far away, are outside."""
    by = dnn.descriptor("SpatialTransformer", "SpatialTransformerNd", 0, 0, 4, ints((1, 1, 1, 4)))
    wild = np.array([[np.nan, 0], [np.inf, 0], [-1e30, 1e30], [0, 3]], "float32")
    X, Y = (Tensor(dnn, np.ones(shape), FLOAT) for shape in ((1, 1, 3, 3), (1, 1, 1, 4)))
    Wild = OnDevice(wild)
    dnn("cudnnSpatialTfSamplerForward", by, Scale(1, FLOAT), X, at(Wild), Scale(0, FLOAT), Y)
    yield "nowhere", apart(Y.get(), np.zeros((1, 1, 1, 4)))
    DX, DGrid = Tensor(dnn, np.ones((1, 1, 3, 3)), FLOAT), OnDevice(np.ones((4, 2), "float32"))
    given = Scale(1, FLOAT), X, Scale(0, FLOAT), DX, Scale(1, FLOAT), Y, at(Wild), Scale(0, FLOAT), at(DGrid)
    dnn("cudnnSpatialTfSamplerBackward", by, *given)
    yield "nowhere", max(apart(DX.get(), np.zeros((1, 1, 3, 3))), apart(DGrid.get(), np.zeros((4, 2))))


def one_place(dnn: Cudnn) -> Results:
    """Of an axis with one place that is the middle."""
    by = dnn.descriptor("SpatialTransformer", "SpatialTransformerNd", 0, 0, 4, ints((1, 1, 1, 3)))
    theta = random(FLOAT, 1, 2, 3)
    Theta, Grid = OnDevice(FLOAT.to(theta)), OnDevice(np.zeros((1, 1, 3, 2), "float32"))
    dnn("cudnnSpatialTfGridGeneratorForward", by, at(Theta), at(Grid))
    wanted = np.stack([theta @ (x, 0.0, 1.0) for x in (-1, 0, 1)], 1)[:, None]
    yield "one-place", apart(Grid.get().astype("float64"), wanted)
