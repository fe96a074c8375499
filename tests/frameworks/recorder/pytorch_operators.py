"""PyTorch's databases of operators and modules on the device, for the recorder.

A program for the Python that has PyTorch. It runs on PyTorch's own kernels for the device, which do nothing
there (``audit.c``): so an operator may fail, or wait for numbers that do not come, and the next has its turn.

    pytorch_operators.py [PART/PARTS]
"""

from __future__ import annotations

import contextlib
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.opinfo.core import BinaryUfuncInfo, ReductionOpInfo, UnaryUfuncInfo
from torch.utils._pytree import tree_flatten, tree_map

SAMPLES = 2
BY_ELEMENTS = (UnaryUfuncInfo, BinaryUfuncInfo, ReductionOpInfo)
"""They call no library."""
TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128)
WITHIN_S = 10
"""Of an operator and a type."""
Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


def main() -> None:
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, give_up)
    part, parts = (int(number) for number in (sys.argv[1] if sys.argv[1:] else "1/1").split("/"))
    operators = [info for info in op_db if not isinstance(info, BY_ELEMENTS)]
    for dtype in TYPES:
        for info in operators[part - 1 :: parts]:
            tried(of_operator, info, dtype)
        for info in module_db[part - 1 :: parts]:
            tried(of_module, info, dtype)


def give_up(number: int, frame: Any) -> None:
    raise TimeoutError


def tried(kind: Callable[[Any, torch.dtype], Iterator[Call]], info: Any, dtype: torch.dtype) -> None:
    """Forward and gradient of each sample."""
    signal.alarm(WITHIN_S)
    with contextlib.suppress(Exception):
        for call, args, kwargs in kind(info, dtype):
            with contextlib.suppress(Exception):
                args, kwargs = tree_map(on_device, (args, kwargs))
                outputs = [
                    each for each in tree_flatten(call(*args, **kwargs))[0] if isinstance(each, torch.Tensor)
                ]
                sum(each.abs().sum() for each in outputs if each.requires_grad).backward()
    signal.alarm(0)


def on_device(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().to("cuda").requires_grad_(value.requires_grad)
    return value


def of_operator(info: Any, dtype: torch.dtype) -> Iterator[Call]:
    if dtype not in info.supported_dtypes("cuda"):
        return
    gradient = info.supports_autograd and dtype in info.supported_backward_dtypes("cuda")
    for sample in islice(info.sample_inputs("cpu", dtype, requires_grad=gradient), SAMPLES):
        yield info, (sample.input, *sample.args), sample.kwargs


def of_module(info: Any, dtype: torch.dtype) -> Iterator[Call]:
    if dtype not in info.dtypes:
        return
    inputs = info.module_inputs_func(info, "cpu", dtype, requires_grad=True, training=True)
    for each in islice(inputs, SAMPLES):
        module = info.module_cls(*each.constructor_input.args, **each.constructor_input.kwargs)
        yield module.to("cuda", dtype), each.forward_input.args, each.forward_input.kwargs


if __name__ == "__main__":
    main()
