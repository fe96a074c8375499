"""``python -m tests.conformance.samples``: builds NVIDIA's CUDA samples, runs each straight and forwarded,
and compares with the list.

The exit status is 0 where each did what the list says, in both places.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

from gpu_kernels.remoting.paths import native_build

from .. import expectations
from ..places import PLACES, Process
from ..runner import ROOT, Result
from ..suite import LISTS
from .sample import BuildFailed, Sample, compiler_is_here, samples

FOLDER = ROOT / "build" / "cuda-samples"
LIST = LISTS / "samples.toml"
SIZES = LISTS / "samples_sizes.json"
"""Arguments of those whose own sizes take a CPU minutes."""
IN_PLACES = ("straight", "forwarded")
RUN_SECONDS = 120.0
WAIVED = 2
"""The exit status by which a sample says that the GPU lacks what it would show."""
WRONG = re.compile(r"\bfail(ed|ure)?\b(?! *[:=] *0)|mismatch|\bincorrect|\bnot equal", re.I)
REFUSED = re.compile(r"^gpu-kernels: .*(not supported|refused|cannot|is not there)", re.M)


def main() -> int:
    options = parse()
    known = expectations.read(LIST)
    if problem := not_ready(options.folder, known.version):
        print(problem)
        return 1
    chosen = [each for each in samples(options.folder) if not options.names or each.name in options.names]
    begun, sizes = time.monotonic(), json.loads(SIZES.read_text())
    wrong = built = 0
    taken: dict[str, dict[str, Result]] = {}
    for place in options.place or IN_PLACES:
        with PLACES[place](options.processes) as process, ThreadPoolExecutor(options.processes) as pool:

            def one(sample: Sample, process: Process = process) -> Result:
                return result_of(sample, options, process, sizes.get(sample.name, []))

            results = list(pool.map(one, chosen))
        taken[place] = {result.name: result for result in results}
        counts = Counter(result.outcome for result in results)
        print(f"{place}: {', '.join(f'{n} {outcome}' for outcome, n in counts.most_common())}", flush=True)
        if options.json:
            text = json.dumps({p: [asdict(r) for r in rs.values()] for p, rs in taken.items()}, indent=1)
            options.json.write_text(text)
        if options.update:
            expectations.write(LIST, known.version, results, known, whole=not options.names)
            known = expectations.read(LIST)
        for line in known.differences(results, whole=not options.names):
            wrong += 1
            print(f"{place}: {line}")
        built = len(results)
    if len(taken) == len(IN_PLACES):
        wrong += disagreements(taken)
    print(f"{built} samples, {time.monotonic() - begun:.0f} s")
    return int(wrong > 0)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.samples", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="SAMPLE", help="such as reduction (default: all)")
    parser.add_argument(
        "--folder", type=Path, default=FOLDER, help="NVIDIA's repository (build/cuda-samples)"
    )
    parser.add_argument("--programs", type=Path, default=ROOT / "build" / "cuda-samples-built")
    parser.add_argument("--place", action="append", choices=PLACES, help="default: straight, then forwarded")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--json", type=Path, help="write every result there")
    parser.add_argument("--update", action="store_true", help="write the list that these results agree with")
    return parser.parse_args()


def not_ready(folder: Path, commit: str) -> str | None:
    """What is missing, in words."""
    if not compiler_is_here():
        return "nvcc is not here to build NVIDIA's samples. Nothing was run."
    if not (folder / "Samples").is_dir():
        return (
            f"NVIDIA's samples are not in {folder}. Nothing was run. "
            f"To fetch them: clone NVIDIA/cuda-samples there, and check out {commit}."
        )
    if (folder / ".git").exists():
        git = ["git", "-C", str(folder), "rev-parse", "HEAD"]
        found = subprocess.run(git, capture_output=True, text=True).stdout.strip()
        if found != commit:
            return f"{folder} is at {found}; the list is for {commit}. Nothing was run."
    return None


def links() -> dict[str, list[str]]:
    """nvcc's options for what a sample links, from the packages that are installed here."""
    found = {"cuda_driver": [f"-L{native_build().softgpu}", "-l:libcuda.so.1"]}
    for name in ("nvrtc", "curand"):
        paths = [path for folder in cuda_packages() for path in sorted(folder.glob(f"lib{name}.so.*"))]
        include = [f"-I{path.parents[1] / 'include'}" for path in paths[:1]]
        found[name] = [*include, f"-L{paths[0].parent}", f"-l:{paths[0].name}"] if paths else [f"-l{name}"]
    return found


def cuda_packages() -> list[Path]:
    """Where pip has put NVIDIA's libraries."""
    spec = find_spec("nvidia.cu13")
    return [Path(each) / "lib" for each in (spec.submodule_search_locations or [])] if spec else []


def result_of(sample: Sample, options: argparse.Namespace, process: Process, arguments: list[str]) -> Result:
    try:
        program = sample.built(options.programs.resolve(), options.folder / "Common", links())
    except BuildFailed as error:
        return Result(sample.name, "failed", f"not built: {error}", 0.0)
    with process() as environment:
        return run(sample.name, program, environment, arguments)


def run(name: str, program: Path, environment: dict[str, str], arguments: list[str]) -> Result:
    begun = time.monotonic()
    path = [environment.get("LD_LIBRARY_PATH", ""), *map(str, cuda_packages())]
    running = subprocess.Popen(
        [program, *arguments],
        cwd=program.parent,
        env=environment | {"LD_LIBRARY_PATH": ":".join(filter(None, path))},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        text=True,
        errors="replace",
    )
    try:
        said, _ = running.communicate(timeout=RUN_SECONDS)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        said, _ = running.communicate()
        return Result(name, "hung", said[-2000:], time.monotonic() - begun)
    seconds = time.monotonic() - begun
    refused = [line for line in said.splitlines() if REFUSED.search(line)]
    return Result(name, outcome(running.returncode, said), (refused or [said[-2000:]])[0], seconds)


def outcome(status: int, said: str) -> str:
    """``refused``: a line of ours says that it cannot be, whatever the program made of it."""
    if REFUSED.search(said):
        return "refused"
    if status == WAIVED:
        return "skipped"
    if status < 0:
        return "died"
    return "failed" if status or WRONG.search(said) else "passed"


def disagreements(taken: dict[str, dict[str, Result]]) -> int:
    """Says which samples end otherwise forwarded than straight, and what forwarding costs those that pass."""
    straight, forwarded = (taken[place] for place in IN_PLACES)
    apart = [name for name in straight if straight[name].outcome != forwarded[name].outcome]
    for name in apart:
        print(f"{name}: {straight[name].outcome} straight, {forwarded[name].outcome} forwarded")
    both = [
        name for name in straight if straight[name].outcome == forwarded[name].outcome == expectations.PASSED
    ]
    if both:
        logs = [math.log(forwarded[name].seconds / straight[name].seconds) for name in both]
        times = math.exp(sum(logs) / len(logs))
        print(f"{len(both)} pass in both; forwarded over straight {times:.2f} times the time")
    return len(apart)


if __name__ == "__main__":
    sys.exit(main())
