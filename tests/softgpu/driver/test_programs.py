from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_kernels.remoting.paths import native_build

from .raw import LIBRARIES

PROGRAMS = Path(__file__).parent / "programs"


def environment(log: Path) -> dict[str, str]:
    sanitizers = os.environ.get("GPU_KERNELS_TEST_PRELOAD", "").split()
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("GPU_KERNELS_")},
        "LD_LIBRARY_PATH": str(LIBRARIES),
        "LD_PRELOAD": ":".join(
            [*sanitizers, *(str(library) for library in native_build().compiler_stand_ins)]
        ),
        "GPU_KERNELS_SOFTGPU_MEMORY_MIB": "128",
        "GPU_KERNELS_SOFTGPU_LOG": str(log),
    }


def run(program: str, log: Path) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("numba.cuda")
    command = [sys.executable, "-W", "error::RuntimeWarning", PROGRAMS / program]
    return subprocess.run(command, env=environment(log), capture_output=True, text=True, timeout=110)


@pytest.mark.parametrize("program", ["numba_kernels.py", "cuda_core_kernels.py"])
def test_a_program_from_pip_runs_unmodified(program, tmp_path, library):
    log = tmp_path / "log"
    result = run(program, log)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[-1] == "right"
    assert lines[:-1] == (["hello 5"] * 2 if program.startswith("cuda_core") else [])
    assert not log.exists()


def test_faults_are_told_and_survived(tmp_path, library):
    log = tmp_path / "log"
    result = run("numba_faults.py", log)
    assert (result.returncode, result.stdout) == (0, "right\n"), result.stderr
    assert "write of 4 bytes out of bounds" in log.read_text()
    assert log.read_text().count("Restart the kernel (or the program) to get a working GPU again.") == 1


# Ends while its kernel runs, after CUDA calls from an exit handler.
EXITING = """
import atexit, ctypes
cuda = ctypes.CDLL("libcuda.so.1")
one = ctypes.c_uint64()
assert cuda.cuInit(0) == 0 and cuda.cuCtxCreate_v2(ctypes.byref(one), 0, 0) == 0
module, kernel = ctypes.c_uint64(), ctypes.c_uint64()
text = b".version 8.0\\n.target sm_75\\n.address_size 64\\n.visible .entry spin() { again: bra again; }"
assert cuda.cuModuleLoadData(ctypes.byref(module), text) == 0
assert cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"spin") == 0
nothing = ctypes.c_void_p()
assert cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, nothing, nothing, nothing) == 0
atexit.register(lambda: print(cuda.cuStreamQuery(nothing), flush=True))
print("up", flush=True)
"""


def test_a_process_ends_although_a_kernel_still_runs(tmp_path, library):
    result = subprocess.run(
        [sys.executable, "-c", EXITING],
        env=environment(tmp_path / "log"),
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (result.returncode, result.stdout) == (0, "up\n600\n"), result.stderr


def test_an_interrupt_reaches_the_program_and_not_the_drivers_threads(tmp_path, library):
    waiting = EXITING.replace('print("up"', 'import time; print("up"') + "\ntime.sleep(60)\n"
    with subprocess.Popen(
        [sys.executable, "-c", waiting], env=environment(tmp_path / "log"), stdout=-1, stderr=-1, text=True
    ) as process:
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in errors
