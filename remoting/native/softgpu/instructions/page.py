"""Writes the reference page of PTX that the software GPU runs: page.py docs/reference/ptx.md"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

from table import BITS, MANUAL, Form, Operand, Table, read

HEAD = """# PTX on the software GPU

Every form of every instruction that the software GPU takes, as NVIDIA's manual writes forms: what stands in
braces may be left out, and `<a|b>` is one of both. Each links to the manual's section, which says what it
computes. A kernel with another instruction is refused by its name and line when it is asked for; the other
kernels of its module run.

This page is made from the table by which the engine chooses what runs:
`python remoting/native/softgpu/instructions/page.py docs/reference/ptx.md`. A test compares both, and others
load every form.
"""


FUNCTIONS = """
## Functions that nobody need define

Of C: `vprintf`, `__assertfail`, `malloc` and `free`. Of cooperative groups, for a grid: `cudaCGGetIntrinsicHandle`,
`cudaCGSynchronize`, `cudaCGGetSize` and `cudaCGGetRank`. And of the device runtime, by which
[kernels launch kernels](../design/softgpu.md#kernels-that-launch-kernels), as here or with `__cudaCDP2` in place of `cuda`, as CUDA 12 and later
write them:

| what | functions |
|---|---|
| launches | `cudaGetParameterBufferV2`, `cudaLaunchDeviceV2`, `cudaGetParameterBuffer`, `cudaLaunchDevice` |
| streams and events | `cudaStreamCreateWithFlags`, `cudaStreamDestroy`, `cudaStreamWaitEvent`, `cudaEventCreateWithFlags`, `cudaEventRecord`, `cudaEventRecordWithFlags`, `cudaEventDestroy` |
| errors, of a thread | `cudaGetLastError`, `cudaPeekAtLastError`, `cudaGetErrorName`, `cudaGetErrorString` |
| memory | `cudaMalloc`, `cudaFree`, `cudaMemcpyAsync`, `cudaMemcpy2DAsync`, `cudaMemsetAsync`, `cudaMemset2DAsync` |
| the device | `cudaGetDevice`, `cudaGetDeviceCount`, `cudaDeviceGetAttribute`, `cudaDeviceGetLimit` |

What launches or takes a stream may have `_ptsz` behind it.
"""  # noqa: E501


def typed(form: Form, operand: Operand) -> str:
    """An operand, with its type where that is not the form's last."""
    if operand.field == "imm":
        return "number"
    last = form.groups[-1].name if form.groups and form.groups[-1].is_type else ""
    kind = form.groups[operand.kind].name if isinstance(operand.kind, int) else operand.kind
    if operand.doubled:
        return f"{operand.field}: twice as wide"
    if kind == last or (kind in BITS and not last):
        return operand.field
    return f"{operand.field}: {kind if kind in BITS else f'<{kind}>'}"


def row(form: Form) -> str:
    operands = form.shown if form.pick else ", ".join(typed(form, operand) for operand in form.operands)
    return f"{form.syntax():<60} {operands}".rstrip()


def title(forms: list[Form]) -> str:
    return ", ".join(f"`{name}`" for name in dict.fromkeys(form.mnemonic for form in forms))


def page(table: Table) -> str:
    parts = [HEAD]
    for chapter, members in itertools.groupby(table.forms, key=lambda form: form.chapter):
        parts.append(f"\n## {chapter}\n")
        for section, found in itertools.groupby(members, key=lambda form: form.section):
            forms = list(found)
            parts.append(f"\n[{title(forms)}]({MANUAL}#{section})\n\n```text\n")
            parts.extend(row(form) + "\n" for form in forms)
            parts.append("```\n")
    return "".join([*parts, FUNCTIONS])


def main() -> None:
    Path(sys.argv[1]).write_text(page(read()))


if __name__ == "__main__":
    main()
