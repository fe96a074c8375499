"""The end of library calls on a real GPU, without one: a library with the ABI of NVIDIA's cuBLAS stands in
the worker, and writes down what it is given. It must be what the program passed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.forwarding.minimal_agent import MinimalAgent
from tests.native_build import Build, build_of_make, python_path

HERE = Path(__file__).parent
INVALID_VALUE, NOT_SUPPORTED = 1, 801
pytestmark = [pytest.mark.native, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def native() -> Build:
    return build_of_make("client_cuda", "gpu_worker", "recording_driver", "recording_cublas", "cublas13")


def run(agent: MinimalAgent, native: Build, program: Path) -> subprocess.CompletedProcess[str]:
    environment = agent.client_environment(native.client) | {"PYTHONPATH": python_path()}
    library = native.folder / "libraries/13/libcublas.so.13"
    return subprocess.run(
        [sys.executable, program, library], env=environment, capture_output=True, text=True, timeout=200
    )


def words(log: str, name: str) -> list[list[str]]:
    return [line.split()[1:] for line in log.splitlines() if line.split()[0] == name]


def test_nvidias_library_is_given_what_the_program_passed(native, tmp_path) -> None:
    log = tmp_path / "log"
    options = ("--libraries", str(native.folder / "recording_cublas"))
    with MinimalAgent(
        *(tmp_path, native.worker, native.recording_driver),
        environment=os.environ | {"RECORDING_CUBLAS_LOG": str(log)},
        options=options,
    ) as agent:
        done = run(agent, native, HERE / "cublas_passing.py")
        end = time.monotonic() + 60  # the session's end comes after the program's
        while log.exists() and "destroy" not in log.read_text() and time.monotonic() < end:
            time.sleep(0.05)
    assert done.returncode == 0, done.stdout + done.stderr
    passed, recorded = json.loads(done.stdout), log.read_text()
    for name in ("Sgemm64", "GemmStridedBatchedEx", "Dtrsm", "Zher2k", "CgetrsBatched", "Sdot"):
        assert words(recorded, name) == [passed[name]], name
    assert words(recorded, "Sgemm") == [passed["Sgemm"], passed["on the device"]]
    # A stream that was never set is the default one; the slice's own workspace serves it.
    assert words(recorded, "stream")[0][1] == "default"
    assert words(recorded, "stream")[1][1] == "own"
    own, programs = words(recorded, "workspace")[:2]
    assert own[1] == str(4 << 20)
    assert programs == [passed["workspace"][0], str(1 << 16)]
    assert words(recorded, "math")[:2] == [["0"], ["3"]]
    assert words(recorded, "atomics")[:2] == [["0"], ["1"]]
    # Results are known on the device alone.
    modes = [line for line in recorded.splitlines() if line.startswith(("pointers", "Sdot"))]
    assert modes[modes.index(next(m for m in modes if m.startswith("Sdot"))) - 1] == "pointers 1"
    assert passed["info"] == 0
    # Memory outside the slice never comes there; what the library refuses is the next asked call's error.
    assert passed["outside"] == [0, INVALID_VALUE]
    assert passed["refused"] == [0, NOT_SUPPORTED]
    # One handle for the session, which goes with it.
    assert len(words(recorded, "create")) == len(words(recorded, "destroy")) == 1


def test_a_server_without_the_library_says_so_at_the_start(native, tmp_path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import ctypes, sys\n"
        "from cuda.bindings import driver\n"
        "driver.cuInit(0)\n"
        "driver.cuCtxPushCurrent(driver.cuDevicePrimaryCtxRetain(0)[1])\n"
        "handle = ctypes.c_void_p()\n"
        "print(ctypes.CDLL(sys.argv[1]).cublasCreate_v2(ctypes.byref(handle)), handle.value)\n"
    )
    with MinimalAgent(tmp_path, native.worker, native.recording_driver) as agent:
        done = run(agent, native, program)
    assert done.stdout == "1 None\n", done.stderr
    assert "this GPU server has no libcublas.so.13" in done.stderr
