"""What programs ask the driver beside a framework: kernels that go wrong, the student's own and one of the
framework's on memory that has been given back; and how much memory is in use.
"""

from __future__ import annotations

import ctypes

WILD = b"""
.version 6.4
.target sm_70
.address_size 64
.visible .entry wild() {
    .reg .b32 %r<2>; .reg .b64 %d<2>;
    mov.u64 %d1, 64; mov.u32 %r1, 1; st.global.u32 [%d1], %r1; ret;
}"""
ILLEGAL_ADDRESS = 700


def driver() -> ctypes.CDLL:
    """The driver, with the context that frameworks use current in this thread."""
    found, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    assert found.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert found.cuCtxSetCurrent(context) == 0
    return found


def memory() -> tuple[int, int]:
    """MiB in use, and in all."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    assert driver().cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
    return total.value - free.value >> 20, total.value >> 20


def launch_wild() -> None:
    """A kernel writes where nothing is, and the next wait says so."""
    cuda, module, function = driver(), ctypes.c_void_p(), ctypes.c_void_p()
    assert cuda.cuModuleLoadData(ctypes.byref(module), WILD) == 0
    assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b"wild") == 0
    assert cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None) == 0
    assert cuda.cuCtxSynchronize() == ILLEGAL_ADDRESS


class Freed:
    """An array of zeros on the GPU, for who takes one by DLPack; ``give_back`` takes its memory away."""

    class _Tensor(ctypes.Structure):
        _fields_ = [
            ("data", ctypes.c_void_p),
            ("device_type", ctypes.c_int32),
            ("device_id", ctypes.c_int32),
            ("ndim", ctypes.c_int32),
            ("code", ctypes.c_uint8),
            ("bits", ctypes.c_uint8),
            ("lanes", ctypes.c_uint16),
            ("shape", ctypes.POINTER(ctypes.c_int64)),
            ("strides", ctypes.c_void_p),
            ("byte_offset", ctypes.c_uint64),
            ("manager", ctypes.c_void_p),
            ("deleter", ctypes.c_void_p),
        ]

    def __init__(self, count: int) -> None:
        self._cuda, self._at = driver(), ctypes.c_uint64()
        assert self._cuda.cuMemAlloc_v2(ctypes.byref(self._at), ctypes.c_size_t(count * 4)) == 0
        assert self._cuda.cuMemsetD8_v2(self._at, ctypes.c_ubyte(0), ctypes.c_size_t(count * 4)) == 0
        assert self._cuda.cuCtxSynchronize() == 0
        self._deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: None)
        self._shape = (ctypes.c_int64 * 1)(count)
        self._tensor = self._Tensor(
            self._at.value,
            2,
            0,
            1,
            2,
            32,
            1,
            self._shape,
            None,
            0,
            None,
            ctypes.cast(self._deleter, ctypes.c_void_p),
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, **_: object) -> object:
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self._tensor), b"dltensor", None)

    def give_back(self) -> None:
        assert self._cuda.cuMemFree_v2(self._at) == 0
