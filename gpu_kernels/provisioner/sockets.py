"""Where attach points listen: Unix sockets in the runtime folder, and what killed servers left there.

A socket appears under its name only once it listens. So one of ours that refuses connections has no owner any
more, and may be removed by whoever comes next; there is no moment at which that would hit one that lives.

That holds on one machine. Where homes are shared, a socket of another one refuses connections here whether it
lives or not, so a name says on which machine, since which start of it, somebody listens there. Others' stay.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import shutil
import socket
import stat
import struct
import tempfile
import threading
import time
from functools import cache
from itertools import islice
from pathlib import Path

from jupyter_core.paths import jupyter_runtime_dir

LONGEST_PATH = 107
"""Of a Unix socket, in bytes."""
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
OWN_NAME = "sock"
LOOKED_AT_MOST = 10_000
"""Entries of a folder that are looked at: others may fill the one for temporary files."""
UNFINISHED_S = 3600.0
"""How old a socket must be that never got its name: whoever made it is not still about to give it one."""

_swept: set[Path] = set()
_sweeping = threading.Lock()


class Listening:
    """A listening socket, its path, and the folder that was made for it alone, if one was."""

    def __init__(self, kernel_id: str, backlog: int) -> None:
        """For a kernel, in the server's runtime folder; where that is too deep, or no place for sockets, in a
        folder of its own. Raises ``OSError``.
        """
        self._folder: Path | None = None
        folder, name = Path(jupyter_runtime_dir()), f"{_prefix()}{kernel_id}.sock"
        if len(os.fsencode(folder / _unfinished(name))) <= LONGEST_PATH:
            with contextlib.suppress(OSError):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                _sweep_once(folder)
                self.path = folder / name
                self.socket = _bound(self.path, backlog)
                return
        _sweep_once(Path(tempfile.gettempdir()))
        self._folder = Path(tempfile.mkdtemp(prefix=_prefix()))
        self.path = self._folder / OWN_NAME
        try:
            self.socket = _bound(self.path, backlog)
        except OSError:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        with contextlib.suppress(OSError):
            self.path.unlink()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


@cache
def machine() -> str:
    """Eight hex digits for this machine since it was started; containers on it have the same."""
    try:
        named = BOOT_ID.read_bytes().strip()
    except OSError:
        named = os.fsencode(os.uname().nodename)
    return hashlib.sha256(named).hexdigest()[:8]


def is_ours(connection: socket.socket) -> bool:
    """Whether a process of this user is at the other end."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", credentials)
    return bool(user == os.getuid())


def _prefix() -> str:
    return f"gpu-{machine()}-"


def _unfinished(name: str) -> str:
    return f".{name}.new"


def _bound(path: Path, backlog: int) -> socket.socket:
    """Listens under another name first: see above."""
    unfinished = path.with_name(_unfinished(path.name))
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        unfinished.unlink(missing_ok=True)
        listener.bind(os.fspath(unfinished))
        unfinished.chmod(0o600)
        listener.listen(backlog)
        unfinished.rename(path)
    except OSError:
        listener.close()
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise
    return listener


def _sweep_once(folder: Path) -> None:
    """Remove what servers that were killed on this machine left in ``folder``; once in the life of this
    process.
    """
    with _sweeping:
        if folder in _swept:
            return
        _swept.add(folder)
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in islice(entries, LOOKED_AT_MOST):
            with contextlib.suppress(OSError):
                _remove_if_left(Path(entry.path))


def _remove_if_left(path: Path) -> None:
    name = path.name
    if re.fullmatch(rf"{_prefix()}.+\.sock", name):
        if _is_left(path):
            path.unlink()
    elif re.fullmatch(rf"\.{_prefix()}.+\.sock\.new", name):
        if _is_left(path) and time.time() - path.lstat().st_mtime > UNFINISHED_S:
            path.unlink()
    elif name.startswith(_prefix()) and stat.S_ISDIR(path.lstat().st_mode) and _is_left(path / OWN_NAME):
        (path / OWN_NAME).unlink()
        path.rmdir()


def _is_left(path: Path) -> bool:
    """Whether a socket of this user lies there, and nobody listens at it."""
    found = path.lstat()
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.getuid():
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)  # a full backlog has an owner
        return probe.connect_ex(os.fspath(path)) == errno.ECONNREFUSED


def _forget() -> None:
    global _sweeping
    _sweeping = threading.Lock()


os.register_at_fork(after_in_child=_forget)
