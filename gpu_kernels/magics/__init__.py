"""``%gpu``: what slice this kernel has. Loaded by every kernel spec of ours (``--ext=gpu_kernels.magics``).

Kernels load this while a student waits for them, so it imports nothing until ``%gpu`` is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpu_kernels.magics.report import Report


def gpu(line: str = "") -> Report:
    """Tell which slice of a GPU this kernel has: size, memory in use, GPU, server, lease and course.

    ``%gpu`` and ``%gpu status`` are the same. Nothing is changed by it, and it may be used while a cell runs.
    """
    if line.strip() not in ("", "status"):
        from IPython.core.error import UsageError

        raise UsageError(f"%gpu {line.strip()}: there is only %gpu, which is the same as %gpu status.")
    from gpu_kernels.magics.report import look

    return look()


def load_ipython_extension(shell: Any) -> None:
    """Called by IPython when the extension is loaded."""
    shell.register_magic_function(gpu, magic_kind="line", magic_name="gpu")
