"""The slice file of a software GPU's worker: memory that worker and client map
(docs/design/shared-memory.md).

It is the agent's, so that its pages go back to the host when the worker is dead, however it died, and
whoever still maps it.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
from pathlib import Path

OVERCOMMIT = Path("/proc/sys/vm/overcommit_memory")
STRICT = "2"
NO_EXEC = 8
"""MFD_NOEXEC_SEAL, which Linux has since 6.3: nobody makes a program of it."""
MOST_GIVEN = 128
"""Descriptors of one file in its life, and passages to one worker. Those that a client does not take lie
with the agent's account, for which the kernel keeps as many as it may have open; and connections are handed
over as descriptors too."""
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class SliceFile:
    """A file without a name, of ``mib`` MiB and no other size. ``descriptor`` is this object's until
    ``close``."""

    def __init__(self, mib: int) -> None:
        """Raises ``OSError`` where the kernel makes none."""
        self.descriptor = _memory_file()
        self._bytes = mib << 20
        self._given = 0
        try:
            os.ftruncate(self.descriptor, self._bytes)
            fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, SEALS)
        except BaseException:
            os.close(self.descriptor)
            raise

    def may_be_given(self) -> bool:
        """Whether one more client may have the descriptor; counts it. Who may not works on copies."""
        self._given += 1
        return self._given <= MOST_GIVEN

    def empty(self) -> None:
        """Give all its pages back to the host; it reads as zeros then. Takes a second for some ten GiB.
        Raises ``OSError`` or ``ValueError``."""
        with mmap.mmap(self.descriptor, self._bytes) as mapped:
            mapped.madvise(mmap.MADV_REMOVE)

    def close(self) -> None:
        """The number becomes another file's: nobody gives it away from here on."""
        os.close(self.descriptor)
        self.descriptor = -1


def slice_file(mib: int) -> SliceFile | None:
    """One for a worker whose slices are so much of this machine's memory; ``None`` for one without, and where
    memory is committed strictly: touching a page could fail there, which ends a process.
    """
    if mib == 0:
        return None
    with contextlib.suppress(OSError):
        if not commits_strictly():
            return SliceFile(mib)
    return None


def commits_strictly() -> bool:
    """Whether touching a page of a file in memory could fail, which ends a process. Raises ``OSError``."""
    return OVERCOMMIT.read_text().strip() == STRICT


def _memory_file() -> int:
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        return os.memfd_create("gpu-kernels slice", flags | NO_EXEC)
    except OSError:
        return os.memfd_create("gpu-kernels slice", flags)
