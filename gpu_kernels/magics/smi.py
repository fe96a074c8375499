"""``%gpu smi``: the same program as ``nvidia-smi`` in a notebook, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from html import escape

from gpu_kernels.magics.failures import Refused

TIMEOUT_S = 30.0


class Printed:
    """What a program printed, in columns."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.text)}</pre>"


def shown(arguments: Sequence[str]) -> Printed:
    """NVML reads the lease when it is loaded: here it would keep showing the first slice."""
    try:
        ended = subprocess.run(
            [sys.executable, "-P", "-m", "gpu_kernels.smi", *arguments],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise Refused(
            f"It did not end within {TIMEOUT_S:g} s. To look again and again, use a terminal."
        ) from None
    if ended.returncode != 0:
        raise Refused((ended.stderr or ended.stdout).strip())
    return Printed(ended.stdout.rstrip("\n"))
