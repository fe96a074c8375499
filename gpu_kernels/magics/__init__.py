"""``%gpu``: the slice that this kernel has. Our kernel specs load it (``--ext=gpu_kernels.magics``).

Kernels load this while a student waits for them, so it imports nothing until ``%gpu`` is used.
"""

from __future__ import annotations

from typing import Any


def gpu(line: str = "", cell: str | None = None) -> Any:
    """Show and change the slice of a GPU that this kernel has.

        %gpu                     what it has: size, memory in use, GPU, time left, course
        %gpu wait                wait until it has one; shows the place in the line
        %gpu wait --timeout 60   wait no longer than a minute; the place stays
        %gpu release             give it back; variables stay, you lose what is in the GPU's memory
        %gpu attach 0.05         another size instead, of the same GPU class; or '0.05 A100', '2048 MiB'
        %gpu usage --plot        what you used, and what is left of the budgets
        %gpu smi                 the slice as nvidia-smi shows a GPU
        %%gpu 0.1                a larger slice for this cell alone

    ``%gpu attach --help`` says more about one of them. All but 'attach', 'release', 'wait' and '%%gpu' may be
    used while a cell runs.
    """
    from gpu_kernels.magics.command import run_cell, run_line

    return run_line(line) if cell is None else run_cell(line, cell)


def complete(_: Any, event: Any) -> list[str]:
    """What may come next, for the Tab key. Never raises."""
    from gpu_kernels.magics.completion import matches

    return matches(event.line)


def before_a_cell(_: Any = None) -> None:
    """Where the program's life on its GPU has failed, this cell begins another. Never raises."""
    from gpu_kernels.magics.life import go_on_after_failure

    for line in go_on_after_failure():
        print(line)


def load_ipython_extension(shell: Any) -> None:
    """Called by IPython when the extension is loaded."""
    shell.register_magic_function(gpu, magic_kind="line_cell", magic_name="gpu")
    shell.events.register("pre_run_cell", before_a_cell)
    for name in ("%gpu", "%%gpu"):
        shell.set_hook("complete_command", complete, str_key=name)
