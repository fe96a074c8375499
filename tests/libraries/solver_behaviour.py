"""How cuSOLVER behaves beside its results: ``solver_behaviour.py WHAT LIBRARY`` prints that as JSON."""

from __future__ import annotations

import ctypes
import itertools
import json
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from cuda.bindings import driver

from tests.libraries.on_device import OnDevice, batch_of, pointer
from tests.libraries.solver_results import Solver, SparseSolver, long, parts_of, positive, start

what, path = sys.argv[1:]
start()
lib = Solver(path)
N = 4
NOT_READY = 600
EXECUTION_FAILED = 6
room, info = lib.room, lib.info


def matrix() -> OnDevice:
    return OnDevice(np.asfortranarray(np.eye(N, dtype="float32")))


def misfits() -> dict[str, int]:
    """Each argument that does not go together with the others, one at a time."""
    a, tau, count = matrix(), OnDevice(np.zeros(N, "float32")), ctypes.c_int()
    good: list[object] = [0, N, a, N, room, 1, info]
    said = {}
    for name, (place, value) in {"fill": (0, 2), "n": (1, -1), "lead": (3, 3)}.items():
        said[name] = lib.status("Spotrf", *good[:place], value, *good[place + 1 :])
    said["more reflectors than columns"] = lib.status("Sorgqr", N, 2, 3, a, N, tau, room, 1, info)
    said["side"] = lib.status("Sormqr", 2, 0, N, N, 2, a, N, tau, a, N, room, 1, info)
    said["job"] = lib.status("Ssyevd", 2, 0, N, a, N, tau, room, 1, info)
    given = (N, N, a, N, tau, a, N, a, N, room, 1, None, info)
    said["letter"] = lib.status("Sgesvd", "X", "N", *given)
    said["both in place"] = lib.status("Sgesvd", "O", "O", *given)
    said["no settings"] = lib.status("Ssyevj", 0, 0, N, a, N, tau, room, 1, info, None)
    said["room of a negative size"] = lib.status("Spotrf_bufferSize", 0, -N, a, N, ctypes.byref(count))
    settings = lib.settings("gesvdj")
    for name, tolerance in {"no number": np.nan, "negative": -1.0}.items():
        set_tolerance = lib.library.cusolverDnXgesvdjSetTolerance
        said[f"tolerance {name}"] = set_tolerance(settings, ctypes.c_double(tolerance))
    said["sweeps"] = lib.library.cusolverDnXgesvdjSetMaxSweeps(settings, -1)
    of_polar = (lib.params, 1, 2, long(N), long(N), 0, a, long(N), 0, tau, 0, a, long(N), 0, a, long(N), 0)
    rooms = (room, ctypes.c_size_t(1), None, ctypes.c_size_t(1))
    said["neither economical nor not"] = lib.status("Xgesvdp", *of_polar, *rooms, info, ctypes.byref(count))
    said["no place for an answer"] = lib.status(
        "Xgesvdp", *of_polar[:2], 0, *of_polar[3:], *rooms, info, None
    )
    sparse, parts = SparseSolver(path), parts_of(np.eye(N, dtype="float32"), np.ones(N, "float32"))
    said["order of columns"] = sparse.solve("S", N, parts, 4)[0]
    assert sparse.cusparse.cusparseSetMatType(sparse.descriptor, 1) == 0
    said["a matrix that is not general"] = sparse.solve("S", N, parts, 0)[0]
    assert not parts[4].get().any()
    reflectors = (2, N, N, a, N, tau, ctypes.byref(count))
    said["room of more columns than rows"] = lib.status("Sorgqr_bufferSize", *reflectors)
    said["room to nowhere"] = lib.status("Spotrf_bufferSize", 0, N, a, N, None)
    assert (a.get() == np.eye(N)).all()
    return said


def unsupported() -> dict[str, int]:
    a, tau = matrix(), OnDevice(np.zeros(64, "float32"))
    half = (
        lib.params,
        0,
        long(N),
        2,
        a,
        long(N),
        2,
        room,
        ctypes.c_size_t(1),
        None,
        ctypes.c_size_t(1),
        info,
    )
    count, settings = ctypes.c_int(), lib.settings("gesvdj")
    batch = (1, 33, 33, a, 33, tau, a, 33, a, 33, ctypes.byref(count), settings, 2)
    sizes = ctypes.c_size_t(), ctypes.c_size_t()
    of_any = (lib.params, 1, 0, long(N), 0, a, long(N), 4, tau, 0, a, long(N), 0, a, long(N), 0)
    apart = long(N * N)
    approximate = (1, N, N, N, a, N, apart, tau, long(N), a, N, apart, a, N, apart)
    large = (1, 33, 33, a, 33, tau, a, 33, a, 33, room, 1, info, lib.settings("gesvdj"), 2)
    return {
        "half precision": lib.status("Xpotrf", *half),
        "more columns than rows": lib.status(
            "Sgesvd", "N", "N", 3, N, a, N, tau, a, N, a, N, room, 1, None, info
        ),
        "large matrices in a batch": lib.status("SgesvdjBatched", *large),
        "mixed precision": lib.status("SSgesv"),
        "left vectors": lib.status("Xgeev_bufferSize", *of_any, *map(ctypes.byref, sizes)),
        "residuals": lib.status("SgesvdaStridedBatched", *approximate, room, 1, info, info, 1),
        "room for more columns than rows": lib.status("Sgesvd_bufferSize", 3, N, ctypes.byref(count)),
        "room for large matrices in a batch": lib.status("SgesvdjBatched_bufferSize", *batch),
    }


def after(status: int) -> dict[str, int]:
    (error,) = driver.cuCtxSynchronize()
    return {"status": status, "after": int(error)}


def outside() -> dict[str, int]:
    return after(lib.status("Spotrf", 0, N, matrix(), 1 << 30, room, 1, info))


def wrapping() -> dict[str, int]:
    """A batch whose matrices are further apart than 64 bits say."""
    sizes = (lib.params, 0, 0, long(N), 0, matrix(), long(1 << 62), 0, matrix(), 0)
    rooms = (room, ctypes.c_size_t(1), None, ctypes.c_size_t(1))
    return after(lib.status("XsyevBatched", *sizes, *rooms, info, long(1 << 20)))


def apart() -> dict[str, int]:
    """A batch whose results are further apart than the slice is long."""
    a, tau, near, far = matrix(), OnDevice(np.zeros(64, "float32")), long(N * N), long(1 << 40)
    sizes = (1, N, N, N, a, N, long(0), tau, long(N), a, N, far, a, N, near)
    return after(lib.status("SgesvdaStridedBatched", *sizes, room, 1, info, None, 2))


def foreign_info() -> dict[str, int]:
    own = np.zeros(4, "int32")
    place = ctypes.c_void_p(own.ctypes.data)
    said = after(lib.status("Spotrf", 0, N, matrix(), N, room, 1, place))
    assert not own.any()
    return said


def foreign_matrix() -> dict[str, int]:
    own = np.eye(N, dtype="float32")
    each, _ = batch_of([np.eye(N, dtype="float32")])
    array = OnDevice(np.array([int(each[0].address), own.ctypes.data], "uint64"))
    return after(lib.status("SpotrfBatched", 0, N, array, N, info, 2))


def solved_with(pivots: list[int]) -> dict[str, int]:
    on = OnDevice(np.array(pivots, "int32"))
    return after(lib.status("Sgetrs", 0, N, 1, matrix(), N, on, matrix(), N, info))


def wrong_pivots() -> dict[str, int]:
    return solved_with([1, 2, 1 << 30, 4])


def pivots_of_nothing() -> dict[str, int]:
    return solved_with([1, 0, 3, 4])


def half_a_block() -> dict[str, int]:
    """A pivot that says two rows, of which there is one."""
    on = OnDevice(np.array([1, 2, 3, -4], "int64"))
    sizes = (0, long(N), long(1), 0, matrix(), long(N), on, 0, matrix(), long(N))
    rooms = (room, ctypes.c_size_t(1), None, ctypes.c_size_t(1))
    return after(lib.status("Xsytrs", *sizes, *rooms, info))


def no_numbers() -> dict[str, int]:
    """NaN, infinity and numbers of any size end in a result or a code, and in time."""
    ended, s = 0, OnDevice(np.zeros(30, "float32"))
    pivots, settings = OnDevice(np.zeros(30, "int32")), lib.settings("gesvdj")
    u, v = (OnDevice(np.zeros((30, 30), "float32")) for _ in range(2))
    w, rooms = OnDevice(np.zeros(30, "complex64")), (room, ctypes.c_size_t(1), None, ctypes.c_size_t(1))
    generator = np.random.default_rng(5)
    bits = generator.integers(0, 1 << 32, (30, 30)).astype("uint32").view("float32")
    for values in (np.full((30, 30), np.nan), np.full((30, 30), np.inf), bits):
        a = OnDevice(np.asfortranarray(values.astype("float32")))
        for name, arguments in {
            "Spotrf": (0, 30, a, 30, room, 1, info),
            "Sgetrf": (30, 30, a, 30, room, pivots, info),
            "Sgeqrf": (30, 30, a, 30, s, room, 1, info),
            "Ssytrf": (1, 30, a, 30, pivots, room, 1, info),
            "Ssyevd": (1, 0, 30, a, 30, s, room, 1, info),
            "Xgeev": (
                *(lib.params, 0, 1, long(30), 0, a, long(30), 4, w, 0, None, long(1), 0, v, long(30), 0),
                *(*rooms, info),
            ),
            "Sgesvdj": (1, 0, 30, 30, a, 30, s, u, 30, v, 30, room, 1, info, settings),
        }.items():
            a.put(np.asfortranarray(values.astype("float32")))
            assert lib.status(name, *arguments) == 0
            (error,) = driver.cuCtxSynchronize()
            ended += int(error) == 0
            if name in ("Ssyevd", "Sgesvdj"):
                assert lib.codes() == [31 if name == "Sgesvdj" else 30]  # by rotations: n + 1
                assert np.isnan(s.get()).all()
    return {"ended": ended}


def solving(offsets: list[int], indices: list[int]) -> dict[str, int]:
    parts = parts_of(np.eye(N, dtype="float32"), np.ones(N, "float32"))
    parts[1].put(np.array(offsets, "int32"))
    parts[2].put(np.array(indices, "int32"))
    status, _ = SparseSolver(path).solve("S", N, parts, 1)
    assert status == EXECUTION_FAILED  # it waits for its answer, and so is told at once
    return after(0)


def high_column() -> dict[str, int]:
    return solving([0, 1, 2, 3, 4], [0, 1, 1 << 30, 3])


def going_back() -> dict[str, int]:
    return solving([0, 3, 2, 3, 4], [0, 1, 2, 3])


def changing() -> dict[str, bool]:
    """Another stream writes offsets and indices while they are read: numbers, or a fault."""
    n, codes, stop = 2000, set(), threading.Event()
    parts = parts_of(np.eye(n, dtype="float32") + np.eye(n, k=40, dtype="float32"), np.ones(n, "float32"))
    own, (_, other) = SparseSolver(path), driver.cuStreamCreate(1)
    _, mine = driver.cuStreamCreate(1)
    assert own.library.cusolverSpSetStream(own.handle, ctypes.c_void_p(int(mine))) == 0
    # Right ones, those of a wider matrix, which takes more to work in, and wrong ones.
    wider = parts_of(np.eye(n, dtype="float32") + np.eye(n, k=1900, dtype="float32"), np.ones(n, "float32"))
    arrays = [(part[1].array, np.resize(part[2].array, parts[2].array.size)) for part in (parts, wider)]
    arrays.append(tuple(np.full_like(each, -77) for each in arrays[0]))

    def write() -> None:
        driver.cuCtxPushCurrent(driver.cuDevicePrimaryCtxRetain(0)[1])
        for step in itertools.count():
            for on, array in zip(parts[1:3], arrays[(0, 1, 0, 1, 2)[step % 5]], strict=True):
                driver.cuMemcpyHtoDAsync(on.address, array.ctypes.data, array.nbytes, other)
            if driver.cuStreamSynchronize(other)[0] or stop.is_set():
                return

    writer = threading.Thread(target=write)
    writer.start()
    for _ in range(40):
        codes.add((own.solve("S", n, parts, 1)[0], int(driver.cuStreamSynchronize(mine)[0])))
        if any(error for _, error in codes):
            break
    stop.set()
    writer.join()
    return {"ended": codes <= {(0, 0), (6, 700), (0, 700), (3, 1), (3, 0), (6, 1)}}


def refused(status: int) -> dict[str, int]:
    """What the next call that waits says, and that all goes on then."""
    said, small = after(status), matrix()
    again = after(lib.status("Spotrf", 0, N, small, N, room, 1, info))
    assert (small.get() == np.eye(N)).all()
    return said | {"again": again["after"]}


def fill_but(bytes_: int) -> int:
    """Allocates all of the slice but so much."""
    _, free, _ = driver.cuMemGetInfo()
    error, address = driver.cuMemAlloc(free - bytes_)
    assert error == 0
    return int(address)


def full() -> dict[str, int]:
    """Small matrices in a full slice are computed; one whose copy finds no place is not."""
    small, large = matrix(), OnDevice(np.zeros((3000, 3000), "float64", order="F"))
    fill_but(16 << 20)
    assert after(lib.status("Spotrf", 0, N, small, N, room, 1, info)) == {"status": 0, "after": 0}
    return refused(lib.status("Dpotrf", 0, 3000, large, 3000, room, 1, info))


def too_large() -> dict[str, int]:
    """Singular vectors of a matrix whose copies are more than the slice, were it empty."""
    n = 6000
    (_, s), *square = (driver.cuMemAlloc(size * 8) for size in (n, n * n, n * n, n * n))
    a, u, v = (ctypes.c_void_p(int(address)) for _, address in square)
    sizes = (1, 0, n, n, a, n, ctypes.c_void_p(int(s)), u, n, v, n)
    return refused(lib.status("Dgesvdj", *sizes, room, 1, info, lib.settings("gesvdj")))


OTHER = """
import sys
from tests.libraries.on_device import start
start()
print("here", flush=True)
sys.stdin.read()
"""


def freed() -> dict[str, object]:
    """What a program frees after a refusal is free, where another shares its worker too."""
    with subprocess.Popen(
        [sys.executable, "-c", OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"here\n"
        large = OnDevice(np.zeros((3000, 3000), "float64", order="F"))
        filler = fill_but(16 << 20)
        _, before, _ = driver.cuMemGetInfo()
        status = lib.status("Dpotrf", 0, 3000, large, 3000, room, 1, info)
        answers = [driver.cuMemFree(filler)[0], driver.cuCtxSynchronize()[0]]
        _, free, _ = driver.cuMemGetInfo()
        other.communicate(b"")
        return {"status": status, "told": sorted(map(int, answers)), "free": free > before}


def resident() -> int:
    """The bytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def wait_for_copy(before: int, bytes_: int) -> None:
    """Until a call computes on its copies: no function tells of them, but the process grows by them."""
    end = time.monotonic() + 30
    while resident() < before + bytes_:
        assert time.monotonic() < end, f"{resident()} bytes are in memory, {before} were before the call"
        time.sleep(0.001)


def on_stream(stream: driver.CUstream, name: str, *arguments: object) -> None:
    assert lib.library.cusolverDnSetStream(lib.handle, ctypes.c_void_p(int(stream))) == 0
    assert lib.status(name, *arguments) == 0


def too_long() -> dict[str, int]:
    """Singular vectors that would be computed for hours."""
    n = 8000
    (_, s), *square = (driver.cuMemAlloc(size * 4) for size in (n, n * n, n * n, n * n))
    a, u, v = (ctypes.c_void_p(int(address)) for _, address in square)
    sizes = (1, 0, n, n, a, n, ctypes.c_void_p(int(s)), u, n, v, n)
    settings, count = lib.settings("gesvdj"), ctypes.c_int()
    asked = lib.status("Sgesvdj_bufferSize", *sizes, ctypes.byref(count), settings)
    return {"asked": asked, **after(lib.status("Sgesvdj", *sizes, room, 1, info, settings))}


def solved_too_long() -> dict[str, int]:
    """As many right-hand sides as rows, each solved for by itself."""
    n = 8000
    (_, pivots), *square = (driver.cuMemAlloc(size * 8) for size in (n, n * n // 2, n * n // 2))
    a, b = (ctypes.c_void_p(int(address)) for _, address in square)
    long, number = ctypes.c_int64, 0
    sizes = (0, long(n), long(n), number, a, long(n), ctypes.c_void_p(int(pivots)), number, b, long(n))
    bytes_, host_bytes = ctypes.c_size_t(), ctypes.c_size_t()
    asked = lib.status("Xsytrs_bufferSize", *sizes, ctypes.byref(bytes_), ctypes.byref(host_bytes))
    rooms = room, ctypes.c_size_t(1), None, ctypes.c_size_t(1)
    return {"asked": asked, **after(lib.status("Xsytrs", *sizes, *rooms, info))}


def asked_too_much() -> dict[str, int]:
    """What a question does not say it does not refuse: whether rows are exchanged, say."""
    n, count = 20_000, ctypes.c_int()
    return {
        "getrf": lib.status("Sgetrf_bufferSize", n, n, None, n, ctypes.byref(count)),
        "getrf without pivots": after(lib.status("Sgetrf", 2, 2, matrix(), 2, room, None, info))["status"],
        "gesvd": lib.status("Sgesvd_bufferSize", n, n, ctypes.byref(count)),
        "gesvd of few": lib.status("Sgesvd_bufferSize", 10_000, 10_000, ctypes.byref(count)),
        "syevd": lib.status("Ssyevd_bufferSize", 1, 0, n, None, n, None, ctypes.byref(count)),
        "syevd of values": lib.status("Ssyevd_bufferSize", 0, 0, 10_000, None, n, None, ctypes.byref(count)),
    }


def thin() -> dict[str, int]:
    """A row of many columns takes little more than its copy."""
    n = 10_000_000
    a, tau = OnDevice(np.full((1, n), 3, "float32", order="F")), OnDevice(np.zeros(1, "float32"))
    # As CuPy asks: by another leading dimension than it calls with.
    asked = lib.status("Sgeqrf_bufferSize", 40, 3, a, 3, ctypes.byref(ctypes.c_int()))
    return {"asked": asked, **after(lib.status("Sgeqrf", 1, n, a, 1, tau, room, 1, info))}


def in_line() -> dict[str, object]:
    """Room for one call's copies: others begin when it has ended, and more of them than the driver has
    threads keep no other stream waiting. Theirs is a matrix of zeros: without a line they would end first."""
    (n, few), waiting = (2600, 2100), 24
    identity = np.asfortranarray(np.eye(n))
    long_one, zeros = OnDevice(4 * identity), OnDevice(np.zeros((few, few), order="F"))
    _, stream = driver.cuStreamCreate(1)
    (_, turn), (_, end) = driver.cuEventCreate(0), driver.cuEventCreate(0)
    others = [(driver.cuStreamCreate(1)[1], driver.cuEventCreate(0)[1]) for _ in range(waiting)]
    small, codes = OnDevice(np.zeros(4, "int32")), [OnDevice(np.zeros(1, "int32")) for _ in others]
    _, beside = driver.cuStreamCreate(1)
    fill_but(60 << 20)
    driver.cuMemsetD32Async(small.address, 1, 4, stream)
    driver.cuEventRecord(turn, stream)
    on_stream(stream, "Dpotrf", 0, n, long_one, n, room, 1, info)
    driver.cuEventRecord(end, stream)
    # What stands in other streams may begin before it. Nothing tells that it has begun, but its turn is told.
    driver.cuEventSynchronize(turn)
    time.sleep(0.03)
    for (other, other_end), code in zip(others, codes, strict=True):
        on_stream(other, "Dpotrf", 0, few, zeros, few, room, 1, code)
        driver.cuEventRecord(other_end, other)
    limit = limit_that_waits(end)
    driver.cuMemsetD32Async(small.address, 7, 4, beside)
    driver.cuStreamSynchronize(beside)
    (running,) = driver.cuEventQuery(end)
    (error,) = driver.cuCtxSynchronize()
    apart = [driver.cuEventElapsedTime(end, other_end)[1] for _, other_end in others]
    return {
        "after": int(error),
        "limit": limit(),
        "beside": [int(running), *map(int, set(small.get()))],
        "in order": min(apart) >= 0,
        "right": bool((long_one.get() == 2 * identity).all()),
        "codes": sorted({int(code.get()[0]) for code in codes}),
    }


def limit_that_waits(end: driver.CUevent) -> Callable[[], list[int]]:
    """A larger heap, which finds room when the call before `end` has ended. Who uses the context meanwhile
    does not wait for that."""
    _, context = driver.cuCtxGetCurrent()
    heap, answers = driver.CUlimit.CU_LIMIT_MALLOC_HEAP_SIZE, []

    def sets() -> None:
        driver.cuCtxSetCurrent(context)
        answers.append(int(driver.cuCtxSetLimit(heap, 18 << 20)[0]))

    thread = threading.Thread(target=sets)
    thread.start()
    thread.join(0.1)
    asked = [int(driver.cuStreamQuery(driver.CUstream(0))[0]), int(driver.cuEventQuery(end)[0])]

    def ended() -> list[int]:
        thread.join()
        return asked + answers

    return ended


class Extension(ctypes.Structure):
    """The first of what the software GPU offers beyond CUDA (softgpu/driver/extension.h)."""

    _fields_ = (
        ("version", ctypes.c_uint32),
        ("bytes", ctypes.c_uint32),
        ("begin", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)),
        ("enter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
    )


def frees_beside_anothers_call() -> dict[str, list[int]]:
    """What another session's call works in is not waited for, but what was freed in a stream is."""
    find = ctypes.CDLL("libcuda.so.1").gk_softgpu_extension
    find.restype = ctypes.POINTER(Extension)
    extension = find(6).contents
    n, flag = 2600, OnDevice(np.zeros(1, "uint32"))
    large, values = OnDevice(np.asfortranarray(np.eye(n))), OnDevice(np.zeros(n))
    (_, stream), (_, end) = driver.cuStreamCreate(1), driver.cuEventCreate(0)
    (_, waits), (_, writes) = driver.cuStreamCreate(1), driver.cuStreamCreate(1)
    (_, freed), (_, context) = driver.cuMemAlloc(20 << 20), driver.cuCtxGetCurrent()
    fill_but(60 << 20)
    before = resident()
    extension.enter(extension.begin(None, None))
    on_stream(stream, "Dsyevd", 0, 0, n, large, n, values, room, 1, info)  # values alone: seconds, one copy
    driver.cuEventRecord(end, stream)
    extension.enter(None)
    wait_for_copy(before, 40 << 20)
    driver.cuStreamWaitValue32(waits, flag.address, 1, 1)
    driver.cuMemFreeAsync(freed, waits)

    def write() -> None:
        driver.cuCtxSetCurrent(context)
        driver.cuStreamWriteValue32(writes, flag.address, 1, 0)

    timer = threading.Timer(0.2, write)
    timer.start()
    answers = [int(driver.cuMemAlloc(30 << 20)[0]), int(driver.cuMemAlloc(24 << 20)[0])]
    told = [*answers, int(driver.cuEventQuery(end)[0])]
    timer.join()
    return {"told": told}


def polled() -> dict[str, list[int]]:
    """Who polls is told of a refusal as who waits is: once, and the work behind it is done."""
    large = OnDevice(np.zeros((3000, 3000), "float64", order="F"))
    _, stream = driver.cuStreamCreate(1)
    _, event = driver.cuEventCreate(0)
    fill_but(16 << 20)
    told = {}
    for name, poll in {
        "stream": lambda: driver.cuStreamQuery(stream),
        "event": lambda: driver.cuEventQuery(event),
    }.items():
        on_stream(stream, "Dpotrf", 0, 3000, large, 3000, room, 1, info)
        driver.cuEventRecord(event, stream)
        answers = [int(poll()[0])]
        while answers[-1] == NOT_READY:
            answers[:] = [int(poll()[0])]
        told[name] = [*answers, int(poll()[0]), int(driver.cuStreamSynchronize(stream)[0])]
    return told | behind_a_refusal(lambda: on_stream(stream, "Dpotrf", 0, 3000, large, 3000, room, 1, info))


def behind_a_refusal(refused_call: Callable[[], None]) -> dict[str, list[int]]:
    """A graph copies each number to the next one's place. What it wrote is there before it is launched again,
    and the refusal of other work is told then all the same."""
    (_, stream), numbers = driver.cuStreamCreate(1), np.array([1, 0, 0, 0], "uint32")
    place = OnDevice(np.zeros(3, "uint32"))
    driver.cuStreamBeginCapture(stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL)
    driver.cuMemcpyHtoDAsync(place.address, numbers.ctypes.data, 12, stream)
    driver.cuMemcpyDtoHAsync(numbers.ctypes.data + 4, place.address, 12, stream)
    _, graph = driver.cuStreamEndCapture(stream)
    _, ready = driver.cuGraphInstantiate(graph, 0)
    driver.cuGraphLaunch(ready, stream)
    refused_call()
    time.sleep(0.2)  # until it has been refused
    driver.cuGraphLaunch(ready, stream)
    told = [int(driver.cuStreamSynchronize(stream)[0]) for _ in range(2)]
    return {"graph": told, "copied": numbers.tolist()}


def handles() -> dict[str, int]:
    other = ctypes.c_void_p()
    assert lib.library.cusolverDnCreate(ctypes.byref(other)) == 0
    assert lib.library.cusolverDnDestroy(other) == 0
    potrf, a = lib.library.cusolverDnSpotrf, matrix()
    given = (0, N, pointer(a), N, pointer(room), 1, pointer(info))
    said = {
        "destroyed": potrf(other, *given),
        "destroyed twice": lib.library.cusolverDnDestroy(other),
        "invented": potrf(ctypes.c_void_p(a.array.ctypes.data), *given),
        "none": potrf(None, *given),
        "of a stream": lib.library.cusolverDnSetStream(other, None),
    }
    assert potrf(lib.handle, *given) == 0
    own = SparseSolver(path)
    said["of the sparse part"] = potrf(own.handle, *given)
    own.handle, stream = lib.handle, ctypes.c_void_p()
    said["of the dense part"] = own.solve("S", N, (a, info, info, a, a), 0)[0]
    said["whose stream is asked for"] = lib.library.cusolverSpGetStream(lib.handle, ctypes.byref(stream))
    assert lib.library.cusolverDnGetStream(lib.handle, ctypes.byref(stream)) == 0
    return said


def order() -> dict[str, bool]:
    """Between other work of a stream, with nothing that waits."""
    _, stream = driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
    assert lib.library.cusolverDnSetStream(lib.handle, ctypes.c_void_p(int(stream))) == 0
    n, a = 200, positive("float64", 200)
    on, out = OnDevice(a), np.zeros_like(a)
    wanted = np.linalg.cholesky(a)
    for _ in range(3):
        driver.cuMemcpyHtoDAsync(on.address, a.ctypes.data, a.nbytes, stream)
        assert lib.status("Dpotrf", 0, n, on, n, room, 1, info) == 0
        driver.cuMemcpyDtoHAsync(out.ctypes.data, on.address, out.nbytes, stream)
        driver.cuMemsetD8Async(on.address, 0, a.nbytes, stream)
        driver.cuStreamSynchronize(stream)
        if not np.allclose(np.tril(out), wanted):
            return {"right": False}
    return {"right": True}


run: Callable[[], dict[str, int]] = globals()[what]
print(json.dumps(run()))
