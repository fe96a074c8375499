"""An initial RAM disk out of folders: the kernel's ``newc`` format, which needs no disk and no driver."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO


def write(target: BinaryIO, source: Path, inside: str = "") -> None:
    """Add what is in ``source`` below ``inside`` of the guest's root. All belongs to the guest's root."""
    for at, folders, files in os.walk(source):
        here = Path(at)
        for name in sorted(folders + files):
            path = here / name
            about = path.lstat()
            data = b""
            if stat.S_ISLNK(about.st_mode):
                data = os.readlink(path).encode()
            elif stat.S_ISREG(about.st_mode):
                data = path.read_bytes()
            elif not stat.S_ISDIR(about.st_mode):
                continue
            add(target, str(Path(inside) / path.relative_to(source)), about.st_mode, data)
        folders[:] = [name for name in folders if not (here / name).is_symlink()]


def add(target: BinaryIO, name: str, mode: int, data: bytes = b"", device: tuple[int, int] = (0, 0)) -> None:
    encoded = name.encode() + b"\0"
    fields = [0, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(encoded), 0]
    header = b"070701" + b"".join(b"%08X" % field for field in fields)
    for part in (header + encoded, data):
        target.write(part + bytes(-len(part) % 4))


def finish(target: BinaryIO) -> None:
    add(target, "TRAILER!!!", 0)
