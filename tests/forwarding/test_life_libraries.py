"""What programs use goes on in a second life: numba, cuda.core, and our CUDA runtime."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.native_build import Build, build

from .lives import PRELUDE
from .minimal_agent import MinimalAgent
from .recorded import Client

pytestmark = pytest.mark.timeout(600)  # the first test may have to build


@pytest.fixture
def software(tmp_path: Path, native: Build) -> Iterator[Client]:
    build(native.folder, "softgpu", "nvjitlink_12", "nvjitlink_13", "cudart13")
    driver = native.folder / "softgpu" / "libcuda.so.1"
    with MinimalAgent(
        tmp_path, native.worker, driver, environment={"GPU_KERNELS_SOFTGPU_MEMORY_MIB": "64"}
    ) as agent:
        client = Client(agent, native)
        client.prelude = client.prelude + PRELUDE
        yield client


def stand_ins(native: Build) -> dict[str, str]:
    found = sorted((native.folder / "softgpu").glob("nvjitlink-*/libnvJitLink.so.1?"))
    return {"LD_PRELOAD": " ".join(map(str, found)), "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0"}


def test_numba_goes_on_and_lets_go_of_what_it_held_without_a_word(software: Client, native: Build) -> None:
    pytest.importorskip("numba.cuda")
    done = software.run(
        """
        import gc
        import numpy as np
        from numba import cuda
        from gpu_kernels.magics import life
        @cuda.jit
        def add(a, b, out):
            i = cuda.grid(1)
            if i < out.size:
                out[i] = a[i] + b[i]
        def total():
            a = cuda.to_device(np.arange(1000, dtype=np.float32))
            out = cuda.device_array_like(a)
            add[4, 256](a, a, out)
            return float(out.copy_to_host().sum())
        print(total())
        old, stream, event = cuda.to_device(np.ones(100)), cuda.stream(), cuda.event()
        pinned, managed = cuda.pinned_array(100), cuda.managed_array(100)
        managed[:] = 3
        assert life.begin_anew() == []
        print(total(), total(), managed[0])
        new = cuda.to_device(np.full(100, 5.0))
        del old, stream, event, pinned, managed
        gc.collect()
        for _ in range(30):
            cuda.to_device(np.ones(1000))
        print(new.copy_to_host()[0])
        assert life.begin_anew() == []
        print(total())
        """,
        **stand_ins(native),
    )
    assert done.stdout.split() == ["999000.0", "999000.0", "999000.0", "3.0", "5.0", "999000.0"], done.stderr
    assert done.stderr == ""


def test_cuda_core_goes_on_with_its_devices_and_makes_the_rest_again(software: Client, native: Build) -> None:
    pytest.importorskip("cuda.core")
    done = software.run(
        """
        import gc
        import numpy as np
        from cuda.bindings import driver
        from cuda.core import Device, LaunchConfig, ObjectCode, launch
        from gpu_kernels.magics import life
        def lived():
            device = Device()
            device.set_current()
            stream = device.create_stream()
            kernel = ObjectCode.from_ptx(TEXT.encode()).get_kernel("store")
            memory = device.allocate(128, stream=stream)
            launch(stream, LaunchConfig(grid=1, block=1), kernel, memory, np.uint32(7))
            stream.sync()
            out = np.zeros(1, np.uint32)
            driver.cuMemcpyDtoH(out.ctypes.data, int(memory.handle), 4)
            print(out[0])
            return device, stream, kernel, memory
        first = lived()
        assert life.begin_anew() == []
        second = lived()
        try:
            first[1].sync()
        except Exception as error:
            print("INVALID_HANDLE" in str(error))
        del first
        gc.collect()
        second[1].sync()
        """,
        **stand_ins(native),
    )
    assert done.stdout.split() == ["7", "7", "True"], done.stderr
    assert done.stderr == ""


def test_the_cuda_runtime_loads_registered_code_again_and_begins_no_life_to_give_back(
    software: Client, native: Build
) -> None:
    out = software.check(
        """
        cuda = ctypes.CDLL("libcuda.so.1")
        class c: library = cuda
        runtime = ctypes.CDLL(os.environ["RUNTIME"])
        text = ctypes.create_string_buffer(TEXT.encode())
        class Wrapper(ctypes.Structure):
            _fields_ = [("magic", INT), ("version", INT), ("data", POINTER), ("more", POINTER)]
        wrapper = Wrapper(0x466243B1, 1, ctypes.addressof(text), None)
        runtime.__cudaRegisterFatBinary.restype = POINTER
        handle = POINTER(runtime.__cudaRegisterFatBinary(ctypes.byref(wrapper)))
        host = ctypes.create_string_buffer(1)
        runtime.__cudaRegisterFunction(handle, host, b"store", b"store", INT(-1), *[None] * 5)
        class Dim(ctypes.Structure):
            _fields_ = [("x", UINT), ("y", UINT), ("z", UINT)]
        def lived():
            memory, stream = U64(), U64()
            assert runtime.cudaMalloc(ctypes.byref(memory), SIZE(64)) == 0
            assert runtime.cudaStreamCreate(ctypes.byref(stream)) == 0
            one, value = Dim(1, 1, 1), UINT(7)
            values = (POINTER * 2)(ctypes.addressof(memory), ctypes.addressof(value))
            assert runtime.cudaLaunchKernel(host, one, one, values, SIZE(0), stream) == 0
            assert runtime.cudaStreamSynchronize(stream) == 0
            back = UINT()
            assert runtime.cudaMemcpy(ctypes.byref(back), memory, SIZE(4), INT(2)) == 0
            return back.value, memory, stream
        value, memory, stream = lived()
        new_life(c)
        freed = runtime.cudaFree(memory), runtime.cudaStreamDestroy(stream), runtime.cudaDeviceReset()
        print(value, *freed, life(c)[1], runtime.cudaGetLastError(), runtime.cudaGetLastError())
        print(lived()[0], life(c)[1], runtime.cudaStreamDestroy(stream))
    """,
        RUNTIME=str(native.folder / "cudart" / "13" / "libcudart.so.13"),
    )
    assert out.splitlines() == ["7 0 709 0 3 709 0", "7 1 400"]


def test_what_cannot_begin_again_is_named_in_one_line(software: Client, native: Build) -> None:
    done = software.run(
        """
        import sys, types
        from gpu_kernels.magics import life
        c = Cuda()
        works(c)
        print(*life.begin_anew())
        for name in "triton", "jax", "tensorflow":
            sys.modules[name] = types.ModuleType(name)
            print(*life.begin_anew())
        works(c)
        """,
        **stand_ins(native),
    )
    said = done.stdout.splitlines()
    assert said[0] == "", done.stderr
    named = [
        line.partition(" cannot go on with another slice: restart the kernel before")[0] for line in said
    ]
    assert named == ["", "Triton", "JAX and Triton", "JAX, TensorFlow and Triton"]
