"""cuDNN's graphs of one convolution against NumPy, built as cuDNN's frontend builds them."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterator

import numpy as np

from tests.libraries.convolutions import (
    CASES,
    back_to_data,
    back_to_filter,
    filter_layout,
    forward,
)
from tests.libraries.cudnn_on_device import DOUBLE, FLOAT, HALF, KINDS, Cudnn, Tensor, apart, random

# Types of attributes, kinds of descriptors, and the first attribute of each operation, which is alpha.
TYPE, FLAG, LONG, SINGLE, REAL, POINTER, MODE, HEURISTIC, PART = 1, 2, 3, 4, 5, 6, 7, 8, 15
ENGINE, CONFIG, HEURISTICS, PLAN, GRAPH, PACK, TENSOR = 2, 3, 4, 5, 15, 16, 17
FORWARD, FILTER, DATA = (10, 700), (11, 712), (12, 706)


class Backend:
    """A descriptor of the backend API."""

    def __init__(self, dnn: Cudnn, kind: int) -> None:
        self.library, self.made = dnn.library, ctypes.c_void_p()
        assert self.library.cudnnBackendCreateDescriptor(kind, ctypes.byref(self.made)) == 0

    def set(self, name: int, kind: int, *values: object) -> Backend:
        of = {LONG: ctypes.c_int64, SINGLE: ctypes.c_float, REAL: ctypes.c_double, FLAG: ctypes.c_bool}
        of |= {POINTER: ctypes.c_void_p, PART: ctypes.c_void_p}
        plain = [value.made if isinstance(value, Backend) else value for value in values]
        array = (of.get(kind, ctypes.c_int) * len(plain))(*plain)
        status = self.library.cudnnBackendSetAttribute(
            self.made, name, kind, ctypes.c_int64(len(plain)), array
        )
        assert status == 0, (name, status)
        return self

    def finish(self) -> Backend:
        status = self.status()
        assert status == 0, status
        return self

    def status(self) -> int:
        return int(self.library.cudnnBackendFinalize(self.made))

    def get(self, name: int, kind: int, room: int, values: object) -> int:
        """How many there are; as many as there is room for are put into `values`."""
        count = ctypes.c_int64(-1)
        status = self.library.cudnnBackendGetAttribute(
            self.made, name, kind, ctypes.c_int64(room), ctypes.byref(count), values
        )
        assert status == 0, (name, status)
        return count.value


def tensor(dnn: Cudnn, id_: int, of: Tensor) -> Backend:
    made = Backend(dnn, TENSOR).set(901, TYPE, of.kind.code).set(902, LONG, *of.shape)
    return made.set(903, LONG, *of.strides).set(906, LONG, id_).set(900, LONG, 16).finish()


Numbers = tuple[int, ...]


def convolution(
    dnn: Cudnn, before: Numbers, after: Numbers, steps: Numbers, dilations: Numbers, mode: int
) -> Backend:
    made = Backend(dnn, 1).set(100, TYPE, 0).set(101, MODE, mode).set(106, LONG, len(before))
    made.set(102, LONG, *dilations).set(103, LONG, *steps).set(104, LONG, *after)
    return made.set(105, LONG, *before).finish()


def operation(
    dnn: Cudnn, what: tuple[int, int], alpha: float, beta: float, by: Backend, *parts: Backend
) -> Backend:
    """Of image, filter and result."""
    x, w, y = parts
    kind, first = what
    made = Backend(dnn, kind).set(first, SINGLE, alpha).set(first + 1, REAL, beta).set(first + 2, PART, by)
    return made.set(first + 3, PART, w).set(first + 4, PART, x).set(first + 5, PART, y).finish()


def plan_of(dnn: Cudnn, graph: Backend) -> Backend:
    """By the heuristics' only engine, which wants no memory to work in."""
    heuristics = Backend(dnn, HEURISTICS).set(201, PART, graph).set(200, HEURISTIC, 0).finish()
    assert heuristics.get(202, PART, 0, None) == 1
    config = Backend(dnn, CONFIG)
    assert heuristics.get(202, PART, 1, ctypes.byref(config.made)) == 1
    plan = Backend(dnn, PLAN).set(401, PART, config).finish()
    size = ctypes.c_int64(77)
    assert plan.get(402, LONG, 1, ctypes.byref(size)) == 1
    assert size.value == 0
    return plan


def graphs(dnn: Cudnn) -> Iterator[tuple[str, float]]:
    names = ("forward", FORWARD), ("data", DATA), ("filter", FILTER)
    kinds = [("float", FLOAT), ("half", HALF), ("bfloat16", KINDS["bfloat16"]), ("double", DOUBLE)]
    for case, layout, (name, what), (kind_name, kind) in itertools.product(
        CASES[:7], ("nchw", "nhwc"), names, kinds
    ):
        x, w, y = (random(kind, *shape) for shape in (case.x, case.w, case.y))
        X, Y = Tensor(dnn, x, kind, layout), Tensor(dnn, y, kind, layout)
        W = Tensor(dnn, w, kind, filter_layout(layout))
        by = convolution(dnn, case.pads, case.pads, case.steps, case.dilations, case.mode)
        parts = (tensor(dnn, id_, of) for id_, of in ((ord("x"), X), (ord("w"), W), (ord("y"), Y)))
        graph = Backend(dnn, GRAPH).set(801, PART, operation(dnn, what, 2, 0.5, by, *parts)).finish()
        pointers = [of.passed[1].value for of in (Y, X, W)]
        pack = Backend(dnn, PACK).set(1000, LONG, ord("y"), ord("x"), ord("w")).set(1001, POINTER, *pointers)
        dnn("cudnnBackendExecute", plan_of(dnn, graph).made, pack.set(1003, POINTER, None).finish().made)
        wanted, result = {
            "forward": lambda c=case, x=x, w=w, y=y, t=Y: (2 * forward(c, x, w) + 0.5 * y, t),
            "data": lambda c=case, x=x, w=w, y=y, t=X: (2 * back_to_data(c, w, y) + 0.5 * x, t),
            "filter": lambda c=case, x=x, w=w, y=y, t=W: (2 * back_to_filter(c, x, y) + 0.5 * w, t),
        }[name]()
        yield f"graph-{name}-{kind_name}", apart(result.get(), wanted)
    yield "one-sided", one_sided(dnn)


def one_sided(dnn: Cudnn) -> float:
    """A pad at the end alone, as TensorFlow's SAME has it."""
    x, w = random(FLOAT, 1, 2, 6, 6), random(FLOAT, 3, 2, 3, 3)
    wide = np.pad(x, [(0, 0), (0, 0), (0, 1), (0, 1)])
    wanted = sum(
        np.einsum("nchw,kc->nkhw", wide[:, :, i : i + 5 : 2, j : j + 5 : 2], w[:, :, i, j])
        for i, j in itertools.product(range(3), range(3))
    )
    X, W, Y = Tensor(dnn, x, FLOAT), Tensor(dnn, w, FLOAT), Tensor(dnn, np.zeros((1, 3, 3, 3)), FLOAT)
    by = convolution(dnn, (0, 0), (1, 1), (2, 2), (1, 1), 1)
    parts = (tensor(dnn, id_, of) for id_, of in enumerate((X, W, Y)))
    graph = Backend(dnn, GRAPH).set(801, PART, operation(dnn, FORWARD, 1, 0, by, *parts)).finish()
    pack = Backend(dnn, PACK).set(1000, LONG, 0, 1, 2)
    pack.set(1001, POINTER, *(of.passed[1].value for of in (X, W, Y))).finish()
    dnn("cudnnBackendExecute", plan_of(dnn, graph).made, pack.made)
    return apart(Y.get(), wanted)
