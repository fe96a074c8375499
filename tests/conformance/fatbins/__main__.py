"""``python -m tests.conformance.fatbins [--place straight|forwarded] [--all-refusals] FILE...``

Prints, of each file, how many kernels of its fat binaries load, which are refused, and why; the time, and the
most memory that the process had in which the software GPU was: forwarded, the worker of a slice of 0.02 of a
V100, under the agent's own limits. Ends with 1 where a kernel is refused.

The files are those of wheels that somebody has, such as ``libtensorflow_cc.so.2`` and ``xla_cuda_plugin.so``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpu_kernels.remoting.agent.gpus import software_gpus
from gpu_kernels.remoting.environment import client_environment, software_environment
from tests.conformance.one_agent import OneAgent

GPU_MIB, SLICE_MIB, SLICE_THOUSANDTHS = 16384, 327, 20
SHOWN_NAMES = 3

Row = dict[str, Any]


@contextmanager
def straight() -> Iterator[dict[str, str]]:
    yield software_environment(os.environ, memory_mib=SLICE_MIB, log="stderr")


@contextmanager
def forwarded() -> Iterator[dict[str, str]]:
    inventory = software_gpus("gpu-server-1", "V100", GPU_MIB, 1, "0")
    with (
        tempfile.TemporaryDirectory(prefix="gk-") as folder,
        OneAgent(Path(folder), inventory) as agent,
        agent.lease(SLICE_MIB, SLICE_THOUSANDTHS) as lease,
    ):
        yield client_environment(lease, os.environ)


PLACES = {"straight": straight, "forwarded": forwarded}


def worker_mib() -> int:
    """What the worker below this process has had at most."""
    most = 0
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        except OSError:
            continue  # it has ended
        ours = fields["Name"].strip() == "gpu-worker" and descends(int(fields["Pid"]), os.getpid())
        if ours and "VmHWM" in fields:
            most = max(most, int(fields["VmHWM"].split()[0]) >> 10)
    return most


def descends(pid: int, ancestor: int) -> bool:
    while pid > 1:
        if pid == ancestor:
            return True
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return False


def loads(place: str, files: list[str]) -> tuple[list[Row], int, str]:
    """What became of each fat binary, the most memory in MiB, and how the process ended if not well."""
    with PLACES[place]() as environment:
        command = [sys.executable, "-m", "tests.conformance.fatbins.load", *files]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            found = [json.loads(line) for line in process.stdout]
        most = worker_mib() if place == "forwarded" else max((row["host_mib"] for row in found), default=0)
        failed = f"the process that loads ended with {process.returncode}" if process.returncode else ""
        return found, most, failed


def report(file: str, rows: list[Row], all_refusals: bool) -> bool:
    """Prints a file's lines; true when no kernel is refused."""
    loaded = sum(len(row["loaded"]) for row in rows)
    refused = [(name, why) for row in rows for name, why in row["refused"]]
    seconds = [float(row["seconds"]) for row in rows]
    without = sum(bool(row["without_ptx"]) for row in rows)
    print(
        f"{Path(file).name}: {loaded} of {loaded + len(refused)} kernels load, "
        f"{len(rows)} fat binaries ({without} without PTX), {sum(seconds):.1f} s, "
        f"the slowest {max(seconds, default=0):.2f} s"
    )
    by_reason = defaultdict(list)
    for name, why in refused:
        by_reason[re.sub(r" \(column \d+\)", "", why.partition("error   : ")[2] or why)].append(name)
    for reason, names in sorted(by_reason.items(), key=lambda found: -len(found[1])):
        shown = names if all_refusals else names[:SHOWN_NAMES]
        more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
        print(f"  refused {len(names)}: {reason}: {', '.join(shown)}{more}")
    return not refused


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.fatbins", description=__doc__)
    parser.add_argument("--place", choices=sorted(PLACES), default="straight")
    parser.add_argument("--all-refusals", action="store_true", help="names every refused kernel")
    parser.add_argument("files", nargs="+", metavar="FILE", help="a library or program with fat binaries")
    chosen = parser.parse_args()
    rows, most, failed = loads(chosen.place, chosen.files)
    by_file = {file: [row for row in rows if row["file"] == file] for file in chosen.files}
    whole = [report(file, found, chosen.all_refusals) for file, found in by_file.items()]
    print(f"{chosen.place}: at most {most} MiB of host memory")
    if failed:
        print(failed)
    return 0 if all(whole) and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
