"""``jupyter gpu run``: lease a slice, run a command on it, give the slice back."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from gpu_kernels.cli.foreground import unwinding
from gpu_kernels.client import PoolClient
from gpu_kernels.client.keeper import KeptLease, given_back
from gpu_kernels.client.lease_holder import Changes, LeaseHolder, NotGranted
from gpu_kernels.client.lease_request import LeaseRequest
from gpu_kernels.errors import GPUKernelsError, InvalidSize, PoolError, PoolFull
from gpu_kernels.exits import Exit
from gpu_kernels.remoting.environment import (
    COMMANDS,
    COURSE,
    SOFTGPU_MEMORY,
    client_environment,
    software_environment,
)
from gpu_kernels.remoting.machine_memory import machine_memory, told_mib
from gpu_kernels.remoting.paths import native_build
from gpu_kernels.runner import PROGRAM
from gpu_kernels.runner.given import Given
from gpu_kernels.runner.processes import HEARD
from gpu_kernels.units import ANY_CLASS, parse_size

DESCRIPTION = """\
Leases a slice of a GPU, runs COMMAND on it, and gives the slice back when it ends, however it ends.
The exit status is the command's; 128+n if it died by signal n. Nothing is added to its output.
"""
EPILOG = f"""\
examples:
  jupyter gpu run -p 0.1 -- python train.py
  jupyter gpu run --size "1/20 V100" --wait 60 -- python train.py
  jupyter gpu run -m 2048 --course ml101 -- ./a.out
  jupyter gpu run -n 2 --gpu-class V100 -- python train.py
  jupyter gpu run --software --memory 512 -- python train.py

exit status, where there was no command to have one:
  {Exit.USAGE}   the size or an option cannot be read
  {Exit.UNAVAILABLE}  no pool can be reached, or none has such a GPU
  {Exit.TEMPORARY}  refused for now: the course is at its limit, or nothing is free
  {Exit.NO_PERMISSION}  no token, or one that does not allow this
  {Exit.NOT_EXECUTABLE}  COMMAND cannot be executed    {Exit.NOT_FOUND}  COMMAND was not found
"""


class NotBuilt(GPUKernelsError):
    """A native library is missing."""

    code = "not_built"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.epilog = EPILOG
    parser.usage = "jupyter gpu run [options] -- COMMAND [ARGUMENT ...]"
    size = parser.add_argument_group("size (one of these; by default 0.1 of any GPU)")
    chosen = size.add_mutually_exclusive_group()
    chosen.add_argument("-p", "--part", metavar="FRACTION", help="a part of one GPU: 0.1 or 1/20")
    chosen.add_argument("-n", "--gpus", metavar="N", help="a number of whole GPUs")
    chosen.add_argument("-m", "--mib", metavar="MIB", help="memory in MiB; compute in proportion")
    chosen.add_argument("--size", metavar="TEXT", help="the whole of it, as in '0.1 V100' or '2048 MiB'")
    size.add_argument("--gpu-class", metavar="CLASS", help="which GPUs will do (default: any)")
    pool = parser.add_argument_group("from the pool")
    pool.add_argument(
        "--course", help="which course to charge (default: GPU_KERNELS_COURSE, else the only one you have)"
    )
    pool.add_argument(
        "--wait",
        type=_seconds,
        default=0.0,
        metavar="S",
        help="queue S seconds if nothing is free (default: 0)",
    )
    pool.add_argument(
        "--preemptible",
        action="store_true",
        help="also take what a class hour needs later; the command then loses its GPU when the class starts",
    )
    straight = parser.add_argument_group("without a pool")
    straight.add_argument("--software", action="store_true", help="run straight on a software GPU")
    straight.add_argument(
        "--memory",
        type=int,
        metavar="MIB",
        help="the software GPU's memory (default: half of this machine's, which must be able to promise it)",
    )


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds < float("inf"):
        raise ValueError
    return seconds


def execute(options: argparse.Namespace) -> int:
    command = options.argv
    if not command:
        print("jupyter gpu run: no COMMAND is given; it comes after '--'", file=sys.stderr)
        return Exit.USAGE
    if (unfit := _unfit(command[0])) is not None:
        return unfit
    if options.software:
        return _run_straight(command, options.memory)
    return _run_on_lease(command, options)


def size_text(options: argparse.Namespace) -> str:
    """The size that the options ask for. Raises ``InvalidSize``."""
    gpu_class = options.gpu_class
    if options.size is not None:
        if gpu_class is not None:
            raise InvalidSize("--size names the GPU class itself: leave --gpu-class out.")
        return str(parse_size(options.size))
    if options.mib is not None:
        return str(parse_size(f"{options.mib} MiB {gpu_class or ''}".strip()))
    if options.gpus is not None:
        size = parse_size(f"{options.gpus} {gpu_class or ANY_CLASS}")
        if size.whole_gpus is None:
            raise InvalidSize(f"-n takes whole GPUs, not {options.gpus!r}; for a part of one use -p.")
        return str(size)
    return str(parse_size(f"{options.part or '0.1'} {gpu_class or ANY_CLASS}"))


def _unfit(program: str) -> Exit | None:
    """Why a program cannot be run, told before a slice is taken for it."""
    if shutil.which(program) is not None or shutil.which(program, path=str(COMMANDS)) is not None:
        return None
    if "/" in program and Path(program).exists():
        print(f"jupyter gpu run: {program}: not executable", file=sys.stderr)
        return Exit.NOT_EXECUTABLE
    print(f"jupyter gpu run: {program}: not found", file=sys.stderr)
    return Exit.NOT_FOUND


def _run_straight(command: Sequence[str], memory_mib: int | None) -> int:
    """Become the command: there is nothing to give back afterwards."""
    _require(native_build().softgpu_driver)
    if memory_mib is not None and memory_mib < 1:
        raise InvalidSize(f"--memory must be at least 1 MiB, not {memory_mib}.")
    environment = software_environment(os.environ, memory_mib=_promised(memory_mib))
    sys.stdout.flush()
    os.execvpe(command[0], list(command), environment)  # noqa: S606 - no shell is wanted


def _promised(memory_mib: int | None) -> int | None:
    """The software GPU's memory, which is this machine's, so that it has as much. Raises ``InvalidSize``."""
    machine = machine_memory(told_mib(os.environ))
    given = os.environ.get(SOFTGPU_MEMORY, "")
    if memory_mib is None and not given:
        return min(machine.mib // 2, machine.room_mib)
    sizes = (
        [memory_mib] if memory_mib else [int(each) for each in given.split(",") if each.strip().isdecimal()]
    )
    if sum(sizes) > machine.room_mib:
        raise InvalidSize(
            f"{sum(sizes)} MiB for software GPUs are more than this machine can promise: of its "
            f"{machine.mib} MiB ({machine.source}) {machine.reserve_mib} are kept for the rest of it. Up to "
            f"{machine.room_mib} MiB will do ({'--memory' if memory_mib else SOFTGPU_MEMORY})."
        )
    return memory_mib


def _run_on_lease(command: Sequence[str], options: argparse.Namespace) -> int:
    size = size_text(options)
    _require(native_build().client / "libcuda.so.1")
    with PoolClient.from_environment() as client, unwinding():
        held = HeldByCommand.acquired(client, size, options.course, options.wait, options.preemptible)
        try:
            if held.lease.preempt_in is not None:
                minutes = held.lease.preempt_in / 60
                print(
                    f"jupyter gpu run: the slice makes way for a class hour in {minutes:.0f} min",
                    file=sys.stderr,
                )
            _become_runner(command, client_environment(held.lease, os.environ), client, held)
        except BaseException:
            held.release()
            raise


def _become_runner(
    command: Sequence[str], environment: Mapping[str, str], client: PoolClient, held: HeldByCommand
) -> NoReturn:
    """Go on in as little memory as holding a lease takes (``gpu_kernels.runner``), which gives it back."""
    renewals = held.holder.renewals
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
    try:
        given = Given(
            program=shutil.which(command[0], path=environment.get("PATH")) or command[0],
            command=list(command),
            environment=dict(environment),
            signals=[int(number) for number in before],
            urls=client.addresses,
            token=client.token,
            certificates=client.certificates,
            timeout=client.timeout,
            lease=held.lease.id,
            epoch=held.lease.epoch,
            holder=held.holder.request.holder,
            ttl=held.lease.ttl,
            trusted_until=renewals.trusted_until,
            due=renewals.due,
        )
        sys.stdout.flush()
        sys.stderr.flush()
        runner = [sys.executable, "-I", "-S", PROGRAM, str(given.written())]
        os.execv(sys.executable, [*runner, "--", *command])  # noqa: S606 - no shell is wanted
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _require(library: Path) -> None:
    if not library.exists():
        raise NotBuilt(f"{library} is not there: build the native part first; 'make demo' does.")


class HeldByCommand(KeptLease):
    """A lease for as long as a command runs."""

    @classmethod
    def acquired(
        cls, client: PoolClient, size: str, course: str | None, wait: float, preemptible: bool = False
    ) -> HeldByCommand:
        """Raises the refusal, or ``PoolFull`` if nothing became free in time; then nothing is held."""
        course = course or os.environ.get(COURSE) or None
        request = LeaseRequest.of_its_own("run", size, wait, course, preemptible=preemptible)
        holder = LeaseHolder(request, on_moved=each_outage(), on_lost=_tell_loss)
        try:
            client.run(holder.acquire())
        except NotGranted as error:
            _tell_kept(holder, given_back(client, holder))
            raise PoolFull(_not_granted(error)) from None
        except BaseException:
            _tell_kept(holder, given_back(client, holder))
            raise
        return cls(client, holder)

    def release(self) -> PoolError | None:
        error = super().release()
        _tell_kept(self.holder, error)
        return error


def each_outage() -> Changes:
    """Tells once of each outage of the controller while the command waits for its slice."""

    def tell(holder: LeaseHolder) -> None:
        print(f"jupyter gpu run: {holder.trouble} It is asked again until it answers.", file=sys.stderr)

    return Changes(lambda holder: holder.trouble, tell)


def _tell_kept(holder: LeaseHolder, error: PoolError | None) -> None:
    """Why what was got, if anything, could not be given back."""
    if error is not None and holder.lease is not None:
        ends = f"ends in {holder.lease.ttl:g} s"
        print(
            f"jupyter gpu run: the slice could not be given back and {ends}: {error.message}", file=sys.stderr
        )


def _not_granted(error: NotGranted) -> str:
    if error.taken_back:
        return error.message
    why = f"{error.told}\n" if error.told else ""
    return (
        f"No slice of {error.lease.size} became free within {error.wait:g} s.\n{why}"
        "Nothing is reserved. Wait longer with --wait, or choose a smaller size."
    )


def _tell_loss(holder: LeaseHolder) -> None:
    if holder.loss is not None:
        print(f"jupyter gpu run: the GPU slice was taken back: {holder.loss.text}", file=sys.stderr)
