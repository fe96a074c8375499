"""``python -m tests.sanitizers address|thread``: the native code built with sanitizers, and tests run on it.

Without paths it runs what is quick and most likely to show something; with paths, those. The reports of all
processes are collected, a worker's too, which no test would see, and none may remain.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
# What is installed is all but the tests' own.
TARGETS = ("all", "softgpu_bench")
# A sanitizer's dlopen looks where the sanitizer would: libraries of pip's do not find their neighbours.
NOT_HERE = (
    "--deselect=tests/softgpu/driver/test_programs.py::test_a_program_from_pip_runs_unmodified[cuda_core_kernels.py]",
)


@dataclass(frozen=True)
class Sanitizer:
    flags: str  # of -fsanitize
    runtime: str
    options: dict[str, str]
    quick: tuple[str, ...]


SANITIZERS = {
    "address": Sanitizer(
        "address,undefined",
        "libasan.so",
        {
            # Python frees little at its end. Programs have libraries of ours before the sanitizer's.
            "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:verify_asan_link_order=0",
            "UBSAN_OPTIONS": "print_stacktrace=1",
        },
        (
            "tests/execution",
            "tests/memory",
            "tests/graphs",
            "tests/forwarding/test_hostile_frames.py",
            "tests/forwarding/test_hostile_sessions.py",
            "tests/forwarding/test_faults.py",
            "tests/attacks",
            "tests/softgpu/driver",
            "tests/softgpu/engine/test_gangs.py",
        ),
    ),
    "thread": Sanitizer(
        "thread",
        "libtsan.so",
        {"TSAN_OPTIONS": f"suppressions={HERE / 'thread.supp'}:history_size=4:exitcode=0:die_after_fork=0"},
        (
            "tests/execution",
            "tests/graphs",
            "tests/forwarding/test_lanes.py",
            "tests/forwarding/test_interrupt.py",
            "tests/forwarding/test_faults.py",
            "tests/behaviour/test_threads.py",
            "tests/softgpu/driver/test_extension.py",
            "tests/softgpu/driver/test_streams_and_events.py",
            "tests/softgpu/driver/test_graphs.py",
            "tests/softgpu/engine/test_gangs.py",
            # It clears three large images, each for longer than it waits.
            "--deselect=tests/graphs/test_hostile_descriptions.py::test_the_images_of_a_session_are_bounded",
        ),
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sanitizers", description=__doc__)
    parser.add_argument("sanitizer", choices=SANITIZERS)
    parser.add_argument("arguments", nargs="*", help="for pytest (after --, where they begin with a dash)")
    parser.add_argument("--build-only", action="store_true")
    options = parser.parse_args()
    sanitizer = SANITIZERS[options.sanitizer]
    folder = ROOT / "build" / f"sanitize-{options.sanitizer}"
    build(sanitizer, folder)
    if options.build_only:
        return 0
    with tempfile.TemporaryDirectory() as reports:
        status = run(sanitizer, folder, options.arguments, Path(reports))
        found = sorted(Path(reports).iterdir())
        for report in found:
            print(f"\n== {report.name}\n{report.read_text(errors='replace')}")
    print(f"{options.sanitizer}: {len(found)} processes with findings")
    return 1 if found else status


def build(sanitizer: Sanitizer, folder: Path) -> None:
    begun = time.monotonic()
    tools = Path(sys.executable).parent
    cmake = str(tools / "cmake")
    if not (folder / "build.ninja").exists():
        options = {
            "CMAKE_BUILD_TYPE": "Release",
            "CMAKE_MAKE_PROGRAM": tools / "ninja",
            "Python3_EXECUTABLE": sys.executable,
            "GPU_KERNELS_SANITIZE": sanitizer.flags,
            "SOFTGPU_ISAS": "v2",  # each handler of the software GPU is compiled once
        }
        defined = [f"-D{name}={value}" for name, value in options.items()]
        source = ["-S", str(ROOT / "remoting" / "native"), "-B", str(folder), "-G", "Ninja"]
        subprocess.run(
            [cmake, *source, *defined, "--log-level=WARNING"], check=True, stdout=subprocess.DEVNULL
        )
    made = ["--build", str(folder), "-j", str(os.cpu_count() or 2), "--target", *TARGETS, "--", "--quiet"]
    subprocess.run([cmake, *made], check=True)
    installed = ["--install", str(folder), "--component", "runtime", "--prefix", str(folder / "lib")]
    subprocess.run([cmake, *installed], check=True, stdout=DEVNULL)
    print(f"built in {time.monotonic() - begun:.0f} s", flush=True)


def run(sanitizer: Sanitizer, folder: Path, arguments: list[str], reports: Path) -> int:
    # The sanitizer must be in a process before what was built with it, and so must what it takes over: throw.
    runtime = " ".join(library(name) for name in (sanitizer.runtime, "libstdc++.so.6"))
    logs = {name: f"{value}:log_path={reports / name.lower()}" for name, value in sanitizer.options.items()}
    environment = (
        os.environ
        | logs
        | {
            "LD_PRELOAD": runtime,
            "GPU_KERNELS_TEST_PRELOAD": runtime,
            "GPU_KERNELS_NATIVE": str(folder / "lib"),
            "GPU_KERNELS_NATIVE_BUILD": str(folder),
            "SOFTGPU_TEST_LIBRARY": str(folder / "lib" / "softgpu" / "libcuda.so.1"),
        }
    )
    command = [sys.executable, "-m", "pytest", "-q", *NOT_HERE, "-p", "no:cacheprovider", "--timeout=900"]
    return subprocess.run([*command, *(arguments or sanitizer.quick)], env=environment, cwd=ROOT).returncode


def library(name: str) -> str:
    """The compiler's own."""
    compiler = os.environ.get("CXX", "c++")
    done = subprocess.run([compiler, f"-print-file-name={name}"], check=True, capture_output=True, text=True)
    return str(Path(done.stdout.strip()).resolve())


if __name__ == "__main__":
    sys.exit(main())
