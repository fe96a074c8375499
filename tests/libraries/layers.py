"""cuDNN's functions of single numbers, of channels and of whole batches against NumPy."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterator

import numpy as np

from tests.libraries.convolutions import gradient
from tests.libraries.cudnn_on_device import DOUBLE, FLOAT, HALF, KINDS, Cudnn, Kind, Scale, Tensor, random
from tests.libraries.on_device import apart

Results = Iterator[tuple[str, float]]
LAYOUTS = ("nchw", "nhwc", "gaps")
SHAPE = (3, 5, 4, 6)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


COEFFICIENT = 0.75
ACTIVATIONS = {
    0: sigmoid,
    1: lambda x: np.maximum(x, 0),
    2: np.tanh,
    3: lambda x: np.clip(x, 0, COEFFICIENT),
    4: lambda x: np.where(x > 0, x, COEFFICIENT * np.expm1(x)),
    6: lambda x: x * sigmoid(x),
}


def softmax(x: np.ndarray, mode: int, algorithm: int) -> np.ndarray:
    """By image (0) or by channel; 2 is the logarithm."""
    axes = (1, 2, 3) if mode == 0 else (1,)
    shifted = x - x.max(axes, keepdims=True)
    log = shifted - np.log(np.exp(shifted).sum(axes, keepdims=True))
    return log if algorithm == 2 else np.exp(log)


def response(x: np.ndarray, n: int, alpha: float, beta: float, k: float) -> np.ndarray:
    before, after = (n - 1) // 2, n // 2
    squares = np.pad(x**2, [(0, 0), (before, after), (0, 0), (0, 0)])
    energy = sum(squares[:, i : i + x.shape[1]] for i in range(n))
    return x / (k + alpha / n * energy) ** beta


def layers(dnn: Cudnn) -> Results:
    """Forward for all types and layouts; back, in double precision, against small steps."""
    double = ctypes.c_double
    each: list[tuple[str, tuple[object, ...], object]] = []
    for mode, function in ACTIVATIONS.items():
        made = dnn.descriptor("Activation", "Activation", mode, 1, double(COEFFICIENT))
        each.append(("Activation", (made,), function))
    for algorithm, mode in itertools.product((0, 1, 2), (0, 1)):
        each.append(("Softmax", (algorithm, mode), lambda x, m=mode, a=algorithm: softmax(x, m, a)))
    for n in (1, 4, 5):
        made = dnn.descriptor("LRN", "LRN", n, double(0.9), double(0.7), double(2))
        each.append(("LRNCrossChannel", (made, 0), lambda x, n=n: response(x, n, 0.9, 0.7, 2)))
    for (name, first, function), (kind_name, kind), layout in itertools.product(each, KINDS.items(), LAYOUTS):
        x, y = random(kind, *SHAPE), random(kind, *SHAPE)
        X, Y = Tensor(dnn, x, kind, layout), Tensor(dnn, y, kind, layout)
        two, half = Scale(2, kind), Scale(0.5, kind)
        dnn(f"cudnn{name}Forward", *first, two, X, half, Y)
        yield f"{name}-{kind_name}", apart(Y.get(), 2 * function(x) + 0.5 * y)
        if kind is DOUBLE:
            dy = random(kind, *SHAPE)
            Y, DY = Tensor(dnn, function(x), kind, layout), Tensor(dnn, dy, kind, layout)
            DX = Tensor(dnn, x, kind, layout)
            given = (Y, DY) if name == "Softmax" else (Y, DY, X)
            dnn(f"cudnn{name}Backward", *first, two, *given, half, DX)
            slope = gradient(lambda at, f=function, d=dy: float((f(at) * d).sum()), x)
            yield f"{name}-back", apart(DX.get(), 2 * slope + 0.5 * x)


def pieces(dnn: Cudnn) -> Results:
    """Images that are worked on in several pieces, of which some begin within a row."""
    shape = (2, 3, 701, 503)
    kind, double = FLOAT, ctypes.c_double
    one, half, none = Scale(1, kind), Scale(0.5, kind), Scale(0, kind)
    for layout in LAYOUTS:
        x, y = random(kind, *shape), random(kind, *shape)
        X, Y = Tensor(dnn, x, kind, layout), Tensor(dnn, y, kind, layout)
        relu = dnn.descriptor("Activation", "Activation", 1, 0, double(0))
        dnn("cudnnActivationForward", relu, one, X, half, Y)
        yield "activation", apart(Y.get(), np.maximum(x, 0) + 0.5 * y)
        for mode in (0, 1):
            dnn("cudnnSoftmaxForward", 1, mode, one, X, none, Y)
            yield f"softmax-{mode}", apart(Y.get(), softmax(x, mode, 1))
        by = dnn.descriptor("LRN", "LRN", 3, double(0.9), double(0.7), double(2))
        dnn("cudnnLRNCrossChannelForward", by, 0, one, X, none, Y)
        yield "response", apart(Y.get(), response(x, 3, 0.9, 0.7, 2))
        sums = Tensor(dnn, np.zeros((1, 1, 701, 1)), kind)
        by = dnn.descriptor("ReduceTensor", "ReduceTensor", 0, kind.code, 1, 0, 0)
        dnn("cudnnReduceTensor", by, None, 0, None, 0, one, X, none, sums)
        yield "reduction", apart(sums.get(), x.sum((0, 1, 3), keepdims=True))
        places = [np.ones((1, *shape[1:])), *(random(kind, 1, *shape[1:]) for _ in range(2))]
        P = Parameters(dnn, 0, kind, *places, np.ones((1, *shape[1:])))
        dnn(
            *("cudnnBatchNormalizationForwardInference", 0, one, none, X, Y, P.descriptor, *P.at),
            double(0.5),
        )
        yield "normalisation", apart(Y.get(), (x - places[2]) / np.sqrt(1.5) + places[1])


class Parameters:
    """Of a batch normalisation: by place (mode 0) or by channel."""

    def __init__(self, dnn: Cudnn, mode: int, kind: Kind, *values: np.ndarray) -> None:
        self.mode = mode
        self.tensors = [Tensor(dnn, value, kind) for value in values]
        self.descriptor = self.tensors[0].descriptor

    @property
    def at(self) -> list[ctypes.c_void_p]:
        return [tensor.passed[1] for tensor in self.tensors]


def normalisation(dnn: Cudnn) -> Results:
    epsilon, factor, double = 1e-3, 0.25, ctypes.c_double
    relu = dnn.descriptor("Activation", "Activation", 1, 0, double(0))
    kinds = (FLOAT, FLOAT), (DOUBLE, DOUBLE), (HALF, FLOAT), (KINDS["bfloat16"], FLOAT)
    for (kind, own), mode, layout in itertools.product(kinds, (0, 1, 2), LAYOUTS):
        axes = (0,) if mode == 0 else (0, 2, 3)
        shape = (1, *SHAPE[1:]) if mode == 0 else (1, SHAPE[1], 1, 1)
        x, z, dy = (random(kind, *SHAPE) for _ in range(3))
        scale, shift, mean = (random(own, *shape) for _ in range(3))
        variance = np.abs(random(own, *shape)) + 0.5
        one, none, half = Scale(1, kind), Scale(0, kind), Scale(0.5, kind)
        X, Z = Tensor(dnn, x, kind, layout), Tensor(dnn, z, kind, layout)

        def normal(x: np.ndarray, axes=axes, scale=scale, shift=shift) -> np.ndarray:
            deviation = np.sqrt(x.var(axes, keepdims=True) + epsilon)
            return (x - x.mean(axes, keepdims=True)) / deviation * scale + shift

        P = Parameters(dnn, mode, own, scale, shift, mean, variance)
        Y = Tensor(dnn, z, kind, layout)
        dnn(
            *("cudnnBatchNormalizationForwardInference", mode, one, half, X, Y, P.descriptor, *P.at),
            double(epsilon),
        )
        wanted = (x - mean) / np.sqrt(variance + epsilon) * scale + shift + 0.5 * z
        yield f"inference-{kind.stored}", apart(Y.get(), wanted)

        saved = Parameters(dnn, mode, own, mean, mean)
        for ops in (0, 1, 2):
            P = Parameters(dnn, mode, own, scale, shift, mean, variance)
            Y = Tensor(dnn, z, kind, layout)
            dnn(
                *("cudnnBatchNormalizationForwardTrainingEx", mode, ops, one, none, X),
                *(*((None, None) if ops != 2 else (Z,)), Y, P.descriptor, *P.at[:2], double(factor)),
                *(*P.at[2:], double(epsilon), *saved.at, relu, None, 0, None, 0),
            )
            wanted = normal(x) + (z if ops == 2 else 0)
            wanted = np.maximum(wanted, 0) if ops else wanted
            yield f"training-{kind.stored}", apart(Y.get(), wanted)
            yield (
                "running-mean",
                apart(P.tensors[2].get(), (1 - factor) * mean + factor * x.mean(axes, keepdims=True)),
            )
            unbiased = x.var(axes, keepdims=True, ddof=1)
            yield "running-variance", apart(P.tensors[3].get(), (1 - factor) * variance + factor * unbiased)
            yield "saved-mean", apart(saved.tensors[0].get(), x.mean(axes, keepdims=True))

            if kind is not DOUBLE or layout == "gaps":
                continue
            DX, DZ = Tensor(dnn, x, kind, layout), Tensor(dnn, z, kind, layout)
            G = Parameters(dnn, mode, own, scale, shift, mean, variance)
            given = dy * (wanted > 0) if ops else dy
            dnn(
                *("cudnnBatchNormalizationBackwardEx", mode, ops, one, half, one, none, X, Y),
                *(Tensor(dnn, dy, kind, layout), *((None, None) if ops != 2 else (DZ,)), DX, P.descriptor),
                *(*P.at[:2], *G.at[2:], double(epsilon), *saved.at, relu, None, 0, None, 0),
            )
            slope = gradient(lambda at, g=given: float((normal(at) * g).sum()), x)
            yield "back-x", apart(DX.get(), slope + 0.5 * x)
            yield "back-bias", apart(G.tensors[3].get(), given.sum(axes, keepdims=True))
            hat = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)
            yield "back-scale", apart(G.tensors[2].get(), (given * hat).sum(axes, keepdims=True))
            if ops == 2:
                yield "back-z", apart(DZ.get(), given)
                yield from back_in_place(dnn, (X, Y, dy), P, saved, (epsilon, slope, given))
            if ops == 0:  # the older functions, which save nothing
                DX, G = Tensor(dnn, x, kind, layout), Parameters(dnn, mode, own, scale, shift, mean, variance)
                dnn(
                    *("cudnnBatchNormalizationBackward", mode, one, half, one, half, X),
                    *(Tensor(dnn, dy, kind, layout), DX, P.descriptor, P.at[0], *G.at[2:], double(epsilon)),
                    *(None, None),
                )
                yield "back-x-unsaved", apart(DX.get(), slope + 0.5 * x)
                yield (
                    "back-bias-added",
                    apart(G.tensors[3].get(), dy.sum(axes, keepdims=True) + 0.5 * variance),
                )
                Y = Tensor(dnn, z, kind, layout)
                dnn(
                    *("cudnnBatchNormalizationForwardTraining", mode, one, none, X, Y, P.descriptor),
                    *(*P.at[:2], double(1), None, None, double(epsilon), None, None),
                )
                yield "training-unsaved", apart(Y.get(), normal(x))


def back_in_place(
    dnn: Cudnn,
    on: tuple[Tensor, Tensor, np.ndarray],
    own: Parameters,
    saved: Parameters,
    wanted: tuple[float, np.ndarray, np.ndarray],
) -> Results:
    """With what is added and a rectifier; dx takes dy's place. ``wanted``: of this epsilon, dx and dz."""
    (x, y, slope), (epsilon, dx, dz) = on, wanted
    one, none = Scale(1, DOUBLE), Scale(0, DOUBLE)
    relu = dnn.descriptor("Activation", "Activation", 1, 0, ctypes.c_double(0))
    DY, DZ = Tensor(dnn, slope, DOUBLE), Tensor(dnn, slope, DOUBLE)
    dnn(
        *("cudnnBatchNormalizationBackwardEx", own.mode, 2, one, none, one, none, x, y, DY, DZ, DY),
        *(own.descriptor, *own.at, ctypes.c_double(epsilon), *saved.at, relu, None, 0, None, 0),
    )
    yield "back-x-in-place", apart(DY.get(), dx)
    yield "back-z-beside-it", apart(DZ.get(), dz)


OPERATIONS = {
    0: np.add,
    1: np.multiply,
    2: np.minimum,
    3: np.maximum,
    4: lambda a, b: np.sqrt(a),
    5: lambda a, b: 1 - a,
}
REDUCTIONS = {
    0: np.sum,
    1: np.prod,
    2: np.min,
    3: np.max,
    4: lambda a, axis, keepdims: np.abs(a).max(axis, keepdims=keepdims),
    5: np.mean,
    6: lambda a, axis, keepdims: np.abs(a).sum(axis, keepdims=keepdims),
    7: lambda a, axis, keepdims: np.sqrt((a**2).sum(axis, keepdims=keepdims)),
    8: lambda a, axis, keepdims: np.where(a == 0, 1, a).prod(axis, keepdims=keepdims),
}


def tensors(dnn: Cudnn) -> Results:
    smaller = [(1, 5, 1, 1), (1, 1, 1, 1), (3, 1, 4, 1), SHAPE]
    for (name, kind), layout in itertools.product(KINDS.items(), LAYOUTS):
        two, half = Scale(2, kind), Scale(0.5, kind)
        a, c = random(kind, *SHAPE), random(kind, *SHAPE)

        def on(values: np.ndarray, layout: str = layout, kind: Kind = kind) -> Tensor:
            return Tensor(dnn, values, kind, layout)

        for shape in smaller:
            b, C = random(kind, *shape), on(c)
            dnn("cudnnAddTensor", two, on(b), half, C)
            yield f"add-{name}", apart(C.get(), 2 * b + 0.5 * c)
            for op, function in OPERATIONS.items():
                by, C = dnn.descriptor("OpTensor", "OpTensor", op, kind.code, 1), on(c)
                positive = kind.rounded(np.abs(a))
                dnn("cudnnOpTensor", by, two, on(positive), half, on(b), two, C)
                yield f"combine-{name}", apart(C.get(), function(2 * positive, 0.5 * b) + 2 * c)
            for op, function in REDUCTIONS.items():
                by = dnn.descriptor("ReduceTensor", "ReduceTensor", op, kind.code, 1, 0, 0)
                axes = tuple(i for i, size in enumerate(shape) if size == 1)
                values = kind.rounded(np.sign(a) + a / 64)  # whose products stay small
                values[0, 0, 0, 0] = 0
                C = on(b)
                dnn("cudnnReduceTensor", by, None, 0, None, 0, two, on(values), half, C)
                wanted = 2 * function(values, axis=axes, keepdims=True) + 0.5 * b
                yield f"reduce-{name}", apart(C.get(), wanted)
        C = on(c)
        dnn("cudnnScaleTensor", C, two)
        yield f"scale-{name}", apart(C.get(), 2 * c)
        value = kind.to(np.array([1.5]))
        dnn("cudnnSetTensor", C, ctypes.c_void_p(value.ctypes.data))
        yield f"fill-{name}", apart(C.get(), np.full(SHAPE, 1.5))
        for other, to in itertools.product(KINDS.values(), LAYOUTS):
            C = Tensor(dnn, c, other, to)
            scales = Scale(2, other), Scale(0, other)
            dnn("cudnnTransformTensor", scales[0], on(a), scales[1], C)
            yield f"transform-{name}", apart(C.get(), other.rounded(2 * a))
