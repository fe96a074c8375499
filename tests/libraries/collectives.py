"""Calls NCCL as a program of one rank does: ``collectives.py LIBRARY`` prints what it found as JSON."""

from __future__ import annotations

import ctypes
import json
import sys

import numpy as np
from cuda.bindings import driver

nccl = ctypes.CDLL(sys.argv[1])
FLOAT, SUM, AVERAGE = 7, 0, 4


class UniqueId(ctypes.Structure):
    _fields_ = (("bytes", ctypes.c_char * 128),)


def on_device(array: np.ndarray) -> ctypes.c_void_p:
    error, address = driver.cuMemAlloc(array.nbytes)
    assert error == 0, error
    driver.cuMemcpyHtoD(address, array.ctypes.data, array.nbytes)
    return ctypes.c_void_p(int(address))


def fetch(address: ctypes.c_void_p, count: int) -> list[float]:
    out = np.empty(count, "float32")
    (error,) = driver.cuMemcpyDtoH(out.ctypes.data, address.value, out.nbytes)
    assert error == 0, error
    return [float(number) for number in out]


def communicator(ranks: int = 1) -> tuple[int, ctypes.c_void_p]:
    unique, made = UniqueId(), ctypes.c_void_p()
    assert nccl.ncclGetUniqueId(ctypes.byref(unique)) == 0
    return nccl.ncclCommInitRank(ctypes.byref(made), ranks, unique, 0), made


driver.cuInit(0)
_, device = driver.cuDeviceGet(0)
_, context = driver.cuDevicePrimaryCtxRetain(device)
driver.cuCtxPushCurrent(context)
_, stream_ = driver.cuStreamCreate(0)
stream = ctypes.c_void_p(int(stream_))
N = 5
numbers = np.arange(N, dtype="float32") + 1
size = ctypes.c_size_t(N)


def copied(call, *arguments, last=()) -> bool:
    """Whether a call from one buffer to another leaves the one's numbers in the other."""
    source, target = on_device(numbers), on_device(np.zeros(N, "float32"))
    assert call(source, target, size, FLOAT, *arguments, comm, stream, *last) == 0
    driver.cuStreamSynchronize(stream_)
    return fetch(target, N) == list(numbers)


status, comm = communicator()
assert status == 0
count, rank = ctypes.c_int(), ctypes.c_int(7)
nccl.ncclCommCount(comm, ctypes.byref(count))
nccl.ncclCommUserRank(comm, ctypes.byref(rank))
found = {
    "count and rank": [count.value, rank.value],
    "copied": {
        "all reduce": copied(nccl.ncclAllReduce, SUM),
        "average": copied(nccl.pncclAllReduce, AVERAGE),
        "reduce": copied(nccl.ncclReduce, SUM, 0),
        "broadcast": copied(nccl.ncclBroadcast, 0),
        "all gather": copied(nccl.ncclAllGather),
        "reduce scatter": copied(nccl.ncclReduceScatter, SUM),
        "all to all": copied(nccl.ncclAlltoAll),
    },
}
a, b, c = (on_device(array) for array in (numbers, numbers * 2, np.zeros(N, "float32")))
assert nccl.ncclAllReduce(a, a, size, FLOAT, SUM, comm, stream) == 0
found["in place"] = fetch(a, N) == list(numbers)
nccl.ncclGroupStart()
sent = [nccl.ncclSend(a, size, FLOAT, 0, comm, stream), nccl.ncclRecv(c, size, FLOAT, 0, comm, stream)]
sent += [nccl.ncclSend(b, size, FLOAT, 0, comm, stream), nccl.ncclRecv(a, size, FLOAT, 0, comm, stream)]
sent.append(nccl.ncclGroupEnd())
driver.cuStreamSynchronize(stream_)
found["sent"] = [sent, fetch(c, N) == list(numbers), fetch(a, N) == list(numbers * 2)]
nccl.ncclGetLastError.restype = ctypes.c_char_p
found["refused"] = {
    "two ranks": communicator(2)[0],
    "alone": nccl.ncclSend(a, size, FLOAT, 0, comm, stream),
    "type": nccl.ncclAllReduce(a, b, size, 12, SUM, comm, stream),
    "operation": nccl.ncclAllReduce(a, b, size, FLOAT, 5, comm, stream),
    "root": nccl.ncclBroadcast(a, b, size, FLOAT, 1, comm, stream),
    "bytes": nccl.ncclAllReduce(a, b, ctypes.c_size_t(2**62), FLOAT, SUM, comm, stream),
    "outside": nccl.ncclAllReduce(a, b, ctypes.c_size_t(2**40), FLOAT, SUM, comm, stream),
}
found["ended"] = [
    nccl.ncclCommDestroy(comm),
    nccl.ncclCommDestroy(comm),
    nccl.ncclAllReduce(a, b, size, 7, 0, comm, stream),
]
print(json.dumps(found))
