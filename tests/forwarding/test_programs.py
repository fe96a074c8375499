"""numba-cuda and cuda.core, as pip installs them, on the software GPU through the forwarding runtime."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.native_build import Build, build

from .minimal_agent import MinimalAgent
from .recorded import Client

# The first test may have to build the software GPU.
pytestmark = pytest.mark.timeout(900)
pytest.importorskip("numba.cuda")
pytest.importorskip("cuda.core")


@pytest.fixture
def software(tmp_path: Path, native: Build) -> Iterator[Client]:
    """A client whose worker runs kernels on the software GPU, with the linker's stand-ins preloaded."""
    build(native.folder, "softgpu", "nvjitlink_12", "nvjitlink_13")
    driver = native.folder / "softgpu" / "libcuda.so.1"
    settings = {"GPU_KERNELS_SOFTGPU_MEMORY_MIB": "64", "GPU_KERNELS_SOFTGPU_LOG": "stderr"}
    with MinimalAgent(tmp_path, native.worker, driver, environment=settings) as agent:
        yield SoftwareClient(agent, native)


class SoftwareClient(Client):
    def environment_of(self, **extra: str) -> dict[str, str]:
        stand_ins = sorted((self.native.folder / "softgpu").glob("nvjitlink-*/libnvJitLink.so.1?"))
        environment = super().environment_of(**extra)
        return environment | {
            "LD_PRELOAD": " ".join(map(str, stand_ins)),
            "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0",
        }


NUMBA = "import numpy as np\nfrom numba import cuda, float32\n"


def test_numba_adds_vectors(software: Client) -> None:
    software.check(
        NUMBA
        + """
@cuda.jit
def add(a, b, c):
    i = cuda.grid(1)
    if i < c.size:
        c[i] = a[i] + b[i]

a = np.arange(100_001, dtype=np.float32)
c = cuda.device_array_like(a)
add[(a.size + 255) // 256, 256](cuda.to_device(a), cuda.to_device(2 * a), c)
assert np.array_equal(c.copy_to_host(), 3 * a)
assert cuda.current_context().get_memory_info().total == 64 << 20
assert cuda.get_current_device().name == "Test GPU"
"""
    )


def test_numba_reduces_with_shared_memory_and_atomics(software: Client) -> None:
    software.check(
        NUMBA
        + """
@cuda.jit
def total(x, out):
    part = cuda.shared.array(256, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    part[t] = x[i] if i < x.size else 0
    cuda.syncthreads()
    half = 128
    while half > 0:
        if t < half:
            part[t] += part[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        cuda.atomic.add(out, 0, part[0])

x, out = np.ones(50_000, np.float32), cuda.to_device(np.zeros(1, np.float32))
total[(x.size + 255) // 256, 256](cuda.to_device(x), out)
assert out.copy_to_host()[0] == 50_000
"""
    )


def test_numba_streams_events_and_host_memory(software: Client) -> None:
    software.check(
        NUMBA
        + """
@cuda.jit
def double(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2

stream, start, end = cuda.stream(), cuda.event(), cuda.event()
pinned = cuda.pinned_array(1000, np.float32)
pinned[:] = 3
start.record(stream)
on_device = cuda.to_device(pinned, stream=stream)
double[4, 256, stream](on_device)
on_device.copy_to_host(pinned, stream=stream)
end.record(stream)
end.synchronize()
assert (pinned == 6).all() and start.elapsed_time(end) >= 0
for array in cuda.mapped_array(300, np.float32), cuda.managed_array(300, np.float32):
    array[:] = 5
    double[2, 256](array)
    cuda.synchronize()
    assert (array == 10).all()
"""
    )


def test_numba_survives_out_of_memory(software: Client) -> None:
    software.check(
        NUMBA
        + """
try:
    cuda.device_array(65 << 20, np.uint8)
except cuda.cudadrv.driver.CudaAPIError as error:
    assert "CUDA_ERROR_OUT_OF_MEMORY" in str(error)
else:
    raise AssertionError("it fitted")
x = cuda.to_device(np.arange(10))
assert (x.copy_to_host() == np.arange(10)).all()
"""
    )


def test_numba_shows_an_illegal_address(software: Client) -> None:
    done = software.run(
        NUMBA
        + """
@cuda.jit
def wild(x):
    x[cuda.grid(1) + (1 << 40)] = 1

x = cuda.to_device(np.zeros(10))
wild[1, 32](x)
for call in cuda.synchronize, x.copy_to_host:
    try:
        call()
    except cuda.cudadrv.driver.CudaAPIError as error:
        print(error)
"""
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("CUDA_ERROR_ILLEGAL_ADDRESS") >= 2
    assert "Restart the kernel" in done.stderr
    assert "out of bounds" in software.agent.log.read_text()
    software.check(NUMBA + "assert cuda.to_device(np.ones(5)).copy_to_host().sum() == 5\n")


def test_cuda_core_compiles_and_launches(software: Client) -> None:
    software.check("""
import numpy as np
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

device = Device()
device.set_current()
code = '''extern "C" __global__ void saxpy(float a, const float* x, float* y, size_t n) {
    size_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}'''
options = ProgramOptions(std="c++17", arch="compute_75")
kernel = Program(code, code_type="c++", options=options).compile("ptx").get_kernel("saxpy")
assert kernel.num_arguments == 4
stream = device.create_stream()
host_x, host_y = np.arange(1000, dtype=np.float32), np.ones(1000, dtype=np.float32)
x, y = (device.allocate(4000, stream=stream) for _ in range(2))
for there, here in (x, host_x), (y, host_y):
    assert driver.cuMemcpyHtoD(int(there.handle), here.ctypes.data, 4000)[0] == 0
launch(stream, LaunchConfig(grid=4, block=256), kernel, np.float32(2), x, y, np.uint64(1000))
stream.record().sync()
assert driver.cuMemcpyDtoH(host_y.ctypes.data, int(y.handle), 4000)[0] == 0
assert np.array_equal(host_y, 1 + 2 * host_x)
for buffer in x, y:
    buffer.close(stream)
""")


def test_cuda_core_captures_a_graph_and_launches_it(software: Client) -> None:
    software.check("""
import numpy as np
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

device = Device()
device.set_current()
code = '''extern "C" __global__ void grow(float* y, size_t n) {
    size_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += 1;
}'''
options = ProgramOptions(std="c++17", arch="compute_75")
kernel = Program(code, code_type="c++", options=options).compile("ptx").get_kernel("grow")
stream = device.create_stream()
y, host = device.allocate(4000, stream=stream), np.zeros(1000, np.float32)
assert driver.cuMemcpyHtoD(int(y.handle), host.ctypes.data, 4000)[0] == 0
builder = stream.create_graph_builder().begin_building()
for _ in range(3):
    launch(builder, LaunchConfig(grid=4, block=256), kernel, y, np.uint64(1000))
graph = builder.end_building().complete()
graph.upload(stream)
for _ in range(5):
    graph.launch(stream)
stream.sync()
assert driver.cuMemcpyDtoH(host.ctypes.data, int(y.handle), 4000)[0] == 0
assert (host == 15).all()
graph.close()
""")
    launches = 0
    while launches != 5:  # what is captured does not run; a program that only replays is not idle
        packets = software.agent.packets()
        launches = max([launches, *(int(str(p["launches"])) for p in packets if "launches" in p)])
