"""Kernels of the program's own, which take their time, beside PyTorch's operators: who sees whose writes."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

N, ROUNDS = 1 << 14, 300


@triton.jit
def count(x, rounds, BLOCK: tl.constexpr):
    """Adds 1 to each element, ``rounds`` times through memory."""
    place = x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for _ in range(rounds):
        tl.store(place, tl.load(place) + 1)


@triton.jit
def wait(flag, seen):
    """Until ``flag`` is set."""
    value = tl.load(flag, volatile=True)
    while value == 0:
        value = tl.load(flag, volatile=True)
    tl.store(seen, value)


def run(x: torch.Tensor) -> None:
    count[(N // 256,)](x, ROUNDS, BLOCK=256)


def main() -> None:
    run(torch.zeros(N, device="cuda"))  # compiled by now
    x = torch.zeros(N, device="cuda")
    run(x)
    print("kernel then operator", bool((x + 1 == ROUNDS + 1).all()))

    y = torch.ones(N, device="cuda")
    y.mul_(2)
    run(y)
    y.mul_(2)
    run(y)
    print("operator then kernel", bool((y == 2 * (2 + ROUNDS) + ROUNDS).all()))

    side, ready = torch.cuda.Stream(), torch.cuda.Event()
    z = torch.zeros(N, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run(z)
        ready.record()
    ready.wait()
    print("an event between two streams", bool((z == ROUNDS).all()))

    # Nothing orders these two streams: an operator of one that waited for the other would wait for ever.
    flag, other = torch.zeros(1, dtype=torch.int32, device="cuda"), torch.ones(4, device="cuda")
    seen = torch.zeros(1, dtype=torch.int32, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        wait[(1,)](flag, seen)
    added = (other + 1).sum().item()
    flag.fill_(1)
    side.synchronize()
    print("a stream by itself", added == 8 and seen.item() == 1)


if __name__ == "__main__":
    main()
