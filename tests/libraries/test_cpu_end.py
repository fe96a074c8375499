"""The end that computes on processors, called by itself: what a slice's memory becomes, and when it asks
whether it was interrupted, is the test's."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from tests.native_build import Build, build_of_make

CUSOLVER, CUDNN = 2, 3
NOT_SUPPORTED = 801
THERE, STOPPED = 0, 2  # GkRoom
PIECE = 1 << 18  # numbers between two looks, about
pytestmark = [pytest.mark.native, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def native() -> Build:
    return build_of_make("cpu_end")


class Slice(ctypes.Structure):
    """GkSlice: all of the process is its memory."""

    Reach = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_bool)
    Reserve = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64)
    Stopped = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p)
    Tell = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)
    _fields_ = (
        ("user", ctypes.c_void_p),
        ("memory", ctypes.c_uint64),
        ("threads", ctypes.c_uint),
        ("reach", Reach),
        ("reserve", Reserve),
        ("stopped", Stopped),
        ("tell", Tell),
    )


class CpuEnd:
    def __init__(self, native: Build) -> None:
        self.library = ctypes.CDLL(str(native.software.parent / "libgpu_kernels_maths.so"))
        self.headers = native.folder / "libraries/generated"

    def number(self, library: str, function: str) -> int:
        (found,) = re.findall(
            rf"\bk_{function} = (\d+)", (self.headers / f"{library}_messages.h").read_text()
        )
        return int(found)

    def call(
        self,
        head: tuple[int, int],
        message: bytes,
        reserve: Callable[[int], int] = lambda _: 0,
        stopped: Callable[[], bool] = lambda: False,
    ) -> tuple[int, list[str]]:
        """Its result, and what it told; ``head``: the library's number, and the function's."""
        told: list[str] = []
        given = Slice(
            *(None, 1 << 30, 1),
            Slice.Reach(lambda *_: True),
            Slice.Reserve(lambda _, amount: reserve(amount)),
            Slice.Stopped(lambda _: stopped()),
            Slice.Tell(lambda _, line: told.append(line.decode())),
        )
        call = np.array([*head, 0, 0], "uint16").tobytes() + bytes(24) + message
        return self.library.gk_cpu_end(call, ctypes.c_size_t(len(call)), ctypes.byref(given)), told


def test_a_matrix_that_changes_once_it_was_copied_is_solved_as_it_was(native) -> None:
    end, n = CpuEnd(native), 50
    rows = np.arange(n)
    offsets, indices = np.arange(n + 1, dtype="int32"), rows.astype("int32")
    values, b = np.full(n, 2, "float32"), rows.astype("float32")
    x, singularity = np.zeros(n, "float32"), np.zeros(1, "int32")
    asked = []

    def reserve(amount: int) -> int:
        asked.append(amount)
        if len(asked) == 2:  # it has read the matrix: from now on each row's entry is in the last column
            indices[:] = n - 1
            values[:] = np.nan
        return 0

    at = [array.ctypes.data for array in (values, offsets, indices, b)]
    message = np.array([n, n, 0, *at], "uint64").tobytes() + np.array([0.0]).tobytes()
    message += np.array([2, x.ctypes.data, singularity.ctypes.data], "uint64").tobytes()
    head = CUSOLVER, end.number("cusolver", "cusolverSpScsrlsvqr")
    assert end.call(head, message, reserve) == (0, [])
    assert asked[1] > asked[0]
    assert x.tolist() == (rows / 2).tolist()
    assert singularity[0] == -1


def test_a_limit_that_no_library_has_told_is_the_calls_error_in_words(native) -> None:
    end, n = CpuEnd(native), 40_000
    message = np.array([0, n, 1 << 40, n, 1 << 40], "uint64").tobytes()
    result, told = end.call((CUSOLVER, end.number("cusolver", "cusolverDnSpotrf")), message)
    assert result == NOT_SUPPORTED
    assert told == [
        "cusolverDnSpotrf: it takes 21 million million operations, which nothing can interrupt; a "
        "software GPU does 10: give it smaller matrices, or take a slice of a GPU"
    ]


def test_an_order_of_columns_is_found_with_looks_whether_it_was_interrupted(native) -> None:
    """Of a star: all but one column are neighbours of that one, and sorted as such."""
    end, n = CpuEnd(native), 1 << 20
    spokes = np.arange(1, n, dtype="int32")
    indices = np.concatenate([np.arange(n, dtype="int32"), spokes])
    offsets = np.concatenate([[0], n + np.arange(n)]).astype("int32")
    b, x, singularity = np.ones(n, "float32"), np.zeros(n, "float32"), np.zeros(1, "int32")
    values = np.ones(len(indices), "float32")
    looks = []
    at = [array.ctypes.data for array in (values, offsets, indices, b)]
    message = np.array([n, len(indices), 0, *at], "uint64").tobytes() + np.array([0.0]).tobytes()
    message += np.array([2, x.ctypes.data, singularity.ctypes.data], "uint64").tobytes()
    head = CUSOLVER, end.number("cusolver", "cusolverSpScsrlsvqr")
    reserved = iter((THERE, STOPPED))  # the second is for what comes behind the order
    end.call(head, message, lambda _: next(reserved), lambda: bool(looks.append(None)))
    assert len(looks) >= 30


FLOAT = 0
Case = Iterator[tuple[str, bytes, int]]
"""A function, its message, and how many looks there are at least. It holds what the message points to."""


def tensor(*dims: int) -> bytes:
    """Of single precision, without gaps."""
    strides = [int(np.prod(dims[i + 1 :])) for i in range(len(dims))]
    rest = [0] * (8 - len(dims))
    return (
        np.array([FLOAT, len(dims)], "int32").tobytes() + np.array([*dims, *rest, *strides, *rest]).tobytes()
    )


def one(value: float) -> bytes:
    return np.array([value, 0, 0, 0], "float32").tobytes()


def address(array: np.ndarray) -> bytes:
    return np.array([array.ctypes.data], "uint64").tobytes()


def sampled() -> Case:
    """Large images, each of which one number is taken of."""
    images, side = 8, 512
    x, grid, y = (
        np.ones((images, side, side), "float32"),
        np.zeros((images, 2), "float32"),
        np.zeros(images, "float32"),
    )
    by = np.array([0, FLOAT, 4, 0], "int32").tobytes() + np.array([images, 1, 1, 1]).tobytes()
    message = by + one(1) + tensor(images, 1, side, side) + address(x) + address(grid)
    yield "cudnnSpatialTfSamplerForward", message + one(0) + tensor(images, 1, 1, 1) + address(y), images


def dropped() -> Case:
    """One large image."""
    pieces = 16
    x, y = np.ones(pieces * PIECE, "float32"), np.zeros(pieces * PIECE, "float32")
    states, mask = np.zeros(2, "uint64"), np.zeros(x.size, "uint8")
    dims = tensor(1, 1, 1, x.size)
    message = np.array([0.5]).tobytes() + address(states) + np.array([16, 0], "uint64").tobytes()
    message += dims + address(x) + dims + address(y) + address(mask) + np.array([mask.size]).tobytes()
    yield "cudnnDropoutForward", message, pieces


def classified() -> Case:
    """A sequence of one step, with very many classes: their logarithms and their slopes."""
    classes = 8 * PIECE
    probabilities, slopes = np.ones(classes, "float32"), np.zeros(classes, "float32")
    labels, lengths = np.ones(1, "int32"), np.ones(1, "int32")
    costs = np.zeros(1, "float32")
    dims = tensor(1, 1, classes)
    message = np.array([0]).tobytes() + np.array([FLOAT, 1, 0, 1], "int32").tobytes() + dims
    message += b"".join(map(address, (probabilities, labels, lengths, lengths, costs)))
    message += dims + address(slopes) + bytes(16)
    yield "cudnnCTCLoss_v8", message, 8


@pytest.mark.parametrize("what", [sampled, dropped, classified])
def test_long_work_asks_every_so_often_whether_it_was_interrupted(native, what) -> None:
    end = CpuEnd(native)
    case = what()
    function, message, least = next(case)
    looks = 0

    def stopped() -> bool:
        nonlocal looks
        looks += 1
        return False

    head = CUDNN, end.number("cudnn", function)
    assert end.call(head, message, stopped=stopped) == (0, [])
    assert looks >= least
