"""What a wheel holds, by the role that uses it: `python -m benchmarks.wheel FILE`. `make wheel` ends with it.

Bytes as they lie in the archive and as they are installed. Every part has one role here, the first that
matches: what several use is with the one that cannot do without.
"""

from __future__ import annotations

import sys
import zipfile
from collections import defaultdict
from pathlib import Path

ROLES = {
    "software GPU, on GPU servers and straight": ("remoting/lib/softgpu/",),
    "maths libraries, in programs": ("remoting/lib/libraries/",),
    "forwarding client, in programs": ("remoting/lib/client/",),
    "worker, on GPU servers": ("remoting/lib/bin/",),
    "agent": ("remoting/agent/",),
    "controller": ("pool/",),
    "lab on one machine": ("hub_config/lab/", "hub_config/proxy/", "hub_config/notebooks/"),
    "hub: spawners, pages, configuration": ("hub_config/", "spawner/"),
    "students' servers, kernels, command line": ("",),
}
PACKAGE = "gpu_kernels/"


def role(name: str) -> str:
    """Whose part of the wheel a file is."""
    inside = name.removeprefix(PACKAGE)
    return next(role for role, starts in ROLES.items() if inside.startswith(starts))


def contents(wheel: zipfile.ZipFile) -> dict[str, tuple[int, int, int]]:
    """By role: files, bytes in the archive, bytes installed."""
    found: dict[str, list[zipfile.ZipInfo]] = defaultdict(list)
    for info in wheel.infolist():
        if not info.is_dir():
            found[role(info.filename)].append(info)
    return {
        name: (len(infos), sum(info.compress_size for info in infos), sum(info.file_size for info in infos))
        for name in ROLES
        if (infos := found[name])
    }


def table(path: Path) -> str:
    with zipfile.ZipFile(path) as wheel:
        by_role = contents(wheel)
    whole = tuple(map(sum, zip(*by_role.values(), strict=True)))
    lines = [f"{path}", f"{'':44} {'files':>5} {'in it':>10} {'installed':>10}"]
    for name, (files, packed, installed) in {**by_role, "all of it": whole}.items():
        lines.append(f"{name:44} {files:>5} {packed / 2**20:>6.2f} MiB {installed / 2**20:>6.2f} MiB")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(Path(sys.argv[1])))
