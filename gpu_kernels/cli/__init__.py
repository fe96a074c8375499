"""The ``jupyter gpu`` command: one module a subcommand, imported when it is asked for."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from types import ModuleType

from gpu_kernels import __version__
from gpu_kernels.errors import GPUKernelsError
from gpu_kernels.exits import Exit, exit_status
from gpu_kernels.extras import needed

COMMANDS = {
    "run": ("gpu_kernels.cli.run", "run a command on a slice of a GPU, and give the slice back"),
    "grade": ("gpu_kernels.cli.grade", "run students' notebooks in the course's grading account"),
    "status": ("gpu_kernels.cli.status", "show your leases, the pool and your courses"),
    "why": ("gpu_kernels.cli.why", "what does a request wait for, and how long?"),
    "usage": ("gpu_kernels.cli.usage", "show who used how many GPU-hours"),
    "course": ("gpu_kernels.cli.course", "show a course, or set what it may hold at once"),
    "account": ("gpu_kernels.cli.account", "show the quota tree, or change an account of it"),
    "class-hours": ("gpu_kernels.cli.class_hours", "reserve seats for a course at the same times each week"),
    "agents": ("gpu_kernels.cli.agents", "show, add, cordon and drain GPU servers (for admins)"),
    "tokens": ("gpu_kernels.cli.tokens", "make people's tokens, for a controller without a hub"),
    "lab": ("gpu_kernels.cli.lab", "run a whole lab on this machine with a software GPU, to try it"),
    "check": ("gpu_kernels.cli.check", "find out what works here, and what to do about what does not"),
    "kernelspec": ("gpu_kernels.cli.kernelspec", "install, list and remove the GPU kernel specs"),
}
SERVICES = {
    "agent": ("gpu_kernels.remoting.agent.app", "serve this machine's GPUs to the pool"),
    "controller": ("gpu_kernels.pool.app", "run the pool controller"),
}
"""These have command lines of their own, with configuration files, and each an extra of its name."""

EPILOG = """\
examples:
  jupyter gpu lab                                  a hub, a pool and a software GPU, to try it all
  jupyter gpu run -p 0.1 -- python train.py        a tenth of any GPU
  jupyter gpu run --software -- python train.py    on a software GPU, without any pool
  jupyter gpu status                               what you hold, and what is free
  jupyter gpu check                                why does it not work?

'jupyter gpu COMMAND --help' tells more about each.
"""


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``jupyter gpu``. Always ends by ``SystemExit``; refusals go to standard error."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments and arguments[0] in SERVICES:
        service(arguments[0]).main(arguments[1:])
        sys.exit(Exit.OK)
    # What follows the first "--" is somebody else's command line: no parser of ours reads it.
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser().parse_args(arguments[:end])
    options.argv = arguments[end + 1 :]
    try:
        status = importlib.import_module(COMMANDS[options.command][0]).execute(options)
    except GPUKernelsError as error:
        print(f"jupyter gpu {options.command}: {error.message}", file=sys.stderr)
        sys.exit(exit_status(error))
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(Exit.BROKEN_PIPE)
    sys.exit(status)


def service(name: str) -> ModuleType:
    """The module of a service. Exits where what it runs with is not installed: other roles do without."""
    with needed(name, f"jupyter gpu {name}"):
        return importlib.import_module(SERVICES[name][0])


def parser() -> argparse.ArgumentParser:
    """Of the whole command, each subcommand's options included."""
    raw = argparse.RawDescriptionHelpFormatter
    top = argparse.ArgumentParser(
        prog="jupyter gpu",
        description="Slices of remote GPUs for notebooks and programs.",
        epilog=EPILOG,
        formatter_class=raw,
    )
    top.add_argument("--version", action="version", version=f"gpu-kernels {__version__}")
    subparsers = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (module, summary) in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=summary, formatter_class=raw)
        importlib.import_module(module).add_options(subparser)
    for name, (_, summary) in SERVICES.items():
        subparsers.add_parser(name, help=summary)
    return top
