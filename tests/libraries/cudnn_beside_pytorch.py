"""cuDNN's CTC loss and spatial transformers beside PyTorch's on the CPU, in sizes that programs have. It
prints as JSON how far they are apart, and runs in a Python that has PyTorch.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import sys
from collections.abc import Iterator

import numpy as np
import torch
from torch.nn import functional

from tests.libraries import ctc
from tests.libraries.cudnn_on_device import DOUBLE, FLOAT, Cudnn, Kind, Scale, Tensor, random
from tests.libraries.on_device import OnDevice, apart, start, worst_of
from tests.libraries.recurrent import at, ints

numbers = np.random.default_rng(3)
FILLED = 1e30
"""What memory has that must be written."""
Results = Iterator[tuple[str, float]]


def losses(dnn: Cudnn) -> Results:
    for (steps, sequences, classes), layout, run in itertools.product(
        ((50, 6, 20), (30, 3, 2), (7, 40, 100)), ("nchw", "nhwc", "gaps"), (ctc.older, ctc.newer)
    ):
        shape, most = (steps, sequences, classes), steps // 2 + 1  # repeats of few classes may be too many
        counts = [int(n) for n in numbers.integers(0, most, sequences)]
        lengths = [int(n) for n in numbers.integers(most, steps + 1, sequences)]
        labels = [int(n) for n in numbers.integers(1, classes, sum(counts))]
        values = random(FLOAT, *shape)
        on = Tensor(dnn, values, FLOAT, layout), Tensor(dnn, np.full(shape, FILLED), FLOAT, layout)
        costs = OnDevice(np.full(sequences, np.nan, "float32"))
        run(dnn, (*on, costs), (ctc.ACTIVATIONS, ctc.ZEROS), (labels, counts, lengths))
        x = torch.tensor(values, requires_grad=True)
        wanted = functional.ctc_loss(
            *(
                functional.log_softmax(x, -1),
                torch.tensor(labels),
                torch.tensor(lengths),
                torch.tensor(counts),
            ),
            reduction="none",
            zero_infinity=False,
        )
        possible = torch.isfinite(wanted)
        wanted[possible].sum().backward()
        found = costs.get().astype("float64")
        yield "possible", 0.0 if np.array_equal(np.isfinite(found), possible.numpy()) else 1.0
        yield "loss", apart(found[possible], wanted[possible].detach().numpy())
        # PyTorch's slopes of what is impossible are no numbers.
        slopes = np.where(possible[None, :, None], x.grad.numpy(), 0)
        yield "slopes", apart(on[1].get(), slopes)


def grids(dnn: Cudnn) -> Results:
    sizes = ((2, 3, 17, 9), (1, 1, 1, 5), (3, 2, 8, 8)), ((11, 13), (4, 1), (8, 8))
    for (shape, (height, width)), (name, kind), layout in itertools.product(
        zip(*sizes, strict=True), (("float", FLOAT), ("double", DOUBLE)), ("nchw", "nhwc", "gaps")
    ):
        n, c, _, _ = shape
        by = dnn.descriptor(
            *("SpatialTransformer", "SpatialTransformerNd", 0, kind.code, 4, ints((n, c, height, width)))
        )
        yield from maps(dnn, by, (n, c, height, width), (name, kind))
        x, dy = random(kind, *shape), random(kind, n, c, height, width)
        grid = kind.rounded(numbers.uniform(-1.4, 1.4, (n, height, width, 2)))
        X, DX, Y, DY = (
            Tensor(dnn, values, kind, layout) for values in (x, x * 0 + FILLED, dy * 0 + FILLED, dy)
        )
        Grid, DGrid = OnDevice(kind.to(grid)), OnDevice(kind.to(grid * np.nan))
        one, zero = Scale(1, kind), Scale(0, kind)
        dnn("cudnnSpatialTfSamplerForward", by, one, X, at(Grid), zero, Y)
        dnn("cudnnSpatialTfSamplerBackward", by, one, X, zero, DX, one, DY, at(Grid), zero, at(DGrid))
        image, places = (torch.tensor(values, requires_grad=True) for values in (x, grid))
        wanted = functional.grid_sample(image, places, "bilinear", "zeros", align_corners=True)
        wanted.backward(torch.tensor(dy))
        yield f"sample-{name}", apart(Y.get(), wanted.detach().numpy())
        yield f"sample-x-{name}", apart(DX.get(), image.grad.numpy())
        yield f"sample-grid-{name}", apart(DGrid.get().astype("float64"), places.grad.numpy())


def maps(dnn: Cudnn, by: ctypes.c_void_p, size: tuple[int, ...], of: tuple[str, Kind]) -> Results:
    name, kind = of
    theta, slopes = random(kind, size[0], 2, 3), random(kind, size[0], *size[2:], 2)
    Theta, Grid, DGrid = (OnDevice(kind.to(values)) for values in (theta, slopes * np.nan, slopes))
    dnn("cudnnSpatialTfGridGeneratorForward", by, at(Theta), at(Grid))
    DTheta = OnDevice(kind.to(theta * np.nan))
    dnn("cudnnSpatialTfGridGeneratorBackward", by, at(DGrid), at(DTheta))
    given = torch.tensor(theta, requires_grad=True)
    wanted = functional.affine_grid(given, list(size), align_corners=True)
    wanted.backward(torch.tensor(slopes))
    yield f"grid-{name}", apart(Grid.get().astype("float64"), wanted.detach().numpy())
    yield f"map-{name}", apart(DTheta.get().astype("float64"), given.grad.numpy())


def main(library: str) -> None:
    start()
    dnn = Cudnn(library)
    print(json.dumps(worst_of(itertools.chain(losses(dnn), grids(dnn)))))


main(*sys.argv[1:])
