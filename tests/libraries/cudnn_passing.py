"""Calls cuDNN with values of which no two are alike: prints as JSON what it passed, by word of the log."""

from __future__ import annotations

import ctypes
import json
import sys

from cuda.bindings import driver

from tests.libraries.cudnn_on_device import DOUBLE, FLOAT, HALF, Cudnn, Scale
from tests.libraries.on_device import start

start()
dnn = Cudnn(sys.argv[1])
double = ctypes.c_double
passed: dict[str, object] = {}


def memory() -> int:
    error, address = driver.cuMemAlloc(1 << 16)
    assert error == 0
    return int(address)


def at(address: int) -> ctypes.c_void_p:
    return ctypes.c_void_p(address)


def ints(*values: int) -> ctypes.Array[ctypes.c_int]:
    return (ctypes.c_int * len(values))(*values)


def tensor(kind: int, dims: tuple[int, ...], strides: tuple[int, ...]) -> ctypes.c_void_p:
    return dnn.descriptor("Tensor", "TensorNd", kind, len(dims), ints(*dims), ints(*strides))


def text(kind: int, dims: tuple[int, ...], strides: tuple[int, ...]) -> str:
    return f"{kind}:[{','.join(map(str, dims))}][{','.join(map(str, strides))}]"


x, w, y, extra = memory(), memory(), memory(), memory()
X = ((2, 6, 9, 11), (900, 130, 12, 1))
Y = ((2, 4, 4, 5), (80, 20, 5, 1))
by = dnn.convolution((1, 2), (2, 3), (1, 1), groups=2)
filter_ = dnn.descriptor("Filter", "FilterNd", 0, 0, 4, ints(4, 3, 4, 3))
by_text = "[1,2][2,3][1,1]1:0:g2:m0"
dnn(
    *("cudnnConvolutionForward", Scale(2.5, FLOAT), tensor(0, *X), at(x), filter_, at(w), by, 1, None, 0),
    *(Scale(0.5, FLOAT), tensor(0, *Y), at(y)),
)
asked = f"{text(0, *X)} 0:0:[4,3,4,3] {by_text} {text(0, *Y)}"
passed["cudnnGetConvolutionForwardAlgorithm_v7"] = asked
passed["Forward"] = (
    f"2.5 {text(0, *X)} {x:#x} 0:0:[4,3,4,3] {w:#x} {by_text} 6 {4 << 20} 0.5 {text(0, *Y)} {y:#x}"
)

_, stream = driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
assert dnn.library.cudnnSetStream(dnn.handle, at(int(stream))) == 0
assert dnn.library.cudnnSetConvolutionMathType(by, 3) == 0
last = ((2, 6, 9, 11), (594, 1, 66, 6))
filter_ = dnn.descriptor("Filter", "FilterNd", 1, 1, 4, ints(4, 3, 4, 3))
by_text = by_text.replace("m0", "m3")
dnn(
    *(
        "cudnnConvolutionBackwardData",
        Scale(1.5, DOUBLE),
        filter_,
        at(w),
        tensor(1, *Y),
        at(y),
        by,
        0,
        None,
        0,
    ),
    *(Scale(0.25, DOUBLE), tensor(1, *last), at(x)),
)
data = f"1.5 1:1:[4,3,4,3] {w:#x} {text(1, *Y)} {y:#x} {by_text} 6"
passed["BackwardData"] = [data, f"{4 << 20} 0.25 {text(1, *last)} {x:#x}"]

pooling = dnn.descriptor("Pooling", "PoolingNd", 2, 1, 2, ints(3, 2), ints(1, 0), ints(3, 2))
pooled = ((2, 6, 3, 5), (90, 15, 5, 1))
given = (Scale(3, HALF), tensor(2, *X), at(x), Scale(0, HALF), tensor(2, *pooled), at(y))
dnn("cudnnPoolingForward", pooling, *given)
passed["Pooling"] = f"2:1:[3,2][1,0][3,2] 3 {text(2, *X)} {x:#x} 0 {text(2, *pooled)} {y:#x}"
elu = dnn.descriptor("Activation", "Activation", 4, 1, double(0.75))
dnn(
    "cudnnActivationForward",
    elu,
    Scale(1, FLOAT),
    tensor(0, *X),
    at(x),
    Scale(0, FLOAT),
    tensor(0, *X),
    at(y),
)
passed["Activation"] = f"4:1:0.75 1 {text(0, *X)} {x:#x} 0 {text(0, *X)} {y:#x}"
own = ((1, 6, 1, 1), (6, 1, 1, 1))
places = [extra + 256 * i for i in range(6)]
dnn(
    *("cudnnBatchNormalizationForwardTrainingEx", 1, 0, Scale(1, HALF), Scale(0, HALF), tensor(2, *X), at(x)),
    *(None, None, tensor(2, *X), at(y), tensor(0, *own), at(places[0]), at(places[1]), double(0.125)),
    *(at(places[2]), at(places[3]), double(0.001), at(places[4]), at(places[5]), None, None, 0, None, 0),
)
hexes = [f"{place:#x}" for place in places]
passed["Normalization"] = " ".join(
    [
        *(f"1 1 0 {text(2, *X)} {x:#x} {text(2, *X)} {y:#x} {text(0, *own)}", *hexes[:2], "0.125"),
        *(*hexes[2:4], "0.001", *hexes[4:]),
    ]
)
size, long = ctypes.c_size_t, ctypes.c_ulonglong
asked = size()
dnn("cudnnDropoutGetStatesSize", ctypes.byref(asked))
passed["states"] = asked.value
dropout = ctypes.c_void_p()
assert dnn.library.cudnnCreateDropoutDescriptor(ctypes.byref(dropout)) == 0
given = ctypes.c_float(0.375), at(extra), size(1000), long(4711)
assert dnn.library.cudnnSetDropoutDescriptor(dropout, dnn.handle, *given) == 0
passed["Seed"] = f"0.375 {extra:#x} 1000 4711"
dropped = f"0.375:{extra:#x}:1000:4711"
dnn("cudnnDropoutForward", dropout, tensor(0, *X), at(x), tensor(0, *X), at(y), at(w), size(2000))
passed["Drop"] = f"{dropped} {text(0, *X)} {x:#x} {text(0, *X)} {y:#x} {w:#x} 2000"

fill = (ctypes.c_float * 1)(2.5)


def rows(width: int, filled: bool = False) -> ctypes.c_void_p:
    symbol = ctypes.cast(fill, ctypes.c_void_p) if filled else None
    return dnn.descriptor("RNNData", "RNNData", 0, 2, 6, 3, width, ints(6, 2, 4), symbol)


def layers(cell: int) -> ctypes.c_void_p:
    return dnn.descriptor("RNN", "RNN", 1, cell, 2, 1, 0, 0, 0, 3, 5, 7, 7, 2, dropout, 1, suffix="_v8")


lstm = layers(2)
lstm_text = f"1:2:2:1:0:0:0:3:5:7:7:2:1:({dropped})"
states, weights = ((4, 3, 7), (21, 7, 1)), 4 * 2 * (28 * (5 + 7) + 28 * (14 + 7) + 4 * 28)
in_, out = "0:2:6:5:-1[6,2,4]", "0:2:6:14:2.5[6,2,4]"
work, reserve = size(), size()
dnn("cudnnGetRNNTempSpaceSizes", lstm, 1, rows(5), ctypes.byref(work), ctypes.byref(reserve))
passed["sizes"] = [work.value, reserve.value]
p = [memory() for _ in range(10)]
rest = size(weights), at(p[0]), size(16), at(p[1]), size(4321), at(p[2])
rest_text = f"{weights} {p[0]:#x} {5 << 20} room 4321 {p[2]:#x}"
h = tensor(0, *states)
dnn(
    *("cudnnRNNForward", lstm, 1, at(p[3]), rows(5), at(x), rows(14, True), at(y)),
    *(h, at(p[4]), at(p[5]), h, at(p[6]), at(p[7]), *rest),
)
h_text, hexes = text(0, *states), [f"{each:#x}" for each in p]
passed["Recur"] = " ".join(
    [
        *(f"{lstm_text} 1 {hexes[3]} {in_} {x:#x} {out} {y:#x} {h_text} {hexes[4]} {hexes[5]}", h_text),
        *(*hexes[6:8], rest_text),
    ]
)
dnn(
    *("cudnnRNNBackwardData_v8", lstm, at(p[3]), rows(14, True), at(y), at(w), rows(5), at(x)),
    *(h, at(p[4]), at(p[5]), at(p[6]), h, at(p[7]), at(p[8]), at(p[9]), *rest),
)
passed["RecurData"] = " ".join(
    [
        *(f"{lstm_text} {hexes[3]} {out} {y:#x} {w:#x} {in_} {x:#x} {h_text}", *hexes[4:7], h_text),
        *(*hexes[7:10], rest_text),
    ]
)
dnn(
    *("cudnnRNNBackwardWeights_v8", lstm, 0, at(p[3]), rows(5), at(x), h, at(p[4]), rows(14, True), at(y)),
    *rest,
)
passed["RecurWeights"] = f"{lstm_text} 0 {hexes[3]} {in_} {x:#x} {h_text} {hexes[4]} {out} {y:#x} {rest_text}"
maximum = dnn.descriptor("ReduceTensor", "ReduceTensor", 3, 0, 1, 0, 0)
dnn(
    *("cudnnReduceTensor", maximum, None, size(0), None, size(0), Scale(1.25, FLOAT), tensor(0, *X), at(x)),
    *(Scale(0.5, FLOAT), tensor(0, *own), at(y)),
)
passed["Reduce"] = f"3:0:1:0:0 room 3000 1.25 {text(0, *X)} {x:#x} 0.5 {text(0, *own)} {y:#x}"
by_loss = dnn.descriptor("CTCLoss", "CTCLoss", 0, 1, 1, 7, suffix="_v9")
steps = ((9, 3, 5), (15, 5, 1))
dnn(
    *("cudnnCTCLoss_v8", 1, by_loss, tensor(0, *steps), at(x), at(p[0]), at(p[1]), at(p[2]), at(p[3])),
    *(tensor(0, *steps), at(y), size(0), None),
)
loss = f"0:1:1:7 {text(0, *steps)}"
passed["CtcRoom"] = f"1 {loss} {text(0, *steps)}"
of_loss = f"{x:#x} {' '.join(hexes[:4])} {text(0, *steps)} {y:#x}"
passed["Ctc"] = f"1 {loss} {of_loss} 5000 room"

images = ((2, 3, 4, 6), (72, 24, 6, 1))
turned = dnn.descriptor("SpatialTransformer", "SpatialTransformerNd", 0, 0, 4, ints(*images[0]))
turned_text = "0:0:[2,3,4,6]"
dnn("cudnnSpatialTfGridGeneratorForward", turned, at(p[0]), at(p[1]))
passed["Grid"] = f"{turned_text} {hexes[0]} {hexes[1]}"
dnn("cudnnSpatialTfGridGeneratorBackward", turned, at(p[2]), at(p[3]))
passed["GridBack"] = f"{turned_text} {hexes[2]} {hexes[3]}"
source = ((2, 3, 9, 11), (900, 130, 12, 1))
scales = [Scale(value, FLOAT) for value in (1.5, 0.25, 2.5, 0.75)]
dnn(
    *("cudnnSpatialTfSamplerForward", turned, scales[0], tensor(0, *source), at(x), at(p[4]), scales[1]),
    *(tensor(0, *images), at(y)),
)
passed["Sample"] = f"{turned_text} 1.5 {text(0, *source)} {x:#x} {hexes[4]} 0.25 {text(0, *images)} {y:#x}"
dnn(
    *("cudnnSpatialTfSamplerBackward", turned, scales[0], tensor(0, *source), at(x), scales[1]),
    *(tensor(0, *source), at(w), scales[2], tensor(0, *images), at(y), at(p[5]), scales[3], at(p[6])),
)
passed["SampleBack"] = (
    f"{turned_text} 1.5 {text(0, *source)} {x:#x} 0.25 {text(0, *source)} {w:#x} "
    f"2.5 {text(0, *images)} {y:#x} {hexes[5]} 0.75 {hexes[6]}"
)

# What is fused: NVIDIA's library wants a place for what is added, and does other activations by themselves.
# It works in what the layers before have left to the stream.
filter_ = dnn.descriptor("Filter", "FilterNd", 0, 0, 4, ints(4, 3, 4, 3))
of_filters, fused = ((1, 4, 1, 1), (4, 1, 1, 1)), []
for mode, alpha2, z in ((1, 0.5, at(p[0])), (2, 0.0, None)):
    activation = dnn.descriptor("Activation", "Activation", mode, 0, double(0))
    dnn(
        *(
            "cudnnConvolutionBiasActivationForward",
            Scale(2, FLOAT),
            tensor(0, *X),
            at(x),
            filter_,
            at(w),
            by,
            1,
        ),
        *(
            None,
            size(0),
            Scale(alpha2, FLOAT),
            tensor(0, *Y),
            z,
            tensor(0, *of_filters),
            at(p[1]),
            activation,
        ),
        *(tensor(0, *Y), at(y)),
    )
    algorithm, done = (6, "1:0:0") if mode == 1 else (1, "5:0:0")
    added = hexes[0] if z else f"{y:#x}"
    fused.append(
        f"2 {text(0, *X)} {x:#x} 0:0:[4,3,4,3] {w:#x} {by_text} {algorithm} {5 << 20} {alpha2:g} "
        f"{text(0, *Y)} {added} {text(0, *of_filters)} {hexes[1]} {done} {text(0, *Y)} {y:#x}"
    )
passed["Fused"] = fused
# In half precision the sum in between may be -infinity, of which swish makes no number.
in_half = dnn.descriptor("Filter", "FilterNd", 2, 0, 4, ints(4, 3, 4, 3))
convolution = (Scale(2, HALF), tensor(2, *X), at(x), in_half, at(w), by, 1, None, size(0), Scale(0, HALF))
swish = dnn.status(
    *("cudnnConvolutionBiasActivationForward", *convolution, tensor(2, *Y), None),
    *(tensor(2, *of_filters), at(p[1]), dnn.descriptor("Activation", "Activation", 6, 0, double(0))),
    *(tensor(2, *Y), at(y)),
)
passed["swish in half"] = [swish, int(driver.cuCtxSynchronize()[0])]
asked = f"{text(0, *X)} 0:0:[4,3,4,3] {by_text} {text(0, *Y)}"
passed["cudnnGetConvolutionForwardAlgorithm_v7"] = [
    passed["cudnnGetConvolutionForwardAlgorithm_v7"],
    *[asked] * 2,
]
passed["Activation"] = [passed["Activation"], f"2:0:0 1 {text(0, *Y)} {y:#x} 0 {text(0, *Y)} {y:#x}"]
driver.cuCtxSynchronize()

other = layers(3)
elsewhere = dnn.status(
    *("cudnnRNNForward", other, 1, at(p[3]), rows(5), at(x), rows(14), at(y)),
    *(h, at(p[4]), at(p[5]), h, None, None, *rest),
)
passed["weights elsewhere"] = [elsewhere, int(driver.cuCtxSynchronize()[0])]
little = dnn.status(
    *("cudnnRNNForward", lstm, 1, at(p[3]), rows(5), at(x), rows(14), at(y)),
    *(h, at(p[4]), at(p[5]), h, None, None, *rest[:4], size(4320), at(p[2])),
)
passed["little to keep"] = [little, int(driver.cuCtxSynchronize()[0])]

far = tensor(0, (2, 2, 2, 2), (1 << 30, 4, 2, 1))
outside = dnn.status("cudnnScaleTensor", far, at(x), Scale(2, FLOAT))
passed["outside"] = [outside, int(driver.cuCtxSynchronize()[0])]
refused = dnn.status("cudnnScaleTensor", tensor(0, *X), at(x), Scale(2, FLOAT))
passed["Scale"] = f"{text(0, *X)} {x:#x} 2"
passed["refused"] = [refused, int(driver.cuCtxSynchronize()[0])]
print(json.dumps(passed))
