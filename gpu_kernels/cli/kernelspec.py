"""``jupyter gpu kernelspec``: install, list and remove the kernel specs that name a size."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from typing import Any

from gpu_kernels.cli.tables import table
from gpu_kernels.exits import Exit
from gpu_kernels.frameworks import environment_of
from gpu_kernels.kernelspecs import DEFAULT_SIZES, SpecOnDisk, install, installed, remove

EPILOG = """\
examples:
  jupyter gpu kernelspec install --user
  jupyter gpu kernelspec install --sys-prefix --size "0.05 A100" --size "1 A100" --no-plain
  jupyter gpu kernelspec install --sys-prefix --python /opt/pytorch/bin/python --with PyTorch
  jupyter gpu kernelspec list --user
  jupyter gpu kernelspec remove --user python3-gpu-0.1-v100
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = "Installs, lists and removes the kernel specs 'Python 3 (0.02 V100)' and the like."
    parser.epilog = EPILOG
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    adding = actions.add_parser("install", help="write them, in place of older ones of ours")
    adding.add_argument(
        "--size",
        action="append",
        metavar="TEXT",
        help=f"a size, again for more (default: {', '.join(DEFAULT_SIZES)})",
    )
    adding.add_argument("--no-plain", action="store_true", help="leave out the one without a GPU")
    adding.add_argument("--python", default=sys.executable, help="the Python that runs the kernels")
    adding.add_argument(
        "--with",
        dest="environment",
        default="",
        metavar="NAME",
        help="what that Python has, for the names: 'PyTorch' makes 'Python 3 with PyTorch (0.02 V100)'",
    )
    listing = actions.add_parser("list", help="show those that were installed this way")
    removing = actions.add_parser("remove", help="remove the named ones, or all of ours")
    removing.add_argument("names", nargs="*", metavar="NAME")
    for action in (adding, listing, removing):
        where = action.add_mutually_exclusive_group()
        where.add_argument("--user", action="store_true", help="in your own data folder")
        where.add_argument("--sys-prefix", action="store_true", help="in this Python's environment")
        where.add_argument("--prefix", metavar="FOLDER", help="in FOLDER/share/jupyter/kernels")


def execute(options: argparse.Namespace) -> int:
    where = {"user": options.user, "sys_prefix": options.sys_prefix, "prefix": options.prefix}
    try:
        specs = _act(options, where)
    except (OSError, ValueError) as error:
        if hasattr(error, "log_message"):
            raise
        print(f"jupyter gpu kernelspec: {error}", file=sys.stderr)
        return Exit.FAILED if isinstance(error, OSError) else Exit.USAGE
    print(table(("kernel", "shown as", "size", "", "folder"), map(_row, specs)))
    return Exit.OK


def _act(options: argparse.Namespace, where: dict[str, Any]) -> Iterable[SpecOnDisk]:
    if options.action == "install":
        _require_kernel(options.python)
        return install(
            sizes=options.size or DEFAULT_SIZES,
            plain=not options.no_plain,
            python=options.python,
            environment=options.environment,
            **where,
        )
    if options.action == "list":
        return installed(**where)
    return remove(options.names or None, **where)


def _require_kernel(python: str) -> None:
    """Raises ``ValueError`` or ``NoSuchPython`` where kernels of this Python would end as they start."""
    if python != sys.executable and (lacks := environment_of(python).lacks):
        raise ValueError(
            f"{python} lacks {' and '.join(lacks)}, which its kernels need. Install this package there; it "
            "brings both."
        )


def _row(spec: SpecOnDisk) -> tuple[str, ...]:
    state = "" if spec.state == "present" else spec.state
    return spec.name, spec.display_name, spec.size or "", state, str(spec.folder)
