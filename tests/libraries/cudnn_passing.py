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
driver.cuCtxSynchronize()

far = tensor(0, (2, 2, 2, 2), (1 << 30, 4, 2, 1))
outside = dnn.status("cudnnScaleTensor", far, at(x), Scale(2, FLOAT))
passed["outside"] = [outside, int(driver.cuCtxSynchronize()[0])]
refused = dnn.status("cudnnScaleTensor", tensor(0, *X), at(x), Scale(2, FLOAT))
passed["Scale"] = f"{text(0, *X)} {x:#x} 2"
passed["refused"] = [refused, int(driver.cuCtxSynchronize()[0])]
print(json.dumps(passed))
