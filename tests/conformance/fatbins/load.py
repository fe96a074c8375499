"""Loads fat binaries with the driver that this process finds, and tells of each as a line of JSON."""

from __future__ import annotations

import json
import re
import resource
import sys
import time
from ctypes import c_char_p, c_int, c_uint, c_void_p, cast, create_string_buffer
from pathlib import Path

from tests.softgpu.driver.raw import Cuda, byref

from .find import fatbins, kernels

INFO_LOG, INFO_LOG_BYTES, ERROR_LOG, ERROR_LOG_BYTES = 3, 4, 5, 6  # CUjit_option
LOG_BYTES = 64 << 10
MAX_THREADS_PER_BLOCK = 0  # CUfunction_attribute


def main() -> None:
    cuda = Cuda(Path("libcuda.so.1"))
    cuda.cuInit(0)
    cuda.cuCtxSetCurrent(cuda.new("cuDevicePrimaryCtxRetain", 0))
    for name in sys.argv[1:]:
        for fatbin in fatbins(Path(name)):
            found = load(cuda, fatbin)
            host_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10  # with what it reads of files
            print(json.dumps({"file": name, "host_mib": host_mib, **found}), flush=True)


def load(cuda: Cuda, fatbin: bytes) -> dict[str, object]:
    """What became of one: the kernels that can be launched, those refused and why, seconds of the load.

    ``without_ptx`` where it has none that a software GPU takes: that is no refusal of an instruction.
    """
    info, error = create_string_buffer(LOG_BYTES), create_string_buffer(LOG_BYTES)
    options = (c_int * 4)(INFO_LOG, INFO_LOG_BYTES, ERROR_LOG, ERROR_LOG_BYTES)
    values = (c_void_p * 4)(cast(info, c_void_p), LOG_BYTES, cast(error, c_void_p), LOG_BYTES)
    module, began = c_void_p(), time.monotonic()
    code = cuda.code("cuModuleLoadDataEx", byref(module), fatbin, 4, options, values)
    seconds = time.monotonic() - began
    if code:
        names = kernels(fatbin)
        why = error.value.decode() or f"CUresult {code}"
        return {
            "loaded": [],
            "refused": [[name, why] for name in names or []],
            "without_ptx": names is None,
            "seconds": seconds,
        }
    handle = module.value or 0
    loaded, refused = [], refused_in(info.value.decode())
    for function in enumerated(cuda, handle):
        name = function_name(cuda, function)
        threads = c_int()
        code = cuda.code("cuFuncLoad", function) or cuda.code(
            "cuFuncGetAttribute", byref(threads), MAX_THREADS_PER_BLOCK, function
        )
        if code:
            refused.append([name, f"CUresult {code}"])
        else:
            loaded.append(name)
    cuda.cuModuleUnload(handle)
    return {"loaded": loaded, "refused": refused, "without_ptx": False, "seconds": seconds}


def enumerated(cuda: Cuda, module: int) -> list[int]:
    count = cuda.new("cuModuleGetFunctionCount", module, kind=c_uint)
    functions = (c_void_p * max(count, 1))()
    if count:
        cuda.cuModuleEnumerateFunctions(functions, count, module)
    return [int(function or 0) for function in functions[:count]]


def function_name(cuda: Cuda, function: int) -> str:
    name = c_char_p()
    cuda.cuFuncGetName(byref(name), function)
    return (name.value or b"").decode()


def refused_in(log: str) -> list[list[str]]:
    """Kernels that the load told of: it loads what runs and names the rest in its log."""
    return [list(found) for found in re.findall(r"^cannot run kernel (.*?): (.*)$", log, re.MULTILINE)]


if __name__ == "__main__":
    main()
