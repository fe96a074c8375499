"""PyTorch on a software GPU: its operators run on this machine's processor, on the slice's memory.

PyTorch calls ``on_import`` while it is imported (entry point of the group ``torch.backends``), so this file
imports nothing. What is done and why: docs/design/pytorch.md.
"""

from __future__ import annotations


def on_import() -> None:
    """Have PyTorch call us when it first starts its device; until then nothing is asked of any GPU.

    Never raises: ``import torch`` works whatever is wrong here.
    """
    import sys

    torch = sys.modules["torch"]
    if torch.version.cuda is None:
        return
    try:
        torch.cuda._lazy_call(_on_start)
    except Exception as error:
        _say(f"PyTorch {torch.__version__} is not served on a software GPU: {error}.")


def _on_start() -> None:
    from gpu_kernels.pytorch.switch import switch_on

    for line in switch_on():
        _say(line)


def _say(line: str) -> None:
    import sys

    print(f"gpu-kernels: {line}", file=sys.stderr, flush=True)
