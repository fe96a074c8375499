"""cuDNN's graphs of convolutions against NumPy, built as cuDNN's frontend builds them."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterator

import numpy as np

from tests.libraries.convolutions import (
    CASES,
    Case,
    back_to_data,
    back_to_filter,
    filter_layout,
    forward,
)
from tests.libraries.cudnn_on_device import DOUBLE, FLOAT, HALF, KINDS, Cudnn, Kind, Tensor, random
from tests.libraries.on_device import apart

# Types of attributes, kinds of descriptors, and the first attribute of each operation, which is alpha.
TYPE, FLAG, LONG, SINGLE, REAL, POINTER, MODE, HEURISTIC, POINTWISE, PART = 1, 2, 3, 4, 5, 6, 7, 8, 14, 15
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


def tensor(dnn: Cudnn, id_: int, of: Tensor, inner: bool = False) -> Backend:
    """``inner``: what one operation gives to the next, which lies nowhere."""
    made = Backend(dnn, TENSOR).set(901, TYPE, of.kind.code).set(902, LONG, *of.shape)
    made.set(903, LONG, *of.strides).set(906, LONG, id_).set(900, LONG, 16)
    return (made.set(907, FLAG, True) if inner else made).finish()


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


def pointwise(
    dnn: Cudnn,
    mode: int,
    x: Backend,
    y: Backend,
    b: Backend | None = None,
    scales: tuple[float, float] = (1, 1),
    **by: float,
) -> Backend:
    """``by``: attributes of the mode, as ``_4=6`` for a ceiling."""
    of = Backend(dnn, 0).set(0, POINTWISE, mode).set(1, TYPE, 0)
    for name, value in by.items():
        of.set(int(name[1:]), REAL, value)
    made = Backend(dnn, 13).set(750, PART, of.finish()).set(751, PART, x).set(753, PART, y)
    if b is not None:
        made.set(752, PART, b).set(754, SINGLE, scales[0]).set(755, SINGLE, scales[1])
    return made.finish()


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


ADD, MULTIPLY, RELU, TANH, SIGMOID, ELU, GELU, SWISH = 0, 1, 100, 101, 102, 103, 104, 106
ACTIVATIONS = {
    "none": (None, {}, lambda y: y),
    "relu": (RELU, {"_3": 0.0, "_4": 1.7e308, "_5": 0.0}, lambda y: np.maximum(y, 0)),
    "relu6": (RELU, {"_4": 6.0}, lambda y: np.clip(y, 0, 6)),
    "tanh": (TANH, {}, np.tanh),
    "sigmoid": (SIGMOID, {}, lambda y: 1 / (1 + np.exp(-y))),
    "elu": (ELU, {"_6": 0.5}, lambda y: np.where(y > 0, y, 0.5 * np.expm1(y))),
    "swish": (SWISH, {"_8": 2.0}, lambda y: y / (1 + np.exp(-2 * y))),
}


class Row:
    """A convolution of ``case`` with what comes after it; what lies in memory has letters as numbers."""

    def __init__(self, dnn: Cudnn, case: Case, kind: Kind) -> None:
        self.dnn, self.operations = dnn, []
        shapes = {"x": case.x, "w": case.w, "y": case.y, "z": case.y, "b": (1, case.filters, 1, 1)}
        self.values = {name: random(kind, *shape) for name, shape in shapes.items()}
        self.memory = {name: Tensor(dnn, value, kind, "nhwc") for name, value in self.values.items()}
        self.on = {name: tensor(dnn, ord(name), of) for name, of in self.memory.items()}
        # Between operations numbers are in single precision, or double.
        inner = Tensor(dnn, self.values["y"], kind if kind is DOUBLE else FLOAT, "nhwc")
        self.inner = [tensor(dnn, i, inner, inner=True) for i in range(3)]
        by = convolution(dnn, case.pads, case.pads, case.steps, case.dilations, case.mode)
        self.start = operation(dnn, FORWARD, 1, 0, by, self.on["x"], self.on["w"], self.inner[0])

    def graph(self, *operations: Backend) -> Backend:
        return Backend(self.dnn, GRAPH).set(801, PART, *operations)

    def run(self, graph: Backend) -> np.ndarray:
        pack = Backend(self.dnn, PACK).set(1000, LONG, *(ord(name) for name in self.memory))
        pack.set(1001, POINTER, *(of.passed[1].value for of in self.memory.values())).finish()
        self.dnn("cudnnBackendExecute", plan_of(self.dnn, graph.finish()).made, pack.made)
        return self.memory["y"].get()


def fused_graphs(dnn: Cudnn) -> Iterator[tuple[str, float]]:
    """As XLA, TensorFlow and PyTorch build them; the operations' order does not matter."""
    kinds = [("float", FLOAT), ("half", HALF), ("bfloat16", KINDS["bfloat16"]), ("double", DOUBLE)]
    for case, (what, (mode, by, function)), second, (name, kind) in itertools.product(
        CASES[:2], ACTIVATIONS.items(), (None, 0.5, 0.0), kinds
    ):
        row = Row(dnn, case, kind)
        operations, inner = [row.start], row.inner[0]
        if second is not None:
            scales = 2.0, second
            operations.append(pointwise(dnn, ADD, inner, row.inner[1], row.on["z"], scales))
            inner = row.inner[1]
        last = row.on["y"] if mode is None else row.inner[2]
        operations.append(pointwise(dnn, ADD, inner, last, row.on["b"]))
        if mode is not None:
            operations.append(pointwise(dnn, mode, last, row.on["y"], **by))
        found = row.run(row.graph(*reversed(operations)))
        v = row.values
        total = forward(case, v["x"], v["w"]) * (1 if second is None else 2) + v["z"] * (second or 0) + v["b"]
        yield f"fused-{what}-{name}", apart(found, function(total))
    yield "of-one-place", of_one_place(dnn)


def of_one_place(dnn: Cudnn) -> float:
    """What is added to one number a channel could be a bias too."""
    row = Row(dnn, Case((1, 3, 1, 1), 4, (1, 1), (0, 0), (1, 1), (1, 1)), FLOAT)
    add = pointwise(dnn, ADD, row.inner[0], row.inner[1], row.on["z"])
    bias = pointwise(dnn, ADD, row.inner[1], row.inner[2], row.on["b"])
    found = row.run(row.graph(row.start, add, bias, pointwise(dnn, RELU, row.inner[2], row.on["y"])))
    v = row.values
    wanted = np.einsum("nchw,kchw->nk", v["x"], v["w"])[:, :, None, None] + v["z"] + v["b"]
    return apart(found, np.maximum(wanted, 0))


def refused_graphs(dnn: Cudnn) -> dict[str, Backend]:
    """None of them is finished."""
    row = Row(dnn, CASES[0], FLOAT)
    on, inner = row.on, row.inner
    bias = pointwise(dnn, ADD, inner[0], inner[1], on["b"])
    end = pointwise(dnn, RELU, inner[1], on["y"])
    by = convolution(dnn, (1, 1), (1, 1), (1, 1), (1, 1), 1)
    back = operation(dnn, DATA, 1, 0, by, inner[0], on["w"], on["z"])
    small = tensor(dnn, 1, Tensor(dnn, np.zeros((1, 1, 1, 1)), FLOAT), inner=True)
    without_x = Backend(dnn, 13).set(753, PART, on["y"]).finish()
    return {
        "pointwise alone": row.graph(pointwise(dnn, ADD, on["y"], on["z"], on["y"])),
        "no bias": row.graph(row.start, pointwise(dnn, RELU, inner[0], on["y"])),
        "product": row.graph(row.start, pointwise(dnn, MULTIPLY, inner[0], on["y"], on["b"])),
        "unknown activation": row.graph(row.start, bias, pointwise(dnn, GELU, inner[1], on["y"])),
        "leaky": row.graph(row.start, bias, pointwise(dnn, RELU, inner[1], on["y"], _5=0.25)),
        "lower clip": row.graph(row.start, bias, pointwise(dnn, RELU, inner[1], on["y"], _3=-1.0)),
        "activation twice": row.graph(
            row.start, bias, pointwise(dnn, TANH, inner[1], inner[2]), pointwise(dnn, RELU, inner[2], on["y"])
        ),
        "end in nothing": row.graph(row.start, bias),
        "inner in memory": row.graph(
            row.start, pointwise(dnn, ADD, inner[0], on["z"], on["b"]), pointwise(dnn, RELU, on["z"], on["y"])
        ),
        "not in a row": row.graph(row.start, bias, pointwise(dnn, RELU, inner[2], on["y"])),
        "two starts": row.graph(row.start, row.start, bias, end),
        "two ends": row.graph(row.start, bias, end, end),
        "other shape": row.graph(row.start, pointwise(dnn, ADD, inner[0], small, on["b"]), end),
        "bias scaled": row.graph(row.start, pointwise(dnn, ADD, inner[0], on["y"], on["b"], (1, 2))),
        "added after the bias": row.graph(row.start, bias, pointwise(dnn, ADD, inner[1], on["y"], on["z"])),
        "on itself": row.graph(row.start, pointwise(dnn, ADD, inner[0], on["y"], inner[0])),
        "nothing taken": row.graph(row.start, without_x),
        "nothing given": row.graph(row.start, Backend(dnn, 13).set(751, PART, inner[0]).finish()),
        "back and more": row.graph(back, pointwise(dnn, RELU, inner[0], on["y"])),
        "nothing": row.graph(Backend(dnn, 10).finish(), Backend(dnn, 13).finish()),
    }


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
