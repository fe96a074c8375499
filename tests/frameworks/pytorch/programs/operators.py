"""PyTorch's operator database: each operator with its own sample inputs, on the device and on the CPU.

A program for the Python that has PyTorch, in a place that has a device. It prints a JSON object: ``passed``
counts cases (an operator, a type, forward or gradient), ``failed`` names those whose results differ or that
fail on the device alone. What the CPU refuses, or cannot do, is no case.

    operators.py [--samples N] [--part K/N] [--types float32,int64] [--only NAME,NAME]
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map

TYPES = ("float32", "float64", "int64", "bool", "float16", "bfloat16", "complex64")
SEED = 7
LENGTH_OF_A_REASON = 160
UNWRITTEN = ("empty", "new_empty")
"""What the results of operators hold whose names begin so is what was there before."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=2, help="of each operator and type; 0: all")
    parser.add_argument("--part", default="1/1", help="operators K, K+N, K+2N, ... of the database")
    parser.add_argument("--types", default=",".join(TYPES))
    parser.add_argument("--only", default="", help="operators by name")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    part, parts = (int(number) for number in options.part.split("/"))
    only = set(filter(None, options.only.split(",")))
    passed, failed = 0, {}
    for op in op_db[part - 1 :: parts]:
        if only and op.name not in only:
            continue
        for name in options.types.split(","):
            for case, why in cases(op, getattr(torch, name), options.samples):
                if why is None:
                    passed += 1
                else:
                    failed[f"{full_name(op)} {name} {case}"] = why
    json.dump({"passed": passed, "failed": failed}, sys.stdout, indent=1)


def full_name(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def cases(op: Any, dtype: torch.dtype, samples: int) -> Iterator[tuple[str, str | None]]:
    """``forward`` and, where there is one, ``gradient``: None if all samples agree, else why one does not."""
    if dtype not in op.supported_dtypes("cpu"):
        return
    gradient = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    tried = {"forward": False, "gradient": False}
    wrong: dict[str, str] = {}
    for sample in sample_inputs(op, dtype, gradient, samples):
        for case, why in one_sample(op, sample, gradient):
            tried[case] = True
            if why is not None:
                wrong.setdefault(case, why)
    for case, was_tried in tried.items():
        if was_tried:
            yield case, wrong.get(case)


def sample_inputs(op: Any, dtype: torch.dtype, gradient: bool, most: int) -> Iterator[Any]:
    torch.manual_seed(SEED)
    try:
        for number, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=gradient)):
            if number == most > 0:
                return
            yield sample
    except Exception:
        return  # the database cannot make them for this type


def one_sample(op: Any, sample: Any, gradient: bool) -> Iterator[tuple[str, str | None]]:
    # Operators may write their arguments: each side has its own.
    given = (sample.input, sample.args, sample.kwargs)
    on_cpu, on_device = tree_map(to("cpu"), given), tree_map(to("cuda"), given)
    try:
        torch.manual_seed(SEED)
        expected = op(on_cpu[0], *on_cpu[1], **on_cpu[2])
    except Exception:
        return
    try:
        torch.manual_seed(SEED)
        result = op(on_device[0], *on_device[1], **on_device[2])
        difference = compare(result, expected, numbers=not op.name.startswith(UNWRITTEN))
    except Exception as error:
        yield "forward", reason(error)
        return
    yield "forward", difference
    if gradient and difference is None:
        yield from gradients(op, sample, on_cpu, expected, on_device, result)


def to(device: str) -> Any:
    def copied(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            copy = value.detach().clone() if device == "cpu" else value.detach().to(device)
            return copy.requires_grad_(value.requires_grad)
        if isinstance(value, torch.device) or value == "cpu":
            return torch.device(device) if isinstance(value, torch.device) else device
        return value

    return copied


def gradients(
    op: Any, sample: Any, on_cpu: Any, expected: Any, on_device: Any, result: Any
) -> Iterator[tuple[str, str | None]]:
    try:
        wanted = backward(on_cpu, expected, sample)
    except Exception:
        return
    if wanted is None:
        return
    try:
        yield "gradient", compare(backward(on_device, result, sample), wanted)
    except Exception as error:
        yield "gradient", reason(error)


def backward(given: Any, outputs: Any, sample: Any) -> Any:
    """Of the sum of all outputs that have a gradient, by all inputs that want one."""
    if sample.output_process_fn_grad is not None:
        outputs = sample.output_process_fn_grad(outputs)
    inputs = [
        each for each in tree_flatten(given)[0] if isinstance(each, torch.Tensor) and each.requires_grad
    ]
    ends = [
        each for each in tree_flatten(outputs)[0] if isinstance(each, torch.Tensor) and each.requires_grad
    ]
    if not inputs or not ends:
        return None
    return torch.autograd.grad(ends, inputs, [torch.ones_like(end) for end in ends], allow_unused=True)


def compare(result: Any, expected: Any, numbers: bool = True) -> str | None:
    """None if they are the same but for rounding, or in shape and type without ``numbers``."""
    results, form = tree_flatten(result)
    wanted, other_form = tree_flatten(expected)
    if form != other_form:
        return f"another form: {form}"[:LENGTH_OF_A_REASON]
    for one, other in zip(results, wanted, strict=True):
        if not isinstance(other, torch.Tensor):
            if one != other and not (one != one and other != other):
                return f"{one} instead of {other}"[:LENGTH_OF_A_REASON]
            continue
        if not numbers:
            if (one.shape, one.dtype) != (other.shape, other.dtype):
                return f"{one.dtype} {one.shape} instead of {other.dtype} {other.shape}"
            continue
        try:
            torch.testing.assert_close(one.cpu(), other.cpu(), equal_nan=True, check_stride=False)
        except AssertionError as error:
            return "differs: " + reason(error)
    return None


def reason(error: BaseException) -> str:
    text = f"{type(error).__name__}: {error}"
    return " ".join(text.split())[:LENGTH_OF_A_REASON]


if __name__ == "__main__":
    main()
