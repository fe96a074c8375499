"""``jupyter gpu check``: what works here, and what to do about what does not."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from gpu_kernels.cli.run import HeldByCommand
from gpu_kernels.client import PoolClient
from gpu_kernels.errors import Forbidden, GPUKernelsError, PoolUnavailable, Unauthenticated
from gpu_kernels.exits import Exit
from gpu_kernels.frameworks import NoSuchPython, environment_of, frameworks_of
from gpu_kernels.remoting.agent.protections import Protection, kept, workers_of
from gpu_kernels.remoting.environment import LEASE, client_environment, software_environment
from gpu_kernels.remoting.paths import native_build
from gpu_kernels.units import parse_size

ADD_TIMEOUT_S = 60
SETTLED_S, BETWEEN_LOOKS_S = 10.0, 0.2
LOOSE = (
    "What is said above does not hold for these. End the agent, whose workers end with it, and read its log."
)
KERNEL_NEEDS = "Install this package there: it brings ipykernel and %gpu."
EPILOG = """\
examples:
  jupyter gpu check                    with a slice of the pool, given back afterwards
  jupyter gpu check --software         the software GPU alone, without any pool
  !jupyter gpu check                   in a GPU kernel: with that kernel's slice
  jupyter gpu check --software --python /opt/pytorch/bin/python
                                       the environment of other kernels, and which frameworks it has
  jupyter gpu check --agent DIR        on a GPU server: what holds its workers (DIR: the agent's --state-dir)
"""


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. ``advice`` says what to do where it failed; ``ok`` is None where nobody
    knows: a release that was not tried, or one that is not for slices."""

    name: str
    ok: bool | None
    detail: str
    advice: str = ""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = "Looks at everything that a GPU kernel needs, in the order in which it is needed."
    parser.epilog = EPILOG
    parser.add_argument("--software", action="store_true", help="leave the pool out")
    parser.add_argument(
        "--agent",
        type=Path,
        metavar="DIR",
        help="on a GPU server: also check what protects it from a worker that somebody has taken over; "
        "needs an account that may read DIR, the agent's state folder",
    )
    parser.add_argument(
        "--python",
        default=sys.executable,
        metavar="FILE",
        help="the Python of kernels, whose frameworks are named (default: this one)",
    )
    parser.add_argument("--size", default="0.01 GPU", metavar="TEXT", help="slice to try (default: 0.01 GPU)")
    parser.add_argument("--course", help="course to charge for the moment that it takes")
    parser.add_argument("--json", action="store_true", help="for programs: a JSON list on standard output")


def execute(options: argparse.Namespace) -> int:
    parse_size(options.size)
    checks = []
    for check in run_checks(options, os.environ):
        checks.append(check)
        if not options.json:
            _show(check)
    if options.json:
        print(json.dumps([asdict(check) for check in checks], indent=2))
    return Exit.FAILED if any(check.ok is False for check in checks) else Exit.OK


def run_checks(options: argparse.Namespace, env: Mapping[str, str]) -> Iterator[Check]:
    """Each check as soon as it is done; what depends on a failed one is not tried."""
    if options.agent:
        yield from _agent(options.agent)
        return
    yield _native_libraries(env)
    yield from _environment(options.python)
    if options.software:
        yield _vector_add("software GPU", lambda: software_environment(env))
        return
    if env.get(LEASE):
        yield _vector_add("this kernel's slice", lambda: dict(env))
        return
    yield from _with_pool(options, env)


def _native_libraries(env: Mapping[str, str]) -> Check:
    native = native_build(env)
    missing = [str(path.relative_to(native.folder)) for path in native.all_files() if not path.exists()]
    if missing:
        advice = (
            "Build them: 'make demo' does, or see CONTRIBUTING.md. GPU_KERNELS_NATIVE names another folder."
        )
        return Check("native libraries", False, f"not in {native.folder}: {', '.join(missing)}", advice)
    return Check("native libraries", True, str(native.folder))


def _environment(python: str) -> Iterator[Check]:
    """What a kernel of this Python would have; of this process's own only the frameworks."""
    try:
        environment = environment_of(python)
    except NoSuchPython as error:
        yield Check("environment", False, error.message, "Name the Python of the kernels' environment.")
        return
    if python != sys.executable:
        lacks = ", ".join(environment.lacks)
        yield Check("environment", not lacks, f"{python} lacks {lacks}" if lacks else python, KERNEL_NEEDS)
    for framework in frameworks_of(environment):
        yield Check(framework.name, framework.tried or None, framework.detail)


def _agent(folder: Path) -> Iterator[Check]:
    """What the agent of this machine said when it started, and what the kernel says of its workers."""
    try:
        agent, found = kept(folder)
    except (OSError, ValueError, KeyError, TypeError) as error:
        advice = "Name the agent's --state-dir, as an account that may read it, once the agent has started."
        yield Check("agent", False, f"{folder} cannot be read: {error}", advice)
        return
    if not Path(f"/proc/{agent}").exists():
        yield Check("agent", False, f"process {agent} has ended", "Start it again: jupyter gpu agent")
        return
    yield Check("agent", True, f"process {agent}")
    for each in found:
        yield Check(each.name, each.in_force, each.detail, each.advice)
    loose = _loose_workers(agent, found)
    detail = "; ".join(f"process {pid}: {', '.join(faults)}" for pid, faults in loose.items())
    yield Check("workers", not loose, detail or "the kernel says the same of each that lives", LOOSE)


def _loose_workers(agent: int, found: list[Protection]) -> dict[int, list[str]]:
    """Workers that may do what they should not. One that is starting holds itself only when its driver is
    open, so those are looked at again."""
    deadline = time.monotonic() + SETTLED_S
    while loose := {pid: faults for pid, faults in workers_of(agent, found) if faults}:
        if time.monotonic() > deadline:
            break
        time.sleep(BETWEEN_LOOKS_S)
    return loose


def _with_pool(options: argparse.Namespace, env: Mapping[str, str]) -> Iterator[Check]:
    with ExitStack() as stack:
        try:
            client = stack.enter_context(PoolClient.from_environment(env))
            pool = client.pool()
        except PoolUnavailable as error:
            yield Check(
                "controller", False, error.message, "Is GPU_KERNELS_CONTROLLER right, and does it run?"
            )
            return
        except (Unauthenticated, Forbidden) as error:
            yield Check("controller", True, "answers")
            yield Check(
                "token", False, error.message, "Get a new token, or start the server again from the hub."
            )
            return
        yield Check("controller", True, client.url)
        yield Check("token", True, "accepted")
        available = [gpu for gpu in pool.gpus if gpu.available]
        advice = "Start an agent on a GPU server: jupyter gpu agent"
        yield Check(
            "GPU servers", bool(available), f"{len(available)} of {len(pool.gpus)} GPUs answer", advice
        )
        try:
            held = HeldByCommand.acquired(client, options.size, options.course, 0.0)
        except GPUKernelsError as error:
            yield Check("lease", False, error.message, "See 'jupyter gpu status' for what you hold.")
            return
        stack.callback(held.release)
        held.keep()
        lease = held.lease
        yield Check("lease", True, f"{lease.size}: {lease.mib} MiB on {lease.agent_name}")
        yield _vector_add("vector addition", lambda: client_environment(lease, env))


def _vector_add(name: str, environment: Callable[[], Mapping[str, str]]) -> Check:
    command = [sys.executable, "-m", "gpu_kernels.cli.vector_add"]
    advice = (
        "The GPU server's log says more; GPU_KERNELS_LOG=stderr makes the client library tell what it does."
    )
    try:
        done = subprocess.run(
            command,
            env=dict(environment()),
            capture_output=True,
            text=True,
            timeout=ADD_TIMEOUT_S,
            check=False,
        )
    except GPUKernelsError as error:
        return Check(name, False, error.message, advice)
    except subprocess.TimeoutExpired:
        return Check(name, False, f"no end after {ADD_TIMEOUT_S} s", advice)
    if done.returncode == 0:
        return Check(name, True, f"right, on {done.stdout.strip()}")
    why = done.stderr.strip() or f"it ended with status {done.returncode}"
    return Check(name, False, why[-2000:], advice)


def _show(check: Check) -> None:
    word = {True: "ok", False: "FAILED", None: "unknown"}[check.ok]
    indent = "\n" + " " * 30
    print(f"{word:8}  {check.name:18}  {check.detail.replace(chr(10), indent)}", flush=True)
    if check.ok is False and check.advice:
        print(" " * 30 + "-> " + check.advice, flush=True)
