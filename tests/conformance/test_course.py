"""A course's CUDA C++ programs, compiled with nvcc: each prints what it should, straight and forwarded.

What a program has to print is in a file beside it. The programs compare their results with the CPU's, so
these files hold few numbers. The fast suite has the build that holds PTX alone; ``make conformance`` has
nvcc's default too, which holds machine code and compressed PTX.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from .places import PLACES, Process

COURSE = Path(__file__).parent / "course"
PROGRAMS = sorted(path.stem for path in COURSE.glob("*.cu"))
ALL_BUILDS = {"ptx": ("-gencode", "arch=compute_75,code=compute_75"), "default": ()}
BUILDS = tuple(ALL_BUILDS) if os.environ.get("GPU_KERNELS_CONFORMANCE") else ("ptx",)
OPTIONS = {"threads": ("--default-stream", "per-thread")}

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        shutil.which("nvcc") is None, reason="nvcc is not here to compile the course's programs"
    ),
]


class Compiled:
    """The course's programs, compiled side by side while tests run: each test waits for its own.

    The one with templates takes as long as ten others, and begins first.
    """

    def __init__(self, folder: Path, pool: ThreadPoolExecutor) -> None:
        names = sorted(PROGRAMS, key=lambda name: not name.startswith("thrust"))
        self._made = {
            (name, build): pool.submit(compile_program, folder, name, build)
            for name in names
            for build in BUILDS
        }

    def program(self, name: str, build: str) -> Path:
        return self._made[name, build].result()


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compiled]:
    pool = ThreadPoolExecutor(os.cpu_count())
    yield Compiled(tmp_path_factory.mktemp("course"), pool)
    pool.shutdown(cancel_futures=True)


def compile_program(folder: Path, name: str, build: str) -> Path:
    command = ["nvcc", "-std=c++17", "-cudart", "shared", *ALL_BUILDS[build], *OPTIONS.get(name, ())]
    target = folder / f"{name}-{build}"
    done = subprocess.run([*command, "-o", target, COURSE / f"{name}.cu"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture(scope="module", params=["straight", "forwarded"])
def process(request: pytest.FixtureRequest) -> Iterator[Process]:
    with PLACES[request.param](1) as process:
        yield process


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("build", BUILDS)
def test_a_program_prints_what_it_should(process: Process, compiled: Compiled, name: str, build: str) -> None:
    program = compiled.program(name, build)
    with process() as environment:
        done = subprocess.run([program], env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout == (COURSE / f"{name}.out").read_text(), done.stderr
    assert done.returncode == 0


def test_a_program_with_a_static_runtime_is_told_how_to_be_linked(process: Process, tmp_path: Path) -> None:
    binary = tmp_path / "static"
    subprocess.run(["nvcc", "-cudart", "static", "-o", binary, COURSE / "vector_add.cu"], check=True)
    with process() as environment:
        done = subprocess.run([binary], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "-cudart shared" in done.stderr
    assert len(done.stderr.splitlines()) == 1
