"""What a role runs with is an extra of its name (docs/design/packages.md); who lacks it is told which."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from gpu_kernels.exits import Exit


def how_to_install(extras: str) -> str:
    """For messages, at their end.

    It names the wheel's file: by the name alone pip would ask an index, where it is not ours.
    """
    return f'Where FOLDER has the wheel: pip install "$(ls FOLDER/gpu_kernels-*.whl)[{extras}]"'


@contextmanager
def needed(extra: str, program: str) -> Iterator[None]:
    """Around a role's imports. Exits with one line where a module of another distribution is not there."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "gpu_kernels":
            raise
        print(
            f"{program}: {error.name} is not installed here. It comes with the extra of this role. "
            f"{how_to_install(extra)}",
            file=sys.stderr,
        )
        sys.exit(Exit.UNAVAILABLE)
