"""cuDNN's recurrent layers and dropout against NumPy."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tests.libraries.convolutions import gradient
from tests.libraries.cudnn_on_device import DOUBLE, FLOAT, KINDS, Cudnn, Kind, Tensor, random
from tests.libraries.on_device import OnDevice, apart

RELU, TANH, LSTM, GRU = range(4)
GATES = {RELU: 1, TANH: 1, LSTM: 4, GRU: 3}
NO_BIAS, OF_INPUT, BOTH, OF_STATE = range(4)
TIME_FIRST, PACKED, BATCH_FIRST = range(3)
Results = Iterator[tuple[str, float]]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


@dataclass(frozen=True)
class Case:
    cell: int
    inputs: int
    hidden: int
    layers: int
    directions: int
    lengths: tuple[int, ...]
    bias: int = BOTH
    layout: int = TIME_FIRST

    @property
    def pseudo_layers(self) -> int:
        return self.layers * self.directions

    @property
    def states(self) -> tuple[int, int, int]:
        return self.pseudo_layers, len(self.lengths), self.hidden


CASES = [
    Case(LSTM, 3, 4, 1, 1, (5, 5)),
    Case(GRU, 3, 4, 1, 1, (4, 4, 4)),
    Case(TANH, 2, 5, 2, 1, (3, 3), OF_INPUT),
    Case(RELU, 2, 5, 1, 2, (3, 3), NO_BIAS),
    Case(LSTM, 3, 2, 2, 2, (2, 5, 1, 4), BOTH, BATCH_FIRST),
    Case(GRU, 2, 3, 3, 2, (1, 4, 0, 4), OF_STATE, TIME_FIRST),
    Case(LSTM, 1, 3, 2, 1, (6, 3, 3, 1), OF_STATE, PACKED),
    Case(GRU, 4, 2, 2, 2, (4, 2, 2), BOTH, PACKED),
    Case(TANH, 3, 3, 2, 2, (2, 3, 1), BOTH, BATCH_FIRST),
]


@dataclass
class Weights:
    """Of a pseudo-layer: a gate's matrices for input and state, and their biases."""

    of_input: np.ndarray
    of_state: np.ndarray
    input_bias: np.ndarray
    state_bias: np.ndarray


def random_weights(case: Case, kind: Kind) -> list[Weights]:
    made = []
    for pseudo in range(case.pseudo_layers):
        width = case.inputs if pseudo < case.directions else case.directions * case.hidden
        gates = GATES[case.cell]

        def bias(modes: tuple[int, ...], gates: int = gates) -> np.ndarray:
            there = case.bias in modes
            return random(kind, gates, case.hidden) if there else np.zeros((gates, case.hidden))

        own = random(kind, gates, case.hidden, width), random(kind, gates, case.hidden, case.hidden)
        made.append(Weights(*own, bias((OF_INPUT, BOTH)), bias((OF_STATE, BOTH))))
    return made


def step(cell: int, w: Weights, x: np.ndarray, h: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """As cuDNN's documentation has the cells."""
    of_x = [m @ x + b for m, b in zip(w.of_input, w.input_bias, strict=True)]
    of_h = [m @ h + b for m, b in zip(w.of_state, w.state_bias, strict=True)]
    if cell == LSTM:
        i, f, o = (sigmoid(of_x[g] + of_h[g]) for g in (0, 1, 3))
        c = f * c + i * np.tanh(of_x[2] + of_h[2])
        return o * np.tanh(c), c
    if cell == GRU:
        r, z = sigmoid(of_x[0] + of_h[0]), sigmoid(of_x[1] + of_h[1])
        return (1 - z) * np.tanh(of_x[2] + r * of_h[2]) + z * h, c
    total = of_x[0] + of_h[0]
    return (np.tanh(total) if cell == TANH else np.maximum(total, 0)), c


def recurrent(
    case: Case, weights: Sequence[Weights], x: Sequence[np.ndarray], h: np.ndarray, c: np.ndarray
) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """``x``: one array of steps a sequence."""
    hy, cy, outputs = h.copy(), c.copy(), []
    for n, steps in enumerate(x):
        rows = list(steps)
        for layer in range(case.layers):
            given = [np.zeros(0)] * len(rows)
            for direction in range(case.directions):
                pseudo = layer * case.directions + direction
                state, memory = h[pseudo, n], c[pseudo, n]
                for t in reversed(range(len(rows))) if direction else range(len(rows)):
                    state, memory = step(case.cell, weights[pseudo], rows[t], state, memory)
                    given[t] = np.concatenate([given[t], state])
                hy[pseudo, n], cy[pseudo, n] = state, memory
            rows = given
        outputs.append(np.array(rows).reshape(len(steps), case.directions * case.hidden))
    return outputs, hy, cy


def laid_out(case: Case, sequences: Sequence[np.ndarray], padding: float = 0) -> np.ndarray:
    width, most = sequences[0].shape[1], max(case.lengths)
    if case.layout == PACKED:
        rows = [s[t] for t in range(most) for s in sequences if t < len(s)]
        return np.array(rows)
    full = np.full((most, len(sequences), width), padding, "float64")
    for n, each in enumerate(sequences):
        full[: len(each), n] = each
    return full if case.layout == TIME_FIRST else full.transpose(1, 0, 2).copy()


def ints(values: Sequence[int]) -> ctypes.Array[ctypes.c_int]:
    return (ctypes.c_int * len(values))(*values)


@dataclass
class Layer:
    """Descriptors, weights and memory of a case on the device."""

    dnn: Cudnn
    case: Case
    kind: Kind
    weights: list[Weights]
    rate: float = 0
    training: int = 1
    on_device: bool = False
    padded_with: float | None = 7.5
    keep: list[object] = field(default_factory=list)

    def __post_init__(self) -> None:
        case, dnn = self.case, self.dnn
        self.dropout = dropout(dnn, self.rate, self.keep)
        flags = int(case.layout != PACKED)
        self.rnn = dnn.descriptor(
            *("RNN", "RNN"),
            *(0, case.cell, case.bias, case.directions - 1, 0, self.kind.code, self.math.code, 0),
            *(case.inputs, case.hidden, case.hidden, case.layers, self.dropout, flags),
            suffix="_v8",
        )
        self.x, self.y = self.data(case.inputs), self.data(case.directions * case.hidden)
        self.h = Tensor(dnn, np.zeros(case.states), self.kind).descriptor
        size = ctypes.c_size_t()
        dnn("cudnnGetRNNWeightSpaceSize", self.rnn, ctypes.byref(size))
        self.space = OnDevice(np.zeros(size.value // np.dtype(self.kind.stored).itemsize, self.kind.stored))
        self.put_weights()
        work, reserve = ctypes.c_size_t(), ctypes.c_size_t()
        dnn(
            "cudnnGetRNNTempSpaceSizes",
            self.rnn,
            self.training,
            self.x,
            ctypes.byref(work),
            ctypes.byref(reserve),
        )
        # Of single and double precision no number.
        self.work, self.reserve = (OnDevice(np.full(max(s.value, 1), 0xFF, "uint8")) for s in (work, reserve))
        self.sizes = work.value, reserve.value
        self.lengths = OnDevice(np.array(case.lengths, "int32"))

    @property
    def math(self) -> Kind:
        return DOUBLE if self.kind is DOUBLE else FLOAT

    def data(self, width: int) -> ctypes.c_void_p:
        fill = None
        if self.padded_with is not None:
            value = self.kind.to(np.array([self.padded_with]))
            self.keep.append(value)
            fill = ctypes.c_void_p(value.ctypes.data)
        lengths = self.case.lengths
        return self.dnn.descriptor(
            *("RNNData", "RNNData", self.kind.code, self.case.layout),
            *(max(lengths), len(lengths), width, ints(lengths), fill),
        )

    def places(self) -> Iterator[tuple[np.ndarray, int, int]]:
        """Each list of weights, and where cuDNN says that it lies, in numbers, and how many there are."""
        dnn, base = self.dnn, int(self.space.address)
        m, b = (dnn.descriptor("Tensor", "Tensor4d", 0, 0, 1, 1, 1, 1) for _ in range(2))
        gates = GATES[self.case.cell]
        size = ctypes.c_size_t(self.space.array.nbytes)
        for pseudo, gate in itertools.product(range(self.case.pseudo_layers), range(2 * gates)):
            matrix, bias = ctypes.c_void_p(), ctypes.c_void_p()
            dnn(
                *("cudnnGetRNNWeightParams", self.rnn, pseudo, size, ctypes.c_void_p(base), gate),
                *(m, ctypes.byref(matrix), b, ctypes.byref(bias)),
            )
            w, g = self.weights[pseudo], gate % gates
            lists = (w.of_input, w.input_bias) if gate < gates else (w.of_state, w.state_bias)
            for address, made, values in ((matrix, m, lists[0][g]), (bias, b, lists[1][g])):
                rank, dims = ctypes.c_int(), ints([0, 0, 0])
                dnn.library.cudnnGetTensorNdDescriptor(
                    made, 3, None, ctypes.byref(rank), dims, ints([0, 0, 0])
                )
                if rank.value == 0:
                    assert address.value is None
                    continue
                rows, columns = values.shape if values.ndim == 2 else (len(values), 1)
                assert list(dims) == [1, rows, columns]
                yield values, (address.value - base) // self.space.array.itemsize, values.size

    def put_weights(self) -> None:
        flat = np.full(self.space.array.size, np.nan)
        for values, place, count in self.places():
            assert np.isnan(flat[place : place + count]).all(), "two lists at one place"
            flat[place : place + count] = values.ravel()
        assert not np.isnan(flat).any()
        self.space.put(self.kind.to(flat))

    def array(self, values: np.ndarray) -> OnDevice:
        return OnDevice(self.kind.to(values))

    def get(self, memory: OnDevice) -> np.ndarray:
        return self.kind.back(memory.get()).astype("float64")

    @property
    def spaces(self) -> tuple[object, ...]:
        """After the weights: what a call works in, and what it leaves."""
        size = ctypes.c_size_t
        reserve = (size(self.sizes[1]), at(self.reserve)) if self.training else (size(0), None)
        return size(self.sizes[0]), at(self.work), *reserve

    @property
    def of_sequences(self) -> object:
        return at(self.lengths) if self.on_device else None

    def forward(self, x: OnDevice, hx: object, cx: object) -> tuple[OnDevice, OnDevice, OnDevice]:
        case = self.case
        width = case.directions * case.hidden
        outputs = [np.zeros((n, width)) for n in case.lengths]
        states = [np.full(case.states, np.nan)] * 2  # each is written
        y, hy, cy = (self.array(a) for a in (laid_out(case, outputs, 1), *states))
        self.dnn(
            *("cudnnRNNForward", self.rnn, self.training, self.of_sequences, self.x, at(x), self.y, at(y)),
            *(
                self.h,
                hx,
                at(hy),
                self.h,
                cx,
                at(cy),
                ctypes.c_size_t(self.space.array.nbytes),
                at(self.space),
            ),
            *self.spaces,
        )
        return y, hy, cy

    def back_to_data(self, x: OnDevice, y: OnDevice, *given: object) -> tuple[OnDevice, OnDevice, OnDevice]:
        """``given``: dy, hx, dhy, cx and dcy."""
        dy, hx, dhy, cx, dcy = given
        dx, dhx, dcx = OnDevice(x.array), *(self.array(np.full(self.case.states, np.nan)) for _ in range(2))
        self.dnn(
            *("cudnnRNNBackwardData_v8", self.rnn, self.of_sequences, self.y, at(y), dy, self.x, at(dx)),
            *(self.h, hx, dhy, at(dhx), self.h, cx, dcy, at(dcx)),
            *(ctypes.c_size_t(self.space.array.nbytes), at(self.space), *self.spaces),
        )
        return dx, dhx, dcx

    def back_to_weights(
        self, x: OnDevice, hx: object, y: OnDevice, mode: int, before: np.ndarray
    ) -> np.ndarray:
        slopes = self.array(before)
        self.dnn(
            *("cudnnRNNBackwardWeights_v8", self.rnn, mode, self.of_sequences, self.x, at(x), self.h, hx),
            *(self.y, at(y), ctypes.c_size_t(slopes.array.nbytes), at(slopes), *self.spaces),
        )
        return self.get(slopes)


def at(memory: OnDevice) -> ctypes.c_void_p:
    return ctypes.c_void_p(int(memory.address))


def dropout(dnn: Cudnn, rate: float, keep: list[object], seed: int = 5) -> ctypes.c_void_p:
    size = ctypes.c_size_t()
    dnn("cudnnDropoutGetStatesSize", ctypes.byref(size))
    states = OnDevice(np.zeros(size.value, "uint8"))
    keep.append(states)
    made = ctypes.c_void_p()
    assert dnn.library.cudnnCreateDropoutDescriptor(ctypes.byref(made)) == 0
    given = ctypes.c_float(rate), at(states), size, ctypes.c_ulonglong(seed)
    assert dnn.library.cudnnSetDropoutDescriptor(made, dnn.handle, *given) == 0
    return made


def recurring(dnn: Cudnn) -> Results:
    """Forward for all types; back, in double precision, against small steps."""
    for case, (name, kind), on_device in itertools.product(CASES, KINDS.items(), (False, True)):
        weights = random_weights(case, kind)
        sequences = [random(kind, n, case.inputs) for n in case.lengths]
        h, c = random(kind, *case.states), random(kind, *case.states)
        wanted, hy, cy = recurrent(case, weights, sequences, h, c)
        for training in (0, 1):
            layer = Layer(dnn, case, kind, weights, training=training, on_device=on_device)
            x, hx, cx = (layer.array(a) for a in (laid_out(case, sequences, np.nan), h, c))
            y, hy_found, cy_found = layer.forward(x, at(hx), at(cx))
            yield f"forward-{case.cell}-{name}", apart(layer.get(y), laid_out(case, wanted, 7.5))
            yield f"state-{name}", apart(layer.get(hy_found), hy)
            if case.cell == LSTM:
                yield f"memory-{name}", apart(layer.get(cy_found), cy)
        if kind is DOUBLE:
            yield from slopes(layer, sequences, (h, c), (x, y, hx, cx))
    yield from without_states(dnn)


def slopes(
    layer: Layer, sequences: list[np.ndarray], states: tuple[np.ndarray, np.ndarray], on: tuple[OnDevice, ...]
) -> Results:
    case, kind, (h, c), (x, y, hx, cx) = layer.case, layer.kind, states, on
    dy = [random(kind, n, case.directions * case.hidden) for n in case.lengths]
    dhy, dcy = random(kind, *case.states), random(kind, *case.states)

    def total(sequences=sequences, h=h, c=c, weights=layer.weights) -> float:
        outputs, hy, cy = recurrent(case, weights, sequences, h, c)
        of_memory = float((cy * dcy).sum()) if case.cell == LSTM else 0.0
        return (
            sum(float((a * b).sum()) for a, b in zip(outputs, dy, strict=True))
            + float((hy * dhy).sum())
            + of_memory
        )

    given = [layer.array(a) for a in (laid_out(case, dy, np.nan), dhy, dcy)]
    dx, dhx, dcx = layer.back_to_data(x, y, at(given[0]), at(hx), at(given[1]), at(cx), at(given[2]))
    dx_wanted = []
    for n, each in enumerate(sequences):

        def of_one(a: np.ndarray, n: int = n) -> float:
            return total([*sequences[:n], a, *sequences[n + 1 :]])

        dx_wanted.append(gradient(of_one, each))
    yield f"back-x-{case.cell}", apart(layer.get(dx), laid_out(case, dx_wanted, 7.5))
    yield f"back-h-{case.cell}", apart(layer.get(dhx), gradient(lambda a: total(h=a), h))
    if case.cell == LSTM:
        yield "back-c", apart(layer.get(dcx), gradient(lambda a: total(c=a), c))
    before = random(kind, layer.space.array.size)
    added = layer.back_to_weights(x, at(hx), y, 0, before)
    set_ = layer.back_to_weights(x, at(hx), y, 1, before)
    yield "back-weights-set", apart(set_ + before, added)
    for values, place, count in layer.places():

        def of_list(a: np.ndarray, values: np.ndarray = values) -> float:
            kept = values.copy()
            values[...] = a
            result = total()
            values[...] = kept
            return result

        found = added[place : place + count].reshape(values.shape) - before[place : place + count].reshape(
            values.shape
        )
        yield f"back-weights-{case.cell}", apart(found, gradient(of_list, values.copy()))


def without_states(dnn: Cudnn) -> Results:
    """States that are not given are zeros; padding without a symbol stays as it is."""
    case = Case(LSTM, 2, 3, 2, 2, (3, 1), BOTH, BATCH_FIRST)
    weights, sequences = random_weights(case, FLOAT), [random(FLOAT, n, 2) for n in case.lengths]
    layer = Layer(dnn, case, FLOAT, weights, padded_with=None)
    none = np.zeros(case.states)
    y, _, _ = layer.forward(layer.array(laid_out(case, sequences)), None, None)
    wanted, _, _ = recurrent(case, weights, sequences, none, none)
    yield "without-states", apart(layer.get(y), laid_out(case, wanted, 1))
    yield from as_frameworks_call(dnn)


def as_frameworks_call(dnn: Cudnn) -> Results:
    """Dropout without states but with a size (JAX), states with dimensions of 1 behind (PyTorch), one of two
    weight lists asked for, no place for sizes that are not wanted, and no memory for states after.
    """
    case = Case(LSTM, 2, 3, 1, 2, (3, 3))
    weights, sequences = random_weights(case, FLOAT), [random(FLOAT, n, 2) for n in case.lengths]
    layer, size = Layer(dnn, case, FLOAT, weights), ctypes.c_size_t
    made = ctypes.c_void_p()
    assert dnn.library.cudnnCreateDropoutDescriptor(ctypes.byref(made)) == 0
    given = ctypes.c_float(0), None, size(4096), ctypes.c_ulonglong(123)
    assert dnn.library.cudnnSetDropoutDescriptor(made, dnn.handle, *given) == 0
    layer.rnn = dnn.descriptor(
        *("RNN", "RNN", 0, LSTM, BOTH, 1, 0, 0, 0, 0, 2, 3, 3, 1, made, 1),
        suffix="_v8",
    )
    reserve, bias, bias_is = size(), ctypes.c_void_p(), Tensor(dnn, np.zeros((1, 1, 1)), FLOAT).descriptor
    dnn("cudnnGetRNNTempSpaceSizes", layer.rnn, 1, layer.x, None, ctypes.byref(reserve))
    bytes_ = size(layer.space.array.nbytes)
    dnn(
        "cudnnGetRNNWeightParams",
        layer.rnn,
        1,
        bytes_,
        at(layer.space),
        0,
        None,
        None,
        bias_is,
        ctypes.byref(bias),
    )
    yield "bias-alone", 0.0 if bias.value else 1.0
    h = Tensor(dnn, random(FLOAT, *case.states, 1, 1), FLOAT)
    states = h.get().reshape(case.states)
    x, y = (layer.array(laid_out(case, a)) for a in (sequences, [np.zeros((3, 6))] * 2))
    kept = OnDevice(np.full(reserve.value, 0xFF, "uint8"))
    dnn(
        *("cudnnRNNForward", layer.rnn, 1, None, layer.x, at(x), layer.y, at(y), *h.passed, None),
        *(*h.passed, None, bytes_, at(layer.space), size(0), None, reserve, at(kept)),
    )
    wanted, _, _ = recurrent(case, weights, sequences, states, states)
    yield "as-frameworks-call", apart(layer.get(y), laid_out(case, wanted))


def dropping(dnn: Cudnn) -> Results:
    keep: list[object] = []
    for (name, kind), layout in itertools.product(KINDS.items(), ("nchw", "nhwc", "gaps")):
        x, dy = np.abs(random(kind, 8, 10, 5, 7)) + 1, random(kind, 8, 10, 5, 7)
        x = kind.rounded(x)
        X, Y, DY, DX = (Tensor(dnn, a, kind, layout) for a in (x, x, dy, dy))
        size = ctypes.c_size_t()
        assert dnn.library.cudnnDropoutGetReserveSpaceSize(X.descriptor, ctypes.byref(size)) == 0
        reserve = OnDevice(np.full(size.value, 0xFF, "uint8"))
        made = dropout(dnn, 0.25, keep)
        dnn("cudnnDropoutForward", made, X, Y, at(reserve), size)
        y = Y.get()
        kept = y != 0
        yield f"drop-{name}", apart(y, np.where(kept, kind.rounded(x / 0.75), 0))
        # Of 2800 numbers a quarter goes: six deviations are 0.05.
        yield "share", 0.0 if abs(kept.mean() - 0.75) < 0.05 else 1.0
        dnn("cudnnDropoutBackward", made, DY, DX, at(reserve), size)
        yield f"drop-back-{name}", apart(DX.get(), np.where(kept, kind.rounded(dy / 0.75), 0))
        dnn("cudnnDropoutForward", made, X, Y, at(reserve), size)
        yield "another-mask", 1.0 if np.array_equal(Y.get() != 0, kept) else 0.0
        again = dropout(dnn, 0.25, keep)
        dnn("cudnnDropoutForward", again, X, Y, at(reserve), size)
        yield "same-seed", 0.0 if np.array_equal(Y.get() != 0, kept) else 1.0
        other = dropout(dnn, 0.25, keep, seed=6)
        dnn("cudnnDropoutForward", other, X, Y, at(reserve), size)
        yield "other-seed", 1.0 if np.array_equal(Y.get() != 0, kept) else 0.0
        for rate in (0.0, 1.0):
            dnn("cudnnDropoutForward", dropout(dnn, rate, keep), X, Y, at(reserve), size)
            yield f"all-or-none-{name}", apart(Y.get(), x * (1 - rate))
    yield from restored(dnn)
    yield from between_layers(dnn)


def restored(dnn: Cudnn) -> Results:
    """A descriptor that takes over another's states goes on where that one is."""
    keep: list[object] = []
    x = np.ones((4, 100))
    X, size = Tensor(dnn, x, FLOAT), ctypes.c_size_t(400)
    reserve, results = OnDevice(np.full(400, 0xFF, "uint8")), []
    for restores in (False, True):
        made = dropout(dnn, 0.5, keep)
        for i in range(2):
            if restores and i == 1:
                states = keep[-1]
                assert isinstance(states, OnDevice)
                made = ctypes.c_void_p()
                assert dnn.library.cudnnCreateDropoutDescriptor(ctypes.byref(made)) == 0
                given = (
                    ctypes.c_float(0.5),
                    at(states),
                    ctypes.c_size_t(states.array.nbytes),
                    ctypes.c_ulonglong(5),
                )
                assert dnn.library.cudnnRestoreDropoutDescriptor(made, dnn.handle, *given) == 0
            Y = Tensor(dnn, x, FLOAT)
            dnn("cudnnDropoutForward", made, X, Y, at(reserve), size)
        results.append(Y.get())
    yield "restored", apart(results[0], results[1])


def between_layers(dnn: Cudnn) -> Results:
    """Of two layers with dropout, by what must hold whatever was drawn: slopes agree with small steps of a
    layer with the same seed.
    """
    case = Case(TANH, 3, 4, 2, 1, (4, 3), BOTH, TIME_FIRST)
    weights, sequences = random_weights(case, DOUBLE), [random(DOUBLE, n, 3) for n in case.lengths]
    h, dy = np.zeros(case.states), [random(DOUBLE, n, 4) for n in case.lengths]

    def outputs(x: Sequence[np.ndarray]) -> tuple[np.ndarray, Layer, OnDevice, OnDevice]:
        layer = Layer(dnn, case, DOUBLE, weights, rate=0.5)
        on = layer.array(laid_out(case, x))
        y, _, _ = layer.forward(on, None, None)
        return layer.get(y), layer, on, y

    found, layer, x, y = outputs(sequences)
    plain, _, _ = recurrent(case, weights, sequences, h, h)
    yield "drops", 1.0 if np.allclose(found, laid_out(case, plain, 7.5)) else 0.0
    given = layer.array(laid_out(case, dy))
    dx, _, _ = layer.back_to_data(x, y, at(given), None, None, None, None)
    weight = laid_out(case, dy)
    slope = gradient(lambda a: float((outputs([a, sequences[1]])[0] * weight).sum()), sequences[0])
    dx_of_first = layer.get(dx)[: case.lengths[0], 0]
    yield "slopes-by-the-mask", apart(dx_of_first, slope)
    slopes_ = layer.back_to_weights(x, None, y, 1, np.zeros(layer.space.array.size))
    for values, place, count in itertools.islice(layer.places(), 6):
        kept = values.copy()

        def of_list(a: np.ndarray, values: np.ndarray = values, kept: np.ndarray = kept) -> float:
            values[...] = a
            result = float((outputs(sequences)[0] * weight).sum())
            values[...] = kept
            return result

        yield (
            "weights-by-the-mask",
            apart(slopes_[place : place + count].reshape(kept.shape), gradient(of_list, kept)),
        )
