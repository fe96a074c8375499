"""PyTorch where not all memory is mapped, and after the worker's end. Prints what a test expects.

A program for the Python that has PyTorch; its argument says which.
"""

from __future__ import annotations

import ctypes
import os
import sys

import torch


def is_mapped(tensor: torch.Tensor) -> bool:
    driver = ctypes.CDLL("libcuda.so.1")
    return bool(driver.gkIsMapped(ctypes.c_uint64(tensor.data_ptr()), ctypes.c_size_t(tensor.nbytes)))


def mixed() -> None:
    """Operands of which some are mapped and some are not: memory of a pool is not."""
    runtime = ctypes.CDLL(None)
    address = ctypes.c_void_p()
    assert runtime.cudaMallocAsync(ctypes.byref(address), ctypes.c_size_t(4096), None) == 0
    pool = torch.as_tensor(FromPool(address.value or 0), device="cuda")
    mapped = torch.arange(1024, device="cuda", dtype=torch.float32)
    print("mapped", is_mapped(mapped), is_mapped(pool))
    pool.copy_(mapped)
    pool.mul_(2)
    both = mapped + pool
    print("read", bool((both.cpu() == 3 * torch.arange(1024)).all()), is_mapped(both))
    torch.add(mapped, 1, out=pool)
    print("written", bool((pool.cpu() == torch.arange(1024) + 1).all()))
    pool.view(32, 32)[:, 1] = 7
    print("a column", pool.view(32, 32)[3].tolist()[:3], mapped[97].item())


class FromPool:
    def __init__(self, address: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (1024,),
            "typestr": "<f4",
            "data": (address, False),
            "version": 3,
        }


def killed() -> None:
    """The worker's end, in the middle of operators: an error, and soon."""
    x = torch.ones(1 << 20, device="cuda")
    print("there", is_mapped(x), flush=True)
    sys.stdin.readline()
    try:
        while True:
            x.add_(1)
    except Exception as error:
        is_lost = "DEVICE_UNAVAILABLE" in str(error) or "cudaError 46" in str(error)
        print(type(error).__name__, is_lost, flush=True)
    os._exit(0)


if __name__ == "__main__":
    {"mixed": mixed, "killed": killed}[sys.argv[1]]()
