"""Files that hold secrets: nobody but their owner reads them, from their first byte on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

PRIVATE = 0o600
FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def new_private_file(path: Path) -> Iterator[TextIO]:
    """A file that was not there before, to write a secret into, with mode 0600 whatever the umask says. It is
    on disk when the block ends, and is gone again when that fails. Raises ``FileExistsError``, also for a
    link, and what ``os.open`` raises.
    """
    descriptor = os.open(path, FLAGS, PRIVATE)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise


def readable_by_others(path: Path) -> bool:
    """Whether other accounts may read the file, or change it. Raises what ``Path.stat`` does."""
    return bool(path.stat().st_mode & 0o077)


def write_private(path: Path, text: str) -> None:
    """Put a secret in place of what the file holds, if it is there: whoever reads it meets the old one or the
    new one, whole. The same mode.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.new")
    with suppress(FileNotFoundError):
        draft.unlink()  # a process of this number left it when it was killed
    with new_private_file(draft) as file:
        file.write(text)
    draft.replace(path)
