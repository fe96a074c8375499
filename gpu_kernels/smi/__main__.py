"""``nvidia-smi`` as a program: reads the command line, looks, prints; with ``-l`` again and again."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from datetime import datetime

from gpu_kernels import __version__
from gpu_kernels.smi import table
from gpu_kernels.smi.devices import NoDevices, Seen, look

NO_DEVICES = 6
"""The exit status that NVIDIA's has for it."""
BAD_USE = 2
EPILOG = """\
examples:
  nvidia-smi
  nvidia-smi -L
  nvidia-smi --query-gpu=name,memory.total,memory.used,utilization.gpu --format=csv,noheader,nounits
  nvidia-smi --query-compute-apps=pid,used_memory --format=csv

This is not NVIDIA's program: it shows the slice of a GPU that this kernel has, not the whole GPU.
"""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="nvidia-smi",
        description="Shows this kernel's slice of a GPU as NVIDIA's nvidia-smi shows a GPU.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("-L", "--list-gpus", action="store_true", help="a line for each GPU of the slice")
    made.add_argument("--query-gpu", metavar="NAMES", help="these properties: " + ", ".join(table.FIELDS))
    made.add_argument(
        "--query-compute-apps", metavar="NAMES", help="of processes: " + ", ".join(table.PROCESS_FIELDS)
    )
    made.add_argument("--format", metavar="FORM", help="for queries: csv, with noheader and nounits")
    made.add_argument("-i", "--id", metavar="N", help="only the GPU of this index or UUID")
    made.add_argument(
        "-l", "--loop", metavar="S", nargs="?", const=5.0, type=float, help="again each S seconds (5)"
    )
    made.add_argument("--version", action="version", version=f"gpu-kernels {__version__}")
    return made


def shown(options: argparse.Namespace, seen: Seen, now: datetime) -> str:
    """What to print. Raises ``BadQuestion``."""
    form = [word.strip() for word in (options.format or "csv").split(",")]
    if options.query_gpu:
        return table.query(seen, _names(options.query_gpu), form, now.strftime("%Y/%m/%d %H:%M:%S.%f")[:-3])
    if options.query_compute_apps:
        return table.query_apps(seen, _names(options.query_compute_apps), form)
    if options.list_gpus:
        return table.listing(seen)
    return table.table(seen, now.strftime("%a %b %e %H:%M:%S %Y"))


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _only(seen: Seen, which: str | None) -> Seen:
    if which is None:
        return seen
    devices = tuple(device for device in seen.devices if which in (str(device.index), device.uuid))
    if not devices:
        raise NoDevices(f"The slice has no GPU {which!r}; it has {len(seen.devices)}, counted from 0.")
    return Seen(seen.driver, seen.cuda, seen.size, seen.course, devices)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    start = dict(os.environ)
    try:
        while True:
            print(shown(options, _only(look(_as_at_first(start)), options.id), datetime.now()), flush=True)
            if options.loop is None:
                return 0
            time.sleep(max(0.1, options.loop))
    except NoDevices as error:
        print("No devices were found")
        print(error, file=sys.stderr)
        return NO_DEVICES
    except table.BadQuestion as error:
        print(error, file=sys.stderr)
        return BAD_USE
    except (KeyboardInterrupt, BrokenPipeError):
        return 0


def _as_at_first(start: dict[str, str]) -> os._Environ[str]:
    """This process's environment as it was at its start: each look asks anew."""
    os.environ.clear()
    os.environ.update(start)
    return os.environ


if __name__ == "__main__":
    sys.exit(main())
