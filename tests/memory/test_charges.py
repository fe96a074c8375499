"""What a program makes the driver take counts against its slice, on a GPU that has more memory than that."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.both_ways import BothWays, Process, agent_of, environments
from tests.forwarding.minimal_agent import MinimalAgent
from tests.native_build import Build
from tests.softgpu.driver import raw

from . import charge_cases

SLICE_MIB, GPU_MIB = 64, 512
CASES = "tests.memory.charge_cases"
MIB = 1 << 20


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture(scope="module")
def agent(native: Build, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MinimalAgent]:
    with agent_of(native, tmp_path_factory.mktemp("charges"), (SLICE_MIB,), (GPU_MIB,)) as running:
        yield running


@pytest.fixture
def client(agent: MinimalAgent, native: Build, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    forwarded = environments(agent, native, (SLICE_MIB,))[1]
    process = Process(forwarded, tmp_path_factory.mktemp("client") / "log", CASES)
    yield process
    process.end()


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        (f".visible .global .align 4 .b8 big[{8 * MIB}];", 8),
        (f".global .v4 .f32 quads[{MIB // 16}][4];\n.const .u64 one = 5;", 4),
        (
            f".extern .global .b64 a[{MIB}];\n.visible .global .b64 a[{MIB}];\n.weak .global .u64 b[{MIB}];",
            16,
        ),
        (f".visible .global .f16x2 pairs[{MIB}], more[{MIB}] = {{1, 2}};", 8),
        (f".global .attribute(.managed) .align 8 .b8 m[{2 * MIB}]; /* .global .b8 no[{9 * MIB}]; */", 2),
        (f".func f() {{ .reg .b32 %r1; {{ mov.u32 %r1, 0; }} ret; }} .global .b16 last[{3 * MIB}];", 6),
    ],
)
def test_variables_of_a_module_are_taken_from_the_slice_with_its_load(
    client: Process, text: str, mib: int
) -> None:
    assert client.run("variables_of_a_module", text) == (0, [mib, 0])


def test_variables_that_do_not_fit_the_slice_are_refused_before_the_driver_is_asked(client: Process) -> None:
    text = f".visible .global .align 4 .b8 big[{(SLICE_MIB + 1) * MIB}];"
    assert client.run("variables_of_a_module", text) == (raw.OUT_OF_MEMORY, [0, 0])
    text = ".visible .global .align 4 .b8 big[18446744073709551615];\n.global .b8 more[9];"
    assert client.run("variables_of_a_module", text) == (raw.OUT_OF_MEMORY, [0, 0])


@pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc on this machine")
@pytest.mark.parametrize(
    "form", ["-cubin -arch=sm_75", "-fatbin -gencode arch=compute_75,code=compute_75 --compress-mode=speed"]
)
def test_variables_are_found_in_every_form_of_an_image(client: Process, tmp_path: Path, form: str) -> None:
    source, image = tmp_path / "variables.cu", tmp_path / "image"
    source.write_text(
        f"__device__ int big[{SLICE_MIB} << 18]; __global__ void k(int i) {{ __shared__ int s[99]; s[i] = i; "
        "big[i] = s[0]; }"
    )
    subprocess.run(["nvcc", *form.split(), "-o", image, source], check=True)
    # The software GPU refuses machine code with another error, but only when it is asked.
    assert client.run("load_of", image.read_bytes()) == raw.OUT_OF_MEMORY


def test_what_a_graph_still_launches_stays_in_the_slice_when_its_module_is_unloaded(client: Process) -> None:
    assert client.run("module_of_a_graph", 8) == [8, 8, 0]


@pytest.mark.parametrize("limit", [charge_cases.STACK, charge_cases.PRINTF_FIFO, charge_cases.HEAP])
def test_larger_limits_of_a_context_take_memory(both: BothWays, limit: int) -> None:
    assert both.run("limits", limit, 8 * MIB) == ([0, raw.OUT_OF_MEMORY, 0], [8, 8, 0], [True, True])


def test_what_limits_have_taken_comes_back_with_the_end_of_their_context(both: BothWays) -> None:
    assert both.run("limits_end_with_their_context") == [8, 0, 0]


def test_the_sessions_of_a_slice_share_the_largest_limit_that_one_of_them_needs(
    agent: MinimalAgent, native: Build, tmp_path: Path
) -> None:
    forwarded = environments(agent, native, (SLICE_MIB,))[1]
    small, large, other = (Process(forwarded, tmp_path / name, CASES) for name in ("small", "large", "other"))
    wait_until(lambda: other.run("free_mib") == SLICE_MIB)  # of what earlier tests' programs had
    assert small.run("need", charge_cases.HEAP, 8 * MIB) == 0
    assert large.run("need", charge_cases.HEAP, 24 * MIB) == 0
    assert other.run("free_mib") == SLICE_MIB - 24
    assert other.run("need", charge_cases.HEAP, (SLICE_MIB + 1) * MIB) == raw.OUT_OF_MEMORY
    assert large.end() == 0
    wait_until(lambda: other.run("free_mib") == SLICE_MIB - 8)
    small.process.kill()
    small.process.wait()
    wait_until(lambda: other.run("free_mib") == SLICE_MIB)
    other.end()
