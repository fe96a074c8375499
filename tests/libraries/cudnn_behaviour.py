"""How cuDNN behaves beside its results: ``cudnn_behaviour.py WHAT LIBRARY`` prints that as JSON."""

from __future__ import annotations

import ctypes
import functools
import json
import os
import signal
import sys
import threading
import time

import numpy as np
from cuda.bindings import driver

from tests.libraries import graphs, recurrent
from tests.libraries.convolutions import CASES, forward
from tests.libraries.cudnn_on_device import BAD_PARAMETER, FLOAT, Cudnn, Filter, Scale, Tensor, random
from tests.libraries.on_device import OnDevice, apart, start

what, path = sys.argv[1:]
start()
dnn = Cudnn(path)
CASE = CASES[0]
one, zero = Scale(1, FLOAT), Scale(0, FLOAT)
kept: list[object] = []
"""What lives until the program ends."""


def ints(*values: int) -> ctypes.Array[ctypes.c_int]:
    return (ctypes.c_int * len(values))(*values)


def tensor(dims: tuple[int, ...], strides: tuple[int, ...], kind: int = 0) -> ctypes.c_void_p:
    return dnn.descriptor("Tensor", "TensorNd", kind, len(dims), ints(*dims), ints(*strides))


def packed(*dims: int) -> ctypes.c_void_p:
    return dnn.descriptor("Tensor", "Tensor4d", 0, 0, *dims)


def operands() -> tuple[Tensor, Tensor, Tensor]:
    return (
        Tensor(dnn, random(FLOAT, *CASE.x), FLOAT),
        Filter(dnn, random(FLOAT, *CASE.w), FLOAT),
        Tensor(dnn, random(FLOAT, *CASE.y), FLOAT),
    )


def convolution() -> ctypes.c_void_p:
    return dnn.convolution(CASE.pads, CASE.steps, CASE.dilations, CASE.groups)


def misfits() -> dict[str, int]:
    """Each descriptor that does not go together with the others, one at a time."""
    x, w, y = operands()
    good = {"x": x.descriptor, "w": w.descriptor, "by": convolution(), "y": y.descriptor, "alpha": one}
    n, c, h, width = CASE.x
    k = CASE.filters
    bad = {
        "batch": ("y", packed(n + 1, k, h, width)),
        "filters": ("y", packed(n, k + 1, h, width)),
        "height": ("y", packed(n, k, h - 1, width)),
        "rank": ("x", tensor((n, c, h, width, 1), (h * width * c, h * width, width, 1, 1))),
        "channels": ("x", packed(n, c + 1, h, width)),
        "groups": ("by", dnn.convolution((1, 1), (1, 1), (1, 1), 2)),
        "larger than the image": ("by", dnn.convolution((1, 1), (1, 1), (40, 40))),
        "huge dilation": ("by", dnn.convolution((1, 1), (1, 1), ((1 << 31) - 1, 1))),
        "huge pad": ("by", dnn.convolution(((1 << 31) - 1, 1), (1, 1), (1, 1))),
        "no convolution": ("by", x.descriptor),
        "no tensor": ("x", ctypes.c_void_p(4711)),
        "null": ("y", None),
        "no scalar": ("alpha", None),
    }
    said = {}
    for name, (place, wrong) in bad.items():
        given = good | {place: wrong}
        said[name] = dnn.status(
            *("cudnnConvolutionForward", given["alpha"], given["x"], x.passed[1], given["w"], w.passed[1]),
            *(given["by"], 1, None, 0, zero, given["y"], y.passed[1]),
        )
    said["handle"] = int(
        dnn.library.cudnnConvolutionForward(
            *(None, one.at, *x.passed, *w.passed, good["by"], 1, None, 0, zero.at, *y.passed)
        )
    )
    before = y.get()
    assert np.array_equal(before, y.get())
    return said


def descriptors() -> dict[str, int]:
    """Tensors that no memory holds, and some that lie on themselves, are refused when they are described."""
    made = ctypes.c_void_p()
    assert dnn.library.cudnnCreateTensorDescriptor(ctypes.byref(made)) == 0
    most = (1 << 31) - 1
    wrong = {
        "nothing": ((0, 1, 1, 1), (1, 1, 1, 1)),
        "negative": ((1, -2, 1, 1), (1, 1, 1, 1)),
        "backwards": ((2, 2, 2, 2), (8, 4, 2, -1)),
        "on itself": ((2, 2, 2, 2), (8, 4, 1, 1)),
        "endless and on itself": ((most,) * 4, (1, 1, 1, 1)),
        "no steps": ((4, 4, 4, 4), (0, 0, 0, 0)),
        "on itself with gaps": ((2, 2, 2, 2), (64, 4, 4, 1)),
        "one within another": ((1, 2, 3, 2), (1, 64, 4, 5)),
    }
    said = {}
    for name, (dims, strides) in wrong.items():
        said[name] = int(dnn.library.cudnnSetTensorNdDescriptor(made, 0, 4, ints(*dims), ints(*strides)))
    said["rank"] = int(dnn.library.cudnnSetTensorNdDescriptor(made, 0, 9, ints(*[1] * 9), ints(*[1] * 9)))
    return said


def outside() -> dict[str, int]:
    """A tensor that reaches far beyond its memory."""
    small = OnDevice(np.zeros(64, "float32"))
    at = ctypes.c_void_p(int(small.address))
    far = tensor((2, 2, 2, 2), (1 << 30, 4, 2, 1))
    relu = dnn.descriptor("Activation", "Activation", 1, 0, ctypes.c_double(0))
    status = dnn.status("cudnnActivationForward", relu, one, far, at, zero, far, at)
    (error,) = driver.cuCtxSynchronize()
    return {"status": status, "after": int(error)}


def endless() -> dict[str, int]:
    """A list that no slice holds; a product of dimensions that no 64 bits hold is no tensor at all."""
    small = OnDevice(np.zeros(64, "float32"))
    at, most = ctypes.c_void_p(int(small.address)), (1 << 31) - 1
    far = dnn.descriptor("Tensor", "Tensor4d", 0, 0, most, 1, 1, 1)
    assert dnn.library.cudnnSetTensor4dDescriptor(far, 0, 0, most, most, most, most) == BAD_PARAMETER
    status = dnn.status("cudnnScaleTensor", far, at, one)
    (error,) = driver.cuCtxSynchronize()
    return {"status": status, "after": int(error)}


def full() -> dict[str, int]:
    """A convolution of a large image in a full slice is refused; a small one after it is not."""
    x, w, y = operands()
    image, point = packed(1, 1, 4096, 2048), Filter(dnn, random(FLOAT, 1, 1, 1, 1), FLOAT)
    _, free, _ = driver.cuMemGetInfo()
    _, memory = driver.cuMemAlloc(free - (16 << 20))
    at = ctypes.c_void_p(int(memory))
    to = ctypes.c_void_p(int(memory) + 4 * 4096 * 2048)
    by = dnn.convolution((0, 0), (1, 1), (1, 1))
    status = dnn.status("cudnnConvolutionForward", one, image, at, point, by, 1, None, 0, zero, image, to)
    (error,) = driver.cuCtxSynchronize()
    again = dnn.status("cudnnConvolutionForward", one, x, w, convolution(), 1, None, 0, zero, y)
    return {"status": status, "after": int(error), "again": again or int(driver.cuCtxSynchronize()[0])}


def foreign_workspace() -> dict[str, int]:
    x, w, y = operands()
    wild = ctypes.c_void_p(1 << 40)
    status = dnn.status(
        *("cudnnConvolutionForward", one, x, w, convolution(), 1, wild, ctypes.c_size_t(64), zero, y)
    )
    (error,) = driver.cuCtxSynchronize()
    return {"status": status, "after": int(error)}


def foreign_filter() -> dict[str, int]:
    x, w, y = operands()
    status = dnn.status(
        *("cudnnConvolutionBackwardFilter", one, x, y, convolution(), 1, None, 0, zero),
        *(w.descriptor, ctypes.c_void_p(int(w.memory.address) + (1 << 40))),
    )
    (error,) = driver.cuCtxSynchronize()
    return {"status": status, "after": int(error)}


def unsupported() -> dict[str, int]:
    bytes_ = tensor((1, 2, 2, 2), (8, 4, 2, 1), 3)
    at = ctypes.c_void_p(int(OnDevice(np.zeros(64, "int8")).address))
    library = dnn.library
    return {
        "types": dnn.status("cudnnScaleTensor", bytes_, at, one),
        **{name: graph.status() for name, graph in graphs.refused_graphs(dnn).items()},
        "skipped input": described_rnn(input_mode=1),
        "attention": int(library.cudnnMultiHeadAttnForward(dnn.handle)),
    }


def described_rnn(**changed: int) -> int:
    """The status of a recurrent layer's descriptor."""
    values = {"algorithm": 0, "cell": 2, "bias": 2, "direction": 0, "input_mode": 0, "type": 0, "compute": 0}
    values |= {"math": 0, "inputs": 3, "hidden": 4, "projection": 4, "layers": 1} | changed
    made = ctypes.c_void_p()
    assert dnn.library.cudnnCreateRNNDescriptor(ctypes.byref(made)) == 0
    return int(dnn.library.cudnnSetRNNDescriptor_v8(made, *values.values(), None, 0))


def recurrent_misfits() -> dict[str, int]:
    wrong = {"cell": 4, "bias": -1, "direction": 2, "hidden": 0, "layers": -1, "math": 9}
    said = {name: described_rnn(**{name: value}) for name, value in wrong.items()}
    case = recurrent.Case(recurrent.LSTM, 3, 4, 2, 1, (3, 2))
    layer = recurrent.Layer(dnn, case, FLOAT, recurrent.random_weights(case, FLOAT))
    at = ctypes.c_void_p(int(layer.space.address))
    size = ctypes.c_size_t
    good = {"x": layer.x, "y": layer.y, "h": layer.h, "weights": size(layer.space.array.nbytes)}
    bad = {
        "x": layer.y,
        "y": layer.x,
        "h": tensor((1, 2, 4), (8, 4, 1)),
        "weights": size(layer.space.array.nbytes - 4),
    }
    for name, value in bad.items():
        given = good | {name: value}
        said[f"forward {name}"] = dnn.status(
            *("cudnnRNNForward", layer.rnn, 0, None, given["x"], at, given["y"], at, given["h"], None, None),
            *(given["h"], None, None, given["weights"], at, size(0), None, size(0), None),
        )
    lengths = recurrent.ints([1, 2])
    made = ctypes.c_void_p()
    assert dnn.library.cudnnCreateRNNDataDescriptor(ctypes.byref(made)) == 0
    said["unsorted"] = int(
        dnn.library.cudnnSetRNNDataDescriptor(made, 0, recurrent.PACKED, 2, 2, 3, lengths, None)
    )
    return said


def options() -> dict[str, int]:
    """Numbers that an enumeration does not have, and none that steer: infinite, negative or no numbers."""
    x, w, y = operands()
    double, nan = ctypes.c_double, float("nan")
    said = {}
    for name, algorithm, given in (
        ("Forward", 8, (one, x, w, convolution(), zero, y)),
        ("BackwardData", 6, (one, w, y, convolution(), zero, x)),
        ("BackwardFilter", 7, (one, x, y, convolution(), zero, w)),
    ):
        *before, result_scale, result = given
        said[name] = dnn.status(
            f"cudnnConvolution{name}", *before, algorithm, None, ctypes.c_size_t(0), result_scale, result
        )
    by = convolution()
    assert dnn.library.cudnnSetConvolutionMathType(by, 4) == 0
    said["math"] = dnn.status("cudnnConvolutionForward", one, x, w, by, 1, None, ctypes.c_size_t(0), zero, y)
    at = ctypes.c_void_p()
    assert dnn.library.cudnnCreateActivationDescriptor(ctypes.byref(at)) == 0
    for name, mode, coefficient in (
        ("ceiling", 3, -1.0),
        ("no ceiling", 3, nan),
        ("endless slope", 4, float("inf")),
        ("activation", 7, 1.0),
    ):
        said[name] = int(dnn.library.cudnnSetActivationDescriptor(at, mode, 0, double(coefficient)))
    said["swish"] = int(dnn.library.cudnnSetActivationDescriptorSwishBeta(at, double(nan)))
    assert dnn.library.cudnnCreateLRNDescriptor(ctypes.byref(at)) == 0
    for name, values in {"alpha": (nan, 1, 1), "beta": (1, nan, 1), "k": (1, 1, float("inf"))}.items():
        said[name] = int(dnn.library.cudnnSetLRNDescriptor(at, 3, *(double(value) for value in values)))
    channels = packed(1, CASE.x[1], 1, 1)
    memory = ctypes.c_void_p(int(w.memory.address))
    for name, factor, epsilon in (("epsilon", 0.5, -1.0), ("no epsilon", 0.5, nan), ("factor", nan, 0.5)):
        said[name] = dnn.status(
            *("cudnnBatchNormalizationForwardTraining", 1, one, zero, x, x, channels, memory, memory),
            *(double(factor), None, None, double(epsilon), None, None),
        )
    for name, kind, values in (
        ("reduction", "ReduceTensor", (9, 0, 0, 0, 0)),
        ("computed in", "ReduceTensor", (0, 77, 0, 0, 0)),
    ):
        made = dnn.descriptor(kind, kind, *values)
        said[name] = dnn.status("cudnnReduceTensor", made, None, 0, None, 0, one, x, zero, x)
    return said


def seconds_to_end(call: tuple[object, ...]) -> float:
    """From an interrupt, which comes while the program waits."""
    name, *arguments = call
    assert dnn.status(str(name), *arguments) == 0
    sent: list[float] = []

    def interrupt() -> None:
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(0.3, interrupt)
    timer.start()
    driver.cuCtxSynchronize()
    ended = time.monotonic()
    timer.cancel()
    timer.join()
    return ended - sent[0] if sent else -1


def interrupted(what: str) -> dict[str, float]:
    """Seconds from the interrupt to the end of work on one large image; -1 where that was over before."""
    signal.signal(signal.SIGINT, lambda *_: None)
    count = 1 << 27
    error, address = driver.cuMemAlloc(4 * count)
    assert error == 0
    memory = ctypes.c_void_p(int(address))
    driver.cuMemsetD32(address, 0, count)
    large = tensor((1, 8, count // 8, 1), (count, count // 8, 1, 1))
    few = packed(1, 1, 1, 1)
    swish = dnn.descriptor("Activation", "Activation", 6, 0, ctypes.c_double(1))
    lrn = dnn.descriptor("LRN", "LRN", 16, *(ctypes.c_double(1) for _ in range(3)))
    sum_ = dnn.descriptor("ReduceTensor", "ReduceTensor", 0, 0, 0, 0, 0)
    result = OnDevice(np.zeros(4, "float32"))
    calls = {
        "classification": classified(memory, count),
        "activation": ("cudnnActivationForward", swish, one, large, memory, zero, large, memory),
        "softmax": ("cudnnSoftmaxForward", 0, 1, one, large, memory, zero, large, memory),
        "response": ("cudnnLRNCrossChannelForward", lrn, 0, one, large, memory, zero, large, memory),
        "reduction": (
            *("cudnnReduceTensor", sum_, None, 0, None, 0, one, large, memory, zero, few),
            ctypes.c_void_p(int(result.address)),
        ),
    }
    return {"seconds": seconds_to_end(calls[what])}


def classified(memory: ctypes.c_void_p, count: int) -> tuple[object, ...]:
    """Sixteen sequences without labels, of many steps."""
    probs = tensor((count // 128, 16, 8), (128, 8, 1))
    by = dnn.descriptor("CTCLoss", "CTCLoss", 0, 1, 0, 0, suffix="_v9")
    steps, none = (OnDevice(np.full(16, n, "int32")) for n in (count // 128, 0))
    lists = None, recurrent.at(none), recurrent.at(steps)
    kept.extend((steps, none))
    return "cudnnCTCLoss_v8", 0, by, probs, memory, *lists, memory, probs, memory, ctypes.c_size_t(0), None


interrupted_activation = functools.partial(interrupted, "activation")
interrupted_softmax = functools.partial(interrupted, "softmax")
interrupted_response = functools.partial(interrupted, "response")
interrupted_classification = functools.partial(interrupted, "classification")
interrupted_reduction = functools.partial(interrupted, "reduction")


def lying_lengths(layout: int, lies: tuple[int, ...]) -> dict[str, int]:
    """The lengths on the device are others than the descriptor's."""
    case = recurrent.Case(recurrent.GRU, 3, 4, 1, 1, (3, 2), layout=layout)
    layer = recurrent.Layer(dnn, case, FLOAT, recurrent.random_weights(case, FLOAT), on_device=True)
    layer.lengths.put(np.array(lies, "int32"))
    x = layer.array(np.zeros((3, 2, 3)))
    none = layer.array(np.zeros((3, 2, 4)))
    at = recurrent.at
    status = dnn.status(
        *(
            "cudnnRNNForward",
            layer.rnn,
            1,
            at(layer.lengths),
            layer.x,
            at(x),
            layer.y,
            at(none),
            layer.h,
            None,
            None,
        ),
        *(layer.h, None, None, ctypes.c_size_t(layer.space.array.nbytes), at(layer.space), *layer.spaces),
    )
    (error,) = driver.cuCtxSynchronize()
    return {"status": status, "after": int(error)}


def lengths_longer() -> dict[str, int]:
    return lying_lengths(recurrent.TIME_FIRST, (1 << 30, 2))


def lengths_negative() -> dict[str, int]:
    return lying_lengths(recurrent.BATCH_FIRST, (3, -1))


def lengths_packed() -> dict[str, int]:
    return lying_lengths(recurrent.PACKED, (3, 1))


def lying_classification(
    labels: tuple[int, ...] = (1, 2, 1),
    counts: tuple[int, int] = (2, 1),
    lengths: tuple[int, int] = (3, 3),
    most: int = 5,
) -> dict[str, int]:
    """Lists on the device that do not say what can be."""
    probs, costs = Tensor(dnn, random(FLOAT, 3, 2, 4), FLOAT), OnDevice(np.zeros(2, "float32"))
    by = dnn.descriptor("CTCLoss", "CTCLoss", 0, 1, 0, most, suffix="_v9")
    lists = [OnDevice(np.array(each, "int32")) for each in (labels, counts, lengths)]
    status = dnn.status(
        *("cudnnCTCLoss_v8", 0, by, probs, *(recurrent.at(each) for each in lists), recurrent.at(costs)),
        *(probs, ctypes.c_size_t(0), None),
    )
    (error,) = driver.cuCtxSynchronize()
    return {"status": status, "after": int(error)}


classification_label = functools.partial(lying_classification, labels=(1, 4, 1))
classification_negative = functools.partial(lying_classification, labels=(1, -1, 1))
classification_length = functools.partial(lying_classification, lengths=(3, 4))
classification_count = functools.partial(lying_classification, counts=(6, 1))
classification_far = functools.partial(lying_classification, counts=(1 << 28, 1), most=1 << 28)


def classification_misfits() -> dict[str, int]:
    """What is seen at once, of both forms."""
    probs = Tensor(dnn, random(FLOAT, 3, 2, 4), FLOAT)
    other = Tensor(dnn, random(FLOAT, 3, 2, 5), FLOAT)
    flat = Tensor(dnn, random(FLOAT, 3, 8), FLOAT)
    space = OnDevice(np.zeros(64, "int32"))
    at, by = recurrent.at(space), dnn.descriptor("CTCLoss", "CTCLoss", 0, 1, 0, 5, suffix="_v9")
    rest = ctypes.c_size_t(0), None
    good = {"labels": (1, 2, 1), "counts": (2, 1), "lengths": (3, 3), "bytes": 28}
    bad = {
        "label": {"labels": (1, 4, 1)},
        "negative label": {"labels": (1, -4, 1)},
        "count": {"counts": (-1, 1)},
        "length": {"lengths": (3, 4)},
        "negative length": {"lengths": (-1, 3)},
        "little room": {"bytes": 27},
    }

    def older(labels: tuple[int, ...], counts: tuple[int, ...], lengths: tuple[int, ...], bytes_: int) -> int:
        return dnn.status(
            *("cudnnCTCLoss", probs, ints(*labels), ints(*counts), ints(*lengths), at, probs, 0, by, at),
            ctypes.c_size_t(bytes_),
        )

    assert older(*good.values()) == 0
    said = {name: older(*(good | wrong).values()) for name, wrong in bad.items()}
    said["slopes"] = dnn.status("cudnnCTCLoss_v8", 0, by, probs, at, at, at, at, other, *rest)
    said["rank"] = dnn.status("cudnnCTCLoss_v8", 0, by, flat, at, at, at, at, flat, *rest)
    said["algorithm"] = dnn.status("cudnnCTCLoss_v8", 2, by, probs, at, at, at, at, probs, *rest)
    grid = dnn.descriptor("SpatialTransformer", "SpatialTransformerNd", 0, 0, 4, ints(2, 1, 3, 4))
    x, y = (Tensor(dnn, random(FLOAT, *shape), FLOAT) for shape in ((2, 1, 5, 5), (2, 1, 3, 4)))
    wrong = {"images": (x.view(x.before)[:1], y), "places": (x.view(x.before), x)}
    for name, (source, result) in wrong.items():
        given = source if isinstance(source, Tensor) else Tensor(dnn, source.astype("float64"), FLOAT)
        said[name] = dnn.status("cudnnSpatialTfSamplerForward", grid, one, given, at, zero, result)
    made = ctypes.c_void_p()
    assert dnn.library.cudnnCreateSpatialTransformerDescriptor(ctypes.byref(made)) == 0
    for name, sampler, dims in (("sampler", 1, (1, 1, 1, 1)), ("size", 0, (1, 0, 1, 1))):
        said[name] = int(dnn.library.cudnnSetSpatialTransformerNdDescriptor(made, sampler, 0, 4, ints(*dims)))
    return said


def dropout_later() -> dict[str, bool]:
    """A recurrent layer's descriptor holds its dropout's: what that is set to later counts, also when
    the program has ended it since.
    """
    case = recurrent.Case(recurrent.TANH, 3, 4, 2, 1, (4, 4))
    layer = recurrent.Layer(dnn, case, FLOAT, recurrent.random_weights(case, FLOAT))
    x = layer.array(np.ones((4, 2, 3)))

    def result() -> np.ndarray:
        return layer.get(layer.forward(x, None, None)[0])

    whole, held = result(), ctypes.c_void_p()
    assert dnn.library.cudnnGetRNNDescriptor_v8(layer.rnn, *[None] * 12, ctypes.byref(held), None) == 0
    states = OnDevice(np.zeros(16, "uint8"))
    given = ctypes.c_float(0.5), recurrent.at(states), ctypes.c_size_t(16), ctypes.c_ulonglong(3)
    assert dnn.library.cudnnSetDropoutDescriptor(layer.dropout, dnn.handle, *given) == 0
    changed = result()
    assert dnn.library.cudnnDestroyDropoutDescriptor(layer.dropout) == 0
    return {
        "held": held.value == layer.dropout.value,
        "changed": not np.allclose(whole, changed),
        "goes on": not np.allclose(whole, result()),
    }


def little_rooms() -> dict[str, int]:
    """Memory that a recurrent layer and dropout keep, of a byte less than the end says that it takes."""
    case = recurrent.Case(recurrent.GRU, 3, 4, 2, 1, (4, 3))
    layer = recurrent.Layer(dnn, case, FLOAT, recurrent.random_weights(case, FLOAT))
    work, reserve = layer.sizes
    x, y = layer.array(np.ones((4, 2, 3))), layer.array(np.ones((4, 2, 4)))
    to, at, size = OnDevice(np.zeros(256)), recurrent.at, ctypes.c_size_t
    weights = size(layer.space.array.nbytes), at(layer.space)
    spaces = size(work), at(layer.work), size(reserve - 1), at(layer.reserve)
    nothing = None, None, None
    made, states = ctypes.c_void_p(), OnDevice(np.zeros(16, "uint8"))
    assert dnn.library.cudnnCreateDropoutDescriptor(ctypes.byref(made)) == 0
    given = ctypes.c_float(0.5), at(states), size(15), ctypes.c_ulonglong(3)
    forward = (1, None, layer.x, at(x), layer.y, at(y), layer.h, None, None, layer.h, None, None)
    back = (None, layer.y, at(y), at(y), layer.x, at(to), layer.h, *nothing, layer.h, *nothing)
    to_weights = (0, None, layer.x, at(x), layer.h, None, layer.y, at(y), weights[0], at(to))
    said = {
        "states": int(dnn.library.cudnnSetDropoutDescriptor(made, dnn.handle, *given)),
        "forward": dnn.status("cudnnRNNForward", layer.rnn, *forward, *weights, *spaces),
        "back": dnn.status("cudnnRNNBackwardData_v8", layer.rnn, *back, *weights, *spaces),
        "weights": dnn.status("cudnnRNNBackwardWeights_v8", layer.rnn, *to_weights, *spaces),
    }
    (error,) = driver.cuCtxSynchronize()
    return {**said, "after": int(error)}


def queries() -> dict[str, object]:
    """What a program asks before its convolution, and that what it is told works."""

    class Performance(ctypes.Structure):
        _fields_ = [
            *(("algorithm", ctypes.c_int), ("status", ctypes.c_int), ("time", ctypes.c_float)),
            *(("memory", ctypes.c_size_t), ("determinism", ctypes.c_int), ("math", ctypes.c_int)),
            ("reserved", ctypes.c_int * 3),
        ]

    x, w, y = operands()
    by, count, found = convolution(), ctypes.c_int(), (Performance * 4)()
    given = (x.descriptor, w.descriptor, by, y.descriptor)
    dnn("cudnnGetConvolutionForwardAlgorithm_v7", *given, 4, ctypes.byref(count), found)
    size, dims = ctypes.c_size_t(77), ints(0, 0, 0, 0)
    dnn("cudnnGetConvolutionForwardWorkspaceSize", *given, found[0].algorithm, ctypes.byref(size))
    status = dnn.library.cudnnGetConvolutionNdForwardOutputDim(by, x.descriptor, w.descriptor, 4, dims)
    dnn("cudnnConvolutionForward", one, x, w, by, found[0].algorithm, None, size, zero, y)
    wrong = dnn.status(
        *("cudnnGetConvolutionForwardAlgorithm_v7", w.descriptor, *given[1:], 4, ctypes.byref(count), found)
    )
    return {
        "count": count.value,
        "status": found[0].status,
        "memory": [found[0].memory, size.value],
        "dims": [status, list(dims) == list(CASE.y)],
        "far": apart(y.get(), forward(CASE, x.kind.back(x.view(x.before)), w.kind.back(w.view(w.before)))),
        "wrong": wrong,
    }


def threads() -> dict[str, int]:
    """Ten threads, with a handle in common and descriptors of their own."""
    wrong: list[float] = []

    def work() -> None:
        driver.cuCtxPushCurrent(context)
        for _ in range(5):
            x, w, y = operands()
            dnn("cudnnConvolutionForward", one, x, w, convolution(), 1, None, 0, zero, y)
            far = apart(y.get(), forward(CASE, x.view(x.before), w.view(w.before)))
            if far > 1e-4:
                wrong.append(far)

    _, context = driver.cuCtxGetCurrent()
    all_ = [threading.Thread(target=work) for _ in range(10)]
    for each in all_:
        each.start()
    for each in all_:
        each.join()
    return {"wrong": len(wrong)}


def captured() -> dict[str, int]:
    _, stream = driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
    x = Tensor(dnn, random(FLOAT, 1, 2, 3, 4), FLOAT)
    before = x.get()
    assert dnn.library.cudnnSetStream(dnn.handle, ctypes.c_void_p(int(stream))) == 0
    driver.cuStreamBeginCapture(stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
    two = Scale(2, FLOAT)
    status = dnn.status("cudnnScaleTensor", x, two)
    error, _ = driver.cuStreamEndCapture(stream)
    again = dnn.status("cudnnScaleTensor", x, two)
    driver.cuStreamSynchronize(stream)
    right = np.allclose(x.get(), 2 * before)
    return {"status": status, "end": int(error), "again": again, "right": int(right)}


print(json.dumps(globals()[what]()))
