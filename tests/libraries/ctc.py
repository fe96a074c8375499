"""cuDNN's CTC loss against its definition, in NumPy."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from tests.libraries.convolutions import gradient
from tests.libraries.cudnn_on_device import BAD_PARAMETER, FLOAT, Cudnn, Tensor, random
from tests.libraries.on_device import OnDevice, apart
from tests.libraries.recurrent import at, ints

Results = Iterator[tuple[str, float]]
PROBABILITIES, ACTIVATIONS = 0, 1
ZEROS, LEFT = 0, 1


def collapsed(path: Sequence[int]) -> tuple[int, ...]:
    """Repeats are one, and blanks are left out."""
    return tuple(label for label, _ in itertools.groupby(path) if label != 0)


def loss(probabilities: np.ndarray, labels: Sequence[int]) -> float:
    """By its definition: over all paths that collapse to the labels. ``probabilities``: steps by classes."""
    steps, classes = probabilities.shape
    paths = (path for path in itertools.product(range(classes), repeat=steps) if collapsed(path) == labels)
    total = sum(float(np.prod(probabilities[np.arange(steps), list(path)])) for path in paths)
    return -float(np.log(total)) if total > 0 else float("inf")


def softmax(x: np.ndarray) -> np.ndarray:
    shifted = np.exp(x - x.max(-1, keepdims=True))
    return shifted / shifted.sum(-1, keepdims=True)


LABELS = ((1, 2), (2, 2), (), (1, 2, 1, 2, 1, 2), (1,), (1, 1, 1), ())
LENGTHS = (5, 4, 3, 4, 1, 4, 0)  # the fourth has more labels than steps, the sixth no steps for blanks
SHAPE = (5, len(LABELS), 3)
FILLED = 3.0
"""What the slopes' memory has before."""


def classification(dnn: Cudnn) -> Results:
    lists = [label for each in LABELS for label in each], [len(each) for each in LABELS], LENGTHS
    for normalization, layout, mode, run in itertools.product(
        (PROBABILITIES, ACTIVATIONS), ("nchw", "gaps"), (ZEROS, LEFT), (older, newer, costs_alone)
    ):
        x = random(FLOAT, *SHAPE)
        given = x if normalization == ACTIVATIONS else FLOAT.rounded(softmax(x))
        on = Tensor(dnn, given, FLOAT, layout), Tensor(dnn, np.full(SHAPE, FILLED), FLOAT, layout)
        costs = OnDevice(np.full(len(LABELS), np.nan, "float32"))
        run(dnn, (*on, costs), (normalization, mode), lists)
        wanted = np.zeros(SHAPE)
        for n, labels in enumerate(LABELS):
            # Slopes are of what softmax takes, whichever is given.
            rows = given[: LENGTHS[n], n] if normalization == ACTIVATIONS else np.log(given[: LENGTHS[n], n])

            def cost(a: np.ndarray, labels: tuple[int, ...] = labels) -> float:
                return loss(softmax(a), labels)

            expected, found = cost(rows) if len(rows) else 0.0, float(costs.get()[n])
            if np.isinf(expected):
                yield "impossible", 0.0 if found == np.inf else 1.0
                wanted[:, n] = FILLED if mode == LEFT else 0.0
                continue
            yield f"loss-{normalization}", abs(found - expected) / max(1.0, expected)
            wanted[: LENGTHS[n], n] = gradient(cost, rows.copy())
        if run is not costs_alone:
            yield f"slopes-{normalization}", apart(on[1].get(), wanted)
    yield from described(dnn)


On = tuple[Tensor, Tensor, OnDevice]
Given = tuple[Sequence[int], ...]


def newer(dnn: Cudnn, on: On, modes: tuple[int, int], lists: Given, slopes: bool = True) -> None:
    """With its lists on the device."""
    probs, gradients, costs = on
    by = dnn.descriptor("CTCLoss", "CTCLoss", 0, *modes, max(lists[1]), suffix="_v9")
    size = ctypes.c_size_t(77)
    dnn("cudnnGetCTCLossWorkspaceSize_v8", 0, by, *(t.descriptor for t in on[:2]), ctypes.byref(size))
    own = [OnDevice(np.array(each, "int32")) for each in lists]
    to = gradients.passed if slopes else (None, None)
    dnn("cudnnCTCLoss_v8", 0, by, probs, *(at(each) for each in own), at(costs), *to, size, None)


def costs_alone(dnn: Cudnn, on: On, modes: tuple[int, int], lists: Given) -> None:
    newer(dnn, on, modes, lists, slopes=False)
    assert (on[1].get() == FILLED).all()


def older(dnn: Cudnn, on: On, modes: tuple[int, int], lists: Given) -> None:
    """With its lists in the program's memory, which may go when it has returned."""
    probs, gradients, costs = on
    by, size = dnn.descriptor("CTCLoss", "CTCLoss", 0, *modes, suffix="Ex"), ctypes.c_size_t()
    own = [ints(each) for each in lists]
    tensors = probs.descriptor, gradients.descriptor
    dnn("cudnnGetCTCLossWorkspaceSize", *tensors, *own, 0, by, ctypes.byref(size))
    space = OnDevice(np.full(size.value, 0xEE, "uint8"))
    dnn("cudnnCTCLoss", probs, *own, at(costs), gradients, 0, by, at(space), size)
    for each in own:
        ctypes.memset(each, 0xEE, ctypes.sizeof(each))


def described(dnn: Cudnn) -> Results:
    """What a descriptor was set to is read again, by each of its functions."""
    made, values = ctypes.c_void_p(), ints([77] * 4)
    assert dnn.library.cudnnCreateCTCLossDescriptor(ctypes.byref(made)) == 0
    for suffix, given, wanted in (
        ("", (0,), [0]),
        ("Ex", (0, 1, 1), [0, 1, 1]),
        ("_v8", (0, 1, 0, 9), [0, 1, 0, 9]),
        ("_v9", (0, 0, 1, 5), [0, 0, 1, 5]),
    ):
        assert getattr(dnn.library, f"cudnnSetCTCLossDescriptor{suffix}")(made, *given) == 0
        places = [ctypes.byref(values, 4 * i) for i in range(len(given))]
        assert getattr(dnn.library, f"cudnnGetCTCLossDescriptor{suffix}")(made, *places) == 0
        yield "described", 0.0 if list(values)[: len(given)] == wanted else 1.0
    for wrong in ((0, 2, 0, 1), (0, 0, 2, 1), (0, 0, 0, -1), (77, 0, 0, 1)):
        status = dnn.library.cudnnSetCTCLossDescriptor_v9(made, *wrong)
        yield "described", 0.0 if status == BAD_PARAMETER else 1.0
