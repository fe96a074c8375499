"""Kernels of the program's own, which take their time, beside PyTorch's operators: who sees whose writes."""

from __future__ import annotations

import ctypes
import threading

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
def count_beside(x, rounds, BLOCK: tl.constexpr):
    """The same, in the second column of two."""
    place = x + 2 * (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)) + 1
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

    blocking_streams()
    beside_a_column()
    two_gpus()


def blocking_streams() -> None:
    """Those that PyTorch does not make: the default stream waits for them, and they for it."""
    made = ctypes.c_void_p()
    driver = ctypes.CDLL("libcuda.so.1")
    assert driver.cuStreamCreate(ctypes.byref(made), 0) == 0
    blocking = torch.cuda.ExternalStream(made.value)

    x = torch.zeros(N, device="cuda")
    with torch.cuda.stream(blocking):
        run(x)
    print("a blocking stream's kernel then an operator", bool((x + 1 == ROUNDS + 1).all()))

    y = torch.zeros(N, device="cuda")
    run(y)
    with torch.cuda.stream(blocking):
        added = y + 1
    torch.cuda.synchronize()
    print("a kernel then a blocking stream's operator", bool((added == ROUNDS + 1).all()))


def beside_a_column() -> None:
    """An operator writes a column while a kernel on another stream writes the one beside it."""
    x = torch.zeros(N, 2, device="cuda")
    side, stop = torch.cuda.Stream(), threading.Event()
    torch.cuda.synchronize()

    def operators() -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            while not stop.is_set():
                x[:, 0].add_(1)

    thread = threading.Thread(target=operators)
    thread.start()
    with torch.cuda.stream(side):
        for _ in range(20):
            count_beside[(N // 256,)](x, ROUNDS // 10, BLOCK=256)
    side.synchronize()
    stop.set()
    thread.join()
    torch.cuda.synchronize()
    print("a column beside another", bool((x[:, 1] == 20 * (ROUNDS // 10)).all()))


def two_gpus() -> None:
    """A copy comes after what both GPUs' current streams have to do."""
    here, there = torch.zeros(N, device="cuda:0"), torch.zeros(N, device="cuda:1")
    with torch.cuda.device(1):
        run(there)
    print("from another GPU", bool((there.to("cuda:0") == ROUNDS).all()))
    with torch.cuda.device(1):
        run(there)
    there.copy_(here)
    print("to another GPU", bool((there == 0).all()))


if __name__ == "__main__":
    main()
