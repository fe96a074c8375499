"""Several software GPUs in one process: what the environment lists, each with memory of its own."""

from __future__ import annotations

import os
import subprocess
import sys

UUIDS = ("GPU-00112233-4455-6677-8899-aabbccddeeff", "GPU-11112233-4455-6677-8899-aabbccddeeff")

PRELUDE = """
import ctypes
from tests.softgpu.driver.raw import *
from tests.softgpu.driver import ptx, raw
cuda = Cuda()
cuda.cuInit(0)
"""


def check(program: str, **environment: str) -> str:
    """Runs the program, in which ``cuda`` is a driver of two devices; what it wrote to the log."""
    given = {"GPU_KERNELS_SOFTGPU_MEMORY_MIB": "64,32", "GPU_KERNELS_SOFTGPU_UUID": ",".join(UUIDS)}
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + program],
        env=os.environ | given | environment,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_each_has_its_size_its_uuid_and_its_place():
    check("""
assert cuda.new("cuDeviceGetCount", kind=c_int) == 2
for device, size in enumerate((64, 32)):
    assert cuda.new("cuDeviceTotalMem_v2", device) == size << 20
    uuid = ctypes.create_string_buffer(16)
    cuda.cuDeviceGetUuid_v2(uuid, device)
    assert uuid.raw.hex() == ("00" if device == 0 else "11") + "112233445566778899aabbccddeeff"
    place = ctypes.create_string_buffer(16)
    cuda.cuDeviceGetPCIBusId(place, 16, device)
    assert cuda.new("cuDeviceGetByPCIBusId", place, kind=c_int) == device
assert cuda.code("cuDeviceGet", byref(c_int()), 2) == raw.INVALID_DEVICE
assert cuda.new("cuDeviceCanAccessPeer", 0, 1, kind=c_int) == 0
assert cuda.new("cuDeviceGetP2PAttribute", 2, 0, 1, kind=c_int) == 0
assert cuda.code("cuDeviceGetP2PAttribute", byref(c_int()), 2, 1, 1) == raw.INVALID_DEVICE
    """)


def test_memory_and_kernels_are_of_the_current_device():
    check("""
text = ptx.HEADER + ptx.FILL
contexts = [cuda.new("cuDevicePrimaryCtxRetain", device) for device in (0, 1)]
results = []
for device, context in enumerate(contexts):
    cuda.cuCtxSetCurrent(context)
    assert cuda.new("cuCtxGetDevice", kind=c_int) == device
    to = cuda.alloc(40)
    assert cuda.new("cuPointerGetAttribute", 9, to, kind=c_int) == device  # DEVICE_ORDINAL
    fill = cuda.kernel(cuda.load(text), "fill")
    assert cuda.launch(fill, c_uint64(to), c_uint(device), c_uint(10), block=(32, 1, 1)) == 0
    cuda.cuCtxSynchronize()
    results.append((to, cuda.read(to, 40)))
for device, (to, data) in enumerate(results):
    assert list(memoryview(data).cast("I")) == list(range(device, device + 10))
# The second one's slice is its own: what does not fit there leaves the first as it was.
assert cuda.code("cuMemAlloc_v2", byref(c_uint64()), 40 << 20) == raw.OUT_OF_MEMORY
cuda.cuCtxSetCurrent(contexts[0])
cuda.alloc(40 << 20)
    """)


def test_a_kernel_does_not_reach_the_other_devices_memory():
    log = check("""
first, second = (cuda.new("cuDevicePrimaryCtxRetain", device) for device in (0, 1))
cuda.cuCtxSetCurrent(first)
there = cuda.alloc(40)
cuda.cuCtxSetCurrent(second)
assert cuda.code("cuCtxEnablePeerAccess", first, 0) == 217  # PEER_ACCESS_UNSUPPORTED
assert cuda.code("cuCtxEnablePeerAccess", second, 0) == raw.INVALID_CONTEXT  # its own
fill = cuda.kernel(cuda.load(ptx.HEADER + ptx.FILL), "fill")
cuda.launch(fill, c_uint64(there), c_uint(1), c_uint(10), block=(32, 1, 1))
assert cuda.code("cuCtxSynchronize") == raw.ILLEGAL_ADDRESS
cuda.cuCtxSetCurrent(first)  # another context: it goes on
assert cuda.read(there, 40) == bytes(40)
    """)
    assert "fill" in log


def test_host_memory_is_every_devices():
    check("""
pinned = c_uint64()
cuda.cuCtxSetCurrent(cuda.new("cuDevicePrimaryCtxRetain", 0))
cuda.cuMemHostAlloc(byref(pinned), 40, 1)
cuda.cuCtxSetCurrent(cuda.new("cuDevicePrimaryCtxRetain", 1))
fill = cuda.kernel(cuda.load(ptx.HEADER + ptx.FILL), "fill")
cuda.launch(fill, pinned, c_uint(1), c_uint(10), block=(32, 1, 1))
cuda.cuCtxSynchronize()
assert list((ctypes.c_uint * 10).from_address(pinned.value)) == list(range(1, 11))
    """)


def test_a_wrong_entry_is_told_and_the_others_count():
    log = check(
        """
assert cuda.new("cuDeviceGetCount", kind=c_int) == 2
assert cuda.new("cuDeviceTotalMem_v2", 1) == 16 << 20
    """,
        GPU_KERNELS_SOFTGPU_MEMORY_MIB="many,16",
        GPU_KERNELS_SOFTGPU_UUID="GPU-5",
    )
    assert "GPU_KERNELS_SOFTGPU_MEMORY_MIB=many is ignored" in log
    assert "GPU_KERNELS_SOFTGPU_UUID=GPU-5 is ignored" in log
