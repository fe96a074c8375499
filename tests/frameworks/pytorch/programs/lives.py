"""A slice that goes away while PyTorch is in use: ``anew`` (the process begins another life, as after ``%gpu
release``), ``fault`` (a kernel writes where it may not) or ``lost`` (who has it there kills the worker).

Prints ``ready``, goes on when a line comes, and then what fails how.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
import triton
import triton.language as tl

from gpu_kernels.magics import life


@triton.jit
def write_far_away(x):
    tl.store(x + 1_000_000_000 + tl.arange(0, 32), 1.0)


def main(how: str) -> None:
    kept = torch.ones(32, device="cuda") + 1
    print("ready", flush=True)
    sys.stdin.readline()
    if how == "anew":
        print(*life.begin_anew())
    if how == "fault":
        tell("the launch or the next wait", lambda: (write_far_away[(1,)](kept), torch.cuda.synchronize()))
    tell("a tensor of before", lambda: kept + 1)
    tell("its numbers", lambda: kept.tolist())
    tell("a new tensor", lambda: torch.ones(3, device="cuda") + 1)
    print("the CPU goes on", (torch.ones(3) + 1).tolist())


def tell(what: str, act: Callable[[], object]) -> None:
    try:
        act()
    except Exception as error:
        print(what, type(error).__name__, str(error).partition("\n")[0])
    else:
        print(what, "nothing")


if __name__ == "__main__":
    main(sys.argv[1])
