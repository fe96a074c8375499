"""PyTorch's operator database: each operator with its own sample inputs, on the device and on the CPU.

A program for the Python that has PyTorch, in a place that has a device. It prints a JSON object: ``agreed``
names cases (an operator, a type, forward or gradient), ``failed`` those whose results differ or that fail on
the device alone. Of those that agree, ``rounded`` names those whose bits differ, and ``unsteady`` those whose
bits differ on the CPU itself when operands begin elsewhere in memory. What the CPU refuses, or cannot do, is
no case. ``copied`` says of which cases the slice's memory was copied, and how many bytes.

    operators.py [--samples N] [--part K/N] [--types float32,int64] [--only NAME,NAME]
    operators.py --names
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import json
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map
from traffic import traffic

from gpu_kernels.pytorch import build

TYPES = ("float32", "float64", "int64", "bool", "float16", "bfloat16", "complex64")
SEED = 7
LENGTH_OF_A_REASON = 160
UNWRITTEN = ("empty", "new_empty")
"""What the results of operators hold whose names begin so is what was there before."""
SAME, UNSTEADY, ROUNDED, FAILED = range(4)
Verdict = tuple[int, str]
"""How bad it is, and why."""
FINE: Verdict = (SAME, "")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=2, help="of each operator and type; 0: all")
    parser.add_argument("--part", default="1/1", help="operators K, K+N, K+2N, ... of the database")
    parser.add_argument("--types", default=",".join(TYPES))
    parser.add_argument("--only", default="", help="operators by name")
    parser.add_argument("--names", action="store_true", help="print the operators' names, and no more")
    options = parser.parse_args()
    if options.names:
        return json.dump([full_name(op) for op in op_db], sys.stdout)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    part, parts = (int(number) for number in options.part.split("/"))
    only = set(filter(None, options.only.split(",")))
    verdicts: dict[str, Verdict] = {}
    copied: Counter[str] = Counter()
    for op in op_db[part - 1 :: parts]:
        if only and op.name not in only:
            continue
        for name in options.types.split(","):
            cases(op, name, options.samples, verdicts, copied)
    json.dump({**told(verdicts), "copied": +copied}, sys.stdout, indent=1)


@functools.cache
def counters() -> list[Callable[[], int]]:
    """Of copied bytes of the slice's memory: by operators, and between the client and its worker."""
    by_operators = ctypes.CDLL(str(build.library())).gk_pytorch_copied_bytes
    by_operators.restype = ctypes.c_uint64
    is_forwarded = hasattr(ctypes.CDLL("libcuda.so.1"), "gkTraffic")
    return [by_operators, lambda: traffic()[1]] if is_forwarded else [by_operators]


def copied_bytes() -> int:
    return sum(count() for count in counters())


def told(verdicts: dict[str, Verdict]) -> dict[str, Any]:
    def those(grade: int) -> dict[str, str]:
        return {case: why for case, (its, why) in verdicts.items() if its == grade}

    return {
        "agreed": [case for case, (its, _) in verdicts.items() if its != FAILED],
        "failed": those(FAILED),
        "rounded": those(ROUNDED),
        "unsteady": those(UNSTEADY),
    }


def full_name(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def cases(op: Any, name: str, samples: int, verdicts: dict[str, Verdict], copied: Counter[str]) -> None:
    """Add ``forward`` and, where there is one, ``gradient``, each with the worst of all samples."""
    dtype = getattr(torch, name)
    if dtype not in op.supported_dtypes("cpu"):
        return
    gradient = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    for sample in sample_inputs(op, dtype, gradient, samples):
        before = copied_bytes()
        for direction, verdict in one_sample(op, sample, gradient):
            case = f"{full_name(op)} {name} {direction}"
            verdicts[case] = max(verdicts.get(case, FINE), verdict, key=lambda each: each[0])
            copied[case] += -before + (before := copied_bytes())


def sample_inputs(op: Any, dtype: torch.dtype, gradient: bool, most: int) -> Iterator[Any]:
    torch.manual_seed(SEED)
    try:
        for number, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=gradient)):
            if number == most > 0:
                return
            yield sample
    except Exception:
        return  # the database cannot make them for this type


Placed = Callable[[torch.Tensor], torch.Tensor]


def on_cpu(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.clone()


def on_device(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to("cuda")


def elsewhere(tensor: torch.Tensor) -> torch.Tensor:
    """The CPU's, where no vector of a processor begins."""
    if tensor.layout != torch.strided or tensor.is_quantized:
        return tensor.clone()
    like = tensor.clone()
    room = torch.empty(like.untyped_storage().nbytes() // like.itemsize + 1, dtype=like.dtype)
    return room.as_strided(like.shape, like.stride(), like.storage_offset() + 1).copy_(like)


class Computed:
    """One sample's operator, with operands of its own, since operators may write them."""

    def __init__(self, op: Any, sample: Any, placed: Placed) -> None:
        self.sample = sample
        self.given = tree_map(operand(placed), (sample.input, sample.args, sample.kwargs))
        torch.manual_seed(SEED)
        self.result = op(self.given[0], *self.given[1], **self.given[2])

    def gradients(self) -> Any:
        """Of the sum of all outputs that have a gradient, by all inputs that want one."""
        outputs = self.result
        if self.sample.output_process_fn_grad is not None:
            outputs = self.sample.output_process_fn_grad(outputs)
        inputs, ends = wanting(self.given), wanting(outputs)
        if not inputs or not ends:
            return None
        return torch.autograd.grad(ends, inputs, [torch.ones_like(end) for end in ends], allow_unused=True)


def operand(placed: Placed) -> Any:
    def copied(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return placed(value.detach()).requires_grad_(value.requires_grad)
        if placed is on_device and isinstance(value, torch.device):
            return torch.device("cuda")
        return "cuda" if placed is on_device and value == "cpu" else value

    return copied


def wanting(values: Any) -> list[torch.Tensor]:
    return [each for each in tree_flatten(values)[0] if isinstance(each, torch.Tensor) and each.requires_grad]


def one_sample(op: Any, sample: Any, gradient: bool) -> Iterator[tuple[str, Verdict]]:
    try:
        expected = Computed(op, sample, on_cpu)
    except Exception:
        return
    numbers = not op.name.startswith(UNWRITTEN)
    again: list[Computed] = []

    def moved() -> Computed:
        if not again:
            again.append(Computed(op, sample, elsewhere))
        return again[0]

    try:
        here = Computed(op, sample, on_device)
        verdict = judged(here.result, expected.result, lambda: moved().result, numbers)
    except Exception as error:
        yield "forward", (FAILED, reason(error))
        return
    yield "forward", verdict
    if not gradient or verdict[0] == FAILED:
        return
    try:
        wanted = expected.gradients()
    except Exception:
        return
    if wanted is None:
        return
    try:
        yield "gradient", judged(here.gradients(), wanted, lambda: moved().gradients(), numbers)
    except Exception as error:
        yield "gradient", (FAILED, reason(error))


def judged(result: Any, expected: Any, moved: Callable[[], Any], numbers: bool) -> Verdict:
    """Without ``numbers`` the shapes and types alone count."""
    why = difference(result, expected, numbers)
    if why is None and (not numbers or same_bits(result, expected)):
        return FINE
    try:
        steady = same_bits(moved(), expected)
    except Exception:
        steady = True
    if why is None:
        return (ROUNDED, "rounded") if steady else (UNSTEADY, "rounded")
    return FAILED, why if steady else f"not the same on the CPU itself: {why}"[:LENGTH_OF_A_REASON]


def same_bits(result: Any, expected: Any) -> bool:
    pairs = zip(tree_flatten(result)[0], tree_flatten(expected)[0], strict=True)
    return all(bits(one) == bits(other) for one, other in pairs if isinstance(other, torch.Tensor))


def bits(tensor: torch.Tensor) -> bytes:
    """Of the numbers, row by row; one NaN is as good as another."""
    plain = tensor.detach().cpu().to_dense() if tensor.layout != torch.strided else tensor.detach().cpu()
    plain = plain.dequantize() if plain.is_quantized else plain
    if plain.is_complex():
        plain = torch.view_as_real(plain.resolve_conj())
    plain = torch.empty(plain.shape, dtype=plain.dtype).copy_(plain)
    if plain.is_floating_point():
        plain[plain.isnan()] = float("nan")
    return plain.reshape(-1).view(torch.uint8).numpy().tobytes()


def difference(result: Any, expected: Any, numbers: bool = True) -> str | None:
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
