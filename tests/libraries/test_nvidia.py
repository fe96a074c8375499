"""The end of library calls on a real GPU, without one: libraries with the ABI of NVIDIA's stand in the
worker, and write down what they are given. It must be what the program passed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import ANY

import pytest

from tests.forwarding.minimal_agent import MinimalAgent
from tests.native_build import Build, build_of_make, python_path

HERE = Path(__file__).parent
INVALID_VALUE, OUT_OF_MEMORY, NOT_SUPPORTED, UNKNOWN = 1, 2, 801, 999
CUBLAS_ALLOC_FAILED, CUBLAS_INVALID_VALUE, CUBLAS_NOT_SUPPORTED = 3, 7, 15
CUSOLVER_ALLOC_FAILED, CUSOLVER_INVALID_VALUE = 2, 3
ZERO_PIVOT = 9  # CUSPARSE_STATUS_ZERO_PIVOT
pytestmark = [pytest.mark.native, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def native() -> Build:
    return build_of_make(
        *("client_cuda", "gpu_worker", "recording_driver"),
        *(
            "recording_cublas",
            "recording_cublas_of_12",
            "recording_cublaslt",
            "recording_cusolver",
            "recording_cusparse",
        ),
        *("cublas13", "cublasLt13", "cusolver12", "cusparse12"),
        *("recording_cufft", "cufft12"),
        *("recording_curand", "curand10", "cudnn9"),
    )


@pytest.fixture
def agent(native, tmp_path) -> Iterator[MinimalAgent]:
    """Its worker finds the libraries that record, and they write into `log`."""
    with MinimalAgent(
        *(tmp_path, native.worker, native.recording_driver),
        environment=os.environ | {"RECORDING_CUBLAS_LOG": str(tmp_path / "log")},
        options=("--libraries", str(native.folder / "recording_cublas")),
    ) as running:
        yield running


def run(
    agent: MinimalAgent, native: Build, program: Path, library: str = "cublas", major: int = 13
) -> subprocess.CompletedProcess[str]:
    environment = agent.client_environment(native.client) | {"PYTHONPATH": python_path()}
    path = native.folder / f"libraries/{major}/lib{library}.so.{major}"
    return subprocess.run(
        [sys.executable, program, path], env=environment, capture_output=True, text=True, timeout=200
    )


NOT_DONE = "the GPU server's own library has not done it: CUDA_ERROR_{}, which the program's next call that"
ELSEWHERE = "which are not all memory of the slice: CUDA_ERROR_INVALID_VALUE"


def words(log: str, name: str) -> list[list[str]]:
    return [line.split()[1:] for line in log.splitlines() if line.split()[0] == name]


def test_nvidias_library_is_given_what_the_program_passed(native, agent, tmp_path) -> None:
    done = run(agent, native, HERE / "cublas_passing.py")
    assert done.returncode == 0, done.stdout + done.stderr
    passed, recorded = json.loads(done.stdout), (tmp_path / "log").read_text()
    for name in ("Sgemm64", "GemmStridedBatchedEx", "Dtrsm", "Zher2k", "CgetrsBatched"):
        assert words(recorded, name) == [passed[name]], name
    assert words(recorded, "Sdot") == [passed["Sdot"], passed["Sdot after an error"]]
    assert passed["after an error"] == [0, CUBLAS_INVALID_VALUE]
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
    assert passed["failed"] == [0, UNKNOWN, 0]
    for error in ("NOT_SUPPORTED", "UNKNOWN"):
        assert NOT_DONE.format(error) in done.stderr
    assert done.stderr.count(ELSEWHERE) == 2  # the program asks twice
    # A handle that no call uses is the next one's: its end would wait for the work of other sessions.
    assert len(words(recorded, "create")) == 1
    assert words(recorded, "destroy") == []


def test_a_library_with_no_room_for_a_handle_is_not_one_without_an_algorithm(native, tmp_path) -> None:
    log = {"RECORDING_CUBLAS_LOG": str(tmp_path / "log"), "RECORDING_CUBLASLT_HAS_NO_ROOM": "1"}
    options = ("--libraries", str(native.folder / "recording_cublas"))
    with MinimalAgent(
        *(tmp_path, native.worker, native.recording_driver), environment=os.environ | log, options=options
    ) as agent:
        (tmp_path / "program.py").write_text(ASK)
        done = run(agent, native, tmp_path / "program.py", "cublasLt")
    assert done.stdout == f"{CUBLAS_ALLOC_FAILED} 0\n", done.stderr
    assert "no algorithm" not in done.stderr
    assert "cublasLtCreate of the GPU server's library failed with 3" in done.stderr


ASK = """
import sys
import numpy as np
from tests.libraries.lt import Lt, Matrix
from tests.libraries.on_device import start
start()
lt = Lt(sys.argv[1])
layouts = [lt.layout(Matrix(np.ones((1, 4, 4), "float32"))) for _ in range(4)]
print(*lt.heuristic(lt.product("float32", {}), *layouts)[:2])
"""


TWISTER = """
import ctypes, sys
from cuda.bindings import driver
from tests.libraries.generators import Curand
from tests.libraries.on_device import start
start()
_, memory = driver.cuMemAlloc(1 << 20)
twister = Curand(sys.argv[1]).generator("mt19937", seed=5)
place = ctypes.c_void_p(int(memory))
print(twister.status("Generate", place, ctypes.c_size_t(1 << 21)) != 0)
twister("Generate", place, ctypes.c_size_t(20))
print(int(driver.cuCtxSynchronize()[0]))
"""


def test_a_twister_whose_call_has_failed_stands_where_it_stood(native, agent, tmp_path) -> None:
    (tmp_path / "program.py").write_text(TWISTER)
    done = run(agent, native, tmp_path / "program.py", "curand", 10)
    assert done.stdout == "True\n0\n", done.stdout + done.stderr


def test_streams_work_in_memory_of_their_own(native, agent, tmp_path) -> None:
    done = run(agent, native, HERE / "cublas_streams.py")
    assert done.returncode == 0, done.stdout + done.stderr
    recorded = words((tmp_path / "log").read_text(), "workspace")
    first, second, again, third = (place for place, _ in recorded)
    assert again == first
    assert len({first, second, third}) == 3 or third == first  # which a stream that ended has left
    assert second not in (first, third)


def test_nvidias_cublaslt_is_given_what_the_program_passed(native, agent, tmp_path) -> None:
    done = run(agent, native, HERE / "lt_passing.py", "cublasLt")
    assert done.returncode == 0, done.stdout + done.stderr
    passed, recorded = json.loads(done.stdout), (tmp_path / "log").read_text()
    # The heuristic is NVIDIA's own: what that has no algorithm for is refused before it is called.
    asked = passed.pop("asked")
    assert asked.pop("again") == [[0, 1]] * 3
    # What NVIDIA's algorithm needs the program is told, as far as it allows it.
    needed, refused = [0, 1, 8 << 20], [CUBLAS_NOT_SUPPORTED, 0, 0]
    assert passed.pop("workspaces") == [refused, needed, needed]
    asked_for = [one[0] for one in words(recorded, "Heuristic")]
    assert asked_for[5:] == [f"1={1 << 20}:8", f"1={4 << 20}:8", f"1={32 << 20}:8", ANY, ANY]
    assert asked.pop("after work that fails") == [0, 1, NOT_SUPPORTED]
    assert asked == {"done": [0, 1], "not done": [CUBLAS_NOT_SUPPORTED, 0], "many sums": [0, 1]}
    assert done.stderr.count("cublasLtMatmulAlgoGetHeuristic: NVIDIA's library has no algorithm") == 1
    assert words(recorded, "Heuristic")[2] == [f"1={1 << 20}:8", *(f"{n}=256:4" for n in (5, 6, 7, 8))]
    for name, text in passed.items():
        assert words(recorded, name)[0] == text.split(), name
    # What its heuristic may take for granted, and the algorithm that it put first.
    assert words(recorded, "Heuristic")[0] == [f"1={1 << 16}:8", "5=256:4", "6=256:4", "7=256:4", "8=256:4"]
    assert words(recorded, "LtAlgorithm")[0] == ["1234"]
    assert words(recorded, "LtStream")[0] == ["own"]
    # Where the program gives no workspace, there is one of the stream's.
    assert words(recorded, "LtWorkspace")[1][1] == str(4 << 20)
    assert words(recorded, "Live") == [["4"]]


BEGIN = """
import ctypes, sys
from cuda.bindings import driver
driver.cuInit(0)
driver.cuCtxPushCurrent(driver.cuDevicePrimaryCtxRetain(0)[1])
library, handle = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p()
status = library.cublasCreate_v2(ctypes.byref(handle))
if status:
    sys.exit(print(status, handle.value))
_, memory = driver.cuMemAlloc(64)
for _ in range(2):
    half = ctypes.byref(ctypes.c_float(0.5))
    assert library.cublasSscal_v2(handle, 4, half, ctypes.c_void_p(int(memory)), 1) == 0
    print(int(driver.cuCtxSynchronize()[0]))
"""
LINES = {
    "nothing": "this GPU server has no libcublas.so.13: its admin installs NVIDIA's wheel of it, and names",
    "no library": "has a libcublas.so.13 that cannot be loaded: its admin installs NVIDIA's wheel of it anew",
    "recording_cublas_of_12": "libcublas.so.13 is another major version, 12.4.2: its admin installs",
    "recording_cublas": "libcublas.so.13 (13.4.2) has no cublasSscal_v2: its admin installs a newer one",
}


@pytest.mark.parametrize("there", LINES)
def test_a_server_whose_library_does_not_serve_says_why_and_what_to_do(native, tmp_path, there) -> None:
    (tmp_path / "program.py").write_text(BEGIN)
    (tmp_path / "libcublas.so.13").write_text("no library")
    folder = native.folder / there if there.startswith("recording") else tmp_path
    options = () if there == "nothing" else ("--libraries", str(folder))
    log = os.environ | {"RECORDING_CUBLAS_LOG": str(tmp_path / "log")}
    with MinimalAgent(
        tmp_path, native.worker, native.recording_driver, environment=log, options=options
    ) as agent:
        done = run(agent, native, tmp_path / "program.py")
    # A function that is missing is told at the first call that waits; the program goes on.
    assert done.stdout == ("801\n801\n" if there == "recording_cublas" else "1 None\n"), done.stderr
    assert done.stderr.count(LINES[there]) == 1, done.stderr


LOOKS = {
    "cublas": ("cublasCreate_v2", 13),
    "cublasLt": ("cublasLtCreate", 13),
    "cudnn": ("cudnnCreate", 9),
    "cusolver": ("cusolverDnCreate", 12),
    "cusparse": ("cusparseCreate", 12),
    "cufft": ("cufftCreate", 12),
    "curand": ("curandCreateGenerator", 10),
}
"""What asks a server for its library: the function, and the library's major version."""
LOOK = """
import ctypes, json, sys
from cuda.bindings import driver
driver.cuInit(0)
driver.cuCtxPushCurrent(driver.cuDevicePrimaryCtxRetain(0)[1])
for path, name in json.loads(sys.argv[1]):
    made = ctypes.c_void_p()
    print(getattr(ctypes.CDLL(path), name)(ctypes.byref(made), 100) != 0)
"""
VERSION = "int {name}GetProperty(int part, int *value) {{ *value = part ? 1 : 4; return 0; }}"
WHYS = {
    "missing": "this GPU server has no {file}: its admin installs NVIDIA's wheel of it, and names",
    "no library": "has a {file} that cannot be loaded: its admin installs NVIDIA's wheel of it anew",
    "another major": "{file} is another major version, 4.1.1: its admin installs",
}


@pytest.mark.parametrize("why", WHYS)
def test_a_server_says_of_each_library_why_it_does_not_serve(native, tmp_path, why) -> None:
    files = {name: f"lib{name}.so.{major}" for name, (_, major) in LOOKS.items()}
    there, program = tmp_path / "there", tmp_path / "program.py"
    there.mkdir()
    program.write_text(LOOK)
    if why == "another major":
        source = "\n".join(VERSION.format(name=name) for name in LOOKS)
        shared = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", there / "all.so"]
        subprocess.run(shared, input=source, text=True, check=True)
    for file in files.values() if why != "missing" else ():
        if why == "no library":
            (there / file).write_text("no library")
        else:
            shutil.copy(there / "all.so", there / file)
    with MinimalAgent(
        tmp_path, native.worker, native.recording_driver, options=("--libraries", str(there))
    ) as agent:
        asked = [
            (str(native.folder / f"libraries/{major}" / files[name]), function)
            for name, (function, major) in LOOKS.items()
        ]
        environment = agent.client_environment(native.client) | {"PYTHONPATH": python_path()}
        done = subprocess.run(
            [sys.executable, program, json.dumps(asked)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=200,
        )
    # Of cuDNN's there are handles all the same: frameworks want one, and may never compute with it.
    refused = [str(name != "cudnn") for name in LOOKS]
    assert done.stdout.split() == refused, done.stdout + done.stderr
    for file in files.values():
        assert done.stderr.count(WHYS[why].format(file=file)) == 1, done.stderr


LACKING = """
import ctypes, json, sys
from cuda.bindings import driver
driver.cuInit(0)
driver.cuCtxPushCurrent(driver.cuDevicePrimaryCtxRetain(0)[1])
libraries = {name: ctypes.CDLL(path) for name, path in json.loads(sys.argv[1]).items()}
memory = ctypes.c_void_p(int(driver.cuMemAlloc(1 << 16)[1]))
one, size = ctypes.c_float(1), ctypes.c_size_t()

def made(library, function, *values):
    place = ctypes.c_void_p()
    assert getattr(libraries[library], function)(ctypes.byref(place), *values) == 0, function
    return place

def said(library, function, *values):
    status = getattr(libraries[library], function)(*values)
    print(library, status != 0 or int(driver.cuCtxSynchronize()[0]) != 0)

said("cublas", "cublasSscal_v2", made("cublas", "cublasCreate_v2"), 4, ctypes.byref(one), memory, 1)
wide = ctypes.c_uint64(4), ctypes.c_uint64(4), ctypes.c_int64(4)
by = made("cublasLt", "cublasLtCreate"), made("cublasLt", "cublasLtMatrixTransformDescCreate", 0)
layout = made("cublasLt", "cublasLtMatrixLayoutCreate", 0, *wide)
matrix = ctypes.byref(one), memory, layout
said("cublasLt", "cublasLtMatrixTransform", *by, *matrix, *matrix, memory, layout, None)
said("cudnn", "cudnnDropoutGetStatesSize", made("cudnn", "cudnnCreate"), ctypes.byref(size))
handle, settings = made("cusolver", "cusolverDnCreate"), made("cusolver", "cusolverDnCreateSyevjInfo")
said("cusolver", "cusolverDnSsyevj", handle, 1, 0, 4, memory, 4, memory, memory, 1, memory, settings)
said("cusparse", "cusparseXcoosortByRow", made("cusparse", "cusparseCreate"), 4, 4, 4, *[memory] * 4)
plan = ctypes.c_int()
assert libraries["cufft"].cufftPlan1d(ctypes.byref(plan), 8, 0x29, 1) == 0
said("cufft", "cufftExecC2C", plan, memory, memory, -1)
said("curand", "curandGenerate", made("curand", "curandCreateGenerator", 100), memory, ctypes.c_size_t(8))
"""
THERE = """
int {name}GetProperty(int part, int *value) {{ *value = part ? 1 : {major}; return 0; }}
int cusolverDnCreate(void **made) {{ *made = made; return 0; }}
int cusolverDnCreateSyevjInfo(void **made) {{ *made = made; return 0; }}
int cusolverDnDestroySyevjInfo(void) {{ return 0; }}
int cusolverDnSetStream(void) {{ return 0; }}
int cusolverDnSsyevj_bufferSize(void) {{ return 0; }}
int cusolverDnSsyevj(void) {{ return 0; }}
"""
"""A library that computes by iteration and takes no settings for it, and otherwise can say what it is."""


def test_a_function_that_a_servers_library_lacks_is_told_of_each_library(native, tmp_path) -> None:
    there, program, paths = tmp_path / "there", tmp_path / "program.py", {}
    there.mkdir()
    program.write_text(LACKING)
    for name, (_, major) in LOOKS.items():
        shared = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", there / f"lib{name}.so.{major}"]
        subprocess.run(shared, input=THERE.format(name=name, major=major), text=True, check=True)
        paths[name] = str(native.folder / f"libraries/{major}/lib{name}.so.{major}")
    with MinimalAgent(
        tmp_path, native.worker, native.recording_driver, options=("--libraries", str(there))
    ) as agent:
        environment = agent.client_environment(native.client) | {"PYTHONPATH": python_path()}
        command = [sys.executable, program, json.dumps(paths)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)
    assert done.stdout.split("\n")[:-1] == [f"{name} True" for name in LOOKS], done.stdout + done.stderr
    lacking = {name: function for name, (function, _) in LOOKS.items()}
    lacking["cusolver"] = "cusolverDnXsyevjSetMaxSweeps"  # without which it would iterate as it likes
    assert "no offset leads to where it stood" not in done.stderr
    for name, (_, major) in LOOKS.items():
        line = f"lib{name}.so.{major} ({major}.1.1) has no {lacking[name]}: its admin installs a newer one"
        assert done.stderr.count(line) == 1, done.stderr


def test_nvidias_cusolver_is_given_what_the_program_passed_and_room_of_the_slice(
    native, agent, tmp_path
) -> None:
    done = run(agent, native, HERE / "solver_passing.py", "cusolver", 12)
    assert done.returncode == 0, done.stdout + done.stderr
    passed, recorded = json.loads(done.stdout), (tmp_path / "log").read_text()
    assert passed.pop("outside") == [0, INVALID_VALUE]
    assert passed.pop("refused") == [0, NOT_SUPPORTED]
    assert (passed.pop("error"), passed.pop("singularity")) == (0.125, 5)
    assert passed.pop("solution") == [20, 21, 22, 23, 24, 25]
    assert passed.pop("too much on the host") == [0, OUT_OF_MEMORY]
    wrong, many, slice_ = passed.pop("wrong"), passed.pop("too many rows"), set(passed.pop("slice"))
    for name, values in passed.items():
        assert words(recorded, name) == [values], name
    assert words(recorded, "SolverStream")[0] == ["own"]
    # What the library asks for it gets, where a stream's calls work; and more where it asks for more.
    small, large = (place for (place,) in words(recorded, "Room"))
    assert "nil" not in small + large
    assert small != large
    # Its objects end with the call that they were made for.
    assert words(recorded, "Objects") == [["1"]]
    # A sparse system is looked at in the worker's own memory, and solved there.
    assert set(words(recorded, "SparseStream")[0]) == {"own"}
    assert not slice_ & set(words(recorded, "SparsePlaces")[0])
    assert words(recorded, "believing") == []
    for lists, answers in wrong.items():
        assert answers == [CUSOLVER_INVALID_VALUE, 0], lists
    refused = "cusolverSpCcsrlsvqr: A's offsets do not go up to its entries, or an index is no column"
    assert done.stderr.count(refused) == len(wrong)
    assert many == [CUSOLVER_ALLOC_FAILED, 0]
    assert "cusolverSpCcsrlsvqr: its solution may take 2" in done.stderr
    assert done.stderr.count("Solve a smaller system") == 2  # there, and for what is too much on the host
    assert "cusolverDnXsyevd: its work may take" in done.stderr
    assert "modules" not in done.stderr


def test_nvidias_cusparse_is_given_the_programs_descriptors_and_room_of_the_slice(
    native, agent, tmp_path
) -> None:
    done = run(agent, native, HERE / "sparse_passing.py", "cusparse", 12)
    assert done.returncode == 0, done.stdout + done.stderr
    passed, recorded = json.loads(done.stdout), (tmp_path / "log").read_text()
    assert passed.pop("outside") == [0, INVALID_VALUE]
    assert passed.pop("refused") == [0, NOT_SUPPORTED]
    # How many entries there are the library says, and the program reads.
    assert passed.pop("sizes") == [4, 6, 4]
    compute = passed.pop("SpGEMMCompute")
    with_offsets = passed["SpGEMMCopy"][6].partition(":p")[0]
    again = [*compute[:2], "1.5", *compute[3:6], with_offsets, *compute[7:]]
    assert words(recorded, "SpGEMMCompute") == [compute, again]
    # A zero is found by a solution of anything, which is not the program's.
    assert passed.pop("zero") == [ZERO_PIVOT, 3]
    assert passed.pop("added") == 12345
    for_zero = words(recorded, "Bsrsv2")[0]
    assert for_zero[:5] == ["1", "0", "6", "9", "1"]
    assert words(recorded, "Bsrsv2Size")[1] == passed.pop("Bsrsv2Size")
    assert words(recorded, "Bsrsv2")[1] == passed.pop("Bsrsv2")
    # How many entries a sum has is counted before: there is memory for them, or nothing is written.
    assert passed.pop("no room for a sum") == INVALID_VALUE
    assert words(recorded, "SumCount")[0] == passed["SumCount"]
    assert words(recorded, "SumCount")[1] == [*passed.pop("SumCount")[:-1], passed["Sum"][-2]]
    assert passed.pop("beta on the device") == [0, NOT_SUPPORTED]
    assert "C has 12345 entries, and memory of the slice for fewer" in done.stderr
    assert "cusparseSpGEMM_copy: alpha and beta lie on the device: give them on the host" in done.stderr
    for name, values in passed.items():
        assert words(recorded, name) == [values], name
    assert words(recorded, "SparseStream")[0] == ["own"]
    assert "(nil)" not in [place for (place,) in words(recorded, "SparseRoom")]
    assert len({place for (place,) in words(recorded, "SparseRoom")[:2]}) == 2  # the second asks for more
    # What was made for a call ends with it.
    assert words(recorded, "SparseLive") == [["2"]]


def test_nvidias_plans_are_made_as_the_programs(native, tmp_path) -> None:
    log = tmp_path / "log"
    with MinimalAgent(
        *(tmp_path, native.worker, native.recording_driver),
        environment=os.environ | {"RECORDING_CUFFT_LOG": str(log)},
        options=("--libraries", str(native.folder / "recording_cufft")),
    ) as agent:
        done = run(agent, native, HERE / "cufft_passing.py", "cufft", 12)
        end = time.monotonic() + 60  # the session's end comes after the program's
        while log.exists() and log.read_text().count("destroy") < 3 and time.monotonic() < end:
            time.sleep(0.05)
    assert done.returncode == 0, done.stdout + done.stderr
    passed, recorded = json.loads(done.stdout), log.read_text()
    a, b = passed["memory"]
    layouts = ["7,9,2,130", "10,11,3,340"]
    assert words(recorded, "make") == [
        ["71", "2", "6,8,5,0", layouts[0], "1", layouts[1], "5", "5"],
        ["72", "1", "64,4,0", "dense", "6", "dense", "6", "6"],
    ]
    assert words(recorded, "exec") == [["71", a, b, "-1"], ["71", b, a, "-1"], ["72", a, a, "1"]]
    assert words(recorded, "stream") == [["71", "default"], ["71", "own"], ["72", "default"]]
    # The library allocates nothing: what it asks for is the slice's, until the program destroys its plan.
    assert {on for _, on in words(recorded, "allocation")} == {"0"}
    assert [plan for plan, _ in words(recorded, "area")] == ["71"]
    assert passed["held"] >= 3 << 20
    assert passed["given back"]
    # Memory outside the slice never comes there; what the library refuses is the next asked call's error.
    assert passed["outside"] == [0, INVALID_VALUE]
    assert passed["refused"] == [0, NOT_SUPPORTED]
    # Each ends once: by the program, with the one that failed, and with the session.
    assert words(recorded, "destroy") == [["71"], ["73"], ["72"]]


def test_nvidias_generators_are_made_and_set_as_the_programs(native, agent, tmp_path) -> None:
    done = run(agent, native, HERE / "curand_passing.py", "curand", 10)
    assert done.returncode == 0, done.stdout + done.stderr
    passed, recorded = json.loads(done.stdout), (tmp_path / "log").read_text()
    a, b = passed["memory"]
    assert words(recorded, "RandomCreate")[:3] == [["71", "121"], ["72", "142"], ["73", "201"]]
    # What is set is set again only where it has changed; an offset also where it is the one before.
    assert words(recorded, "Ordering")[:3] == [["71", "103"], ["72", "101"], ["73", "201"]]
    assert words(recorded, "Seed")[:3] == [["71", "77"], ["71", "99"], ["72", "5"]]
    assert words(recorded, "Offset")[:3] == [["71", "88"], ["71", "88"], ["73", "0"]]
    assert words(recorded, "Generate")[:2] == [["71", a, "30"], ["73", a, "90"]]
    assert words(recorded, "Normal")[0] == ["71", b, "40", "1.5", "2.5"]
    assert [count for _, _, count, *_ in words(recorded, "Normal")] == ["40", "6", "10"]
    assert words(recorded, "Poisson") == [["71", a, "50", "6.5"]]
    assert words(recorded, "UniformDouble") == [["71", a, "60"], ["71", a, "80"]]
    assert words(recorded, "LogNormalDouble") == [["72", a, "70", "0.5", "0.25"]]
    assert [on for _, on in words(recorded, "RandomStream")[:3]] == ["default", "default", "own"]
    # Memory outside the slice never comes there; what the library refuses is the next asked call's error.
    assert passed["outside"] == [0, INVALID_VALUE]
    assert passed["refused"] == [0, NOT_SUPPORTED]
    # One whose last call failed goes on where the program's stands; where no offset leads, that is told.
    behind = [["71", place] for place in (*passed["behind"], "99")]
    assert words(recorded, "Offset")[3:] == [*behind, ["73", "0"], *([str(n), "0"] for n in range(74, 87))]
    assert passed["lost"] == [0, INVALID_VALUE, 0, NOT_SUPPORTED]
    assert "no offset leads to where it stood" in done.stderr
    # One that the program has ended serves the next: its end would wait for the work of all sessions.
    assert words(recorded, "RandomDestroy") == []
    assert words(recorded, "Dimensions") == [["73", "3"], ["73", "2"]]
    assert passed["too many"] == OUT_OF_MEMORY
    assert "a session has 16 generators on the GPU at most, and has them: destroy" in done.stderr
    # What the library keeps for one is the slice's.
    assert passed["held"] >= 8192 * 2500
