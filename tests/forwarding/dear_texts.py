"""PTX whose loading takes much memory for its size: a text of each kind, as large as is asked for."""

from __future__ import annotations

from collections.abc import Callable

HEAD = ".version 8.0\n.target sm_75\n.address_size 64\n"
KERNEL = HEAD + ".visible .entry k() {\n.reg .u32 a, b; .reg .u64 q; .reg .pred p;\n"
CALLED = ".func f() { ret; }\n.func (.reg .u32 r) g(.reg .u32 s) { ret; }\n"
CALLS = HEAD + CALLED + ".visible .entry k() {\n.reg .u32 a; .reg .pred p;\n"


def _repeated(before: str, unit: str, after: str = "ret; }\n", most: int = 1 << 30) -> Callable[[int], str]:
    return lambda size: before + unit * min(size // len(unit), most) + after


def _numbered(before: str, unit: str, after: str = "ret; }\n", most: int = 1 << 30) -> Callable[[int], str]:
    def text(size: int) -> str:
        count = min(size // len(unit.format(0)), most)
        return before + "".join(unit.format(i) for i in range(count)) + after

    return text


DEAR: dict[str, Callable[[int], str]] = {
    "additions": _repeated(KERNEL, "add.u32 a, a, 1;\n"),
    "returns": _repeated(KERNEL, "ret;"),
    "guarded returns": _repeated(KERNEL, "@p ret;"),
    "exits": _repeated(KERNEL, "exit;"),
    "barriers": _repeated(KERNEL, "bar.sync 0;"),
    "moves": _repeated(KERNEL, "mov.u32 a,1;"),
    "complements": _repeated(KERNEL, "not.b32 a,a;"),
    "divisions": _repeated(KERNEL, "div.u64 q,q,q;"),
    "remainders": _repeated(KERNEL, "rem.s64 q,q,q;"),
    "two predicates": _repeated(KERNEL, "setp.eq.u32 p|p,a,b;"),
    "vectors": _repeated(KERNEL, "ld.v4.b32 {a,b,a,b},[q];"),
    "matrices": _repeated(KERNEL, "wmma.load.a.sync.aligned.row.m16n16k16.f16 {a,a,a,a,a,a,a,a},[q];"),
    "branches": _repeated(KERNEL, "@p bra M;", "M: ret; }\n", 5000),
    "short branches": _numbered(KERNEL, "@p bra L{0:06d};L{0:06d}:"),
    "labels": _numbered(KERNEL, "L{:07d}:"),
    "registers": _numbered(KERNEL, ".reg .u32 x{:07d};"),
    "calls": _repeated(CALLS, "call f;"),
    "guarded calls": _repeated(CALLS, "@p call f;"),
    "calls with results": _repeated(CALLS, "call (a),g,(a);"),
    "source lines": _repeated(KERNEL.replace(".visible", '.file 1 "a"\n.visible'), ".loc 1 1 1\nret;"),
    "functions": _numbered(HEAD, ".func f{:07d}(){{ret;}}", "", 30_000),
    "kernels": _numbered(HEAD, ".entry k{:07d}(){{ret;}}", "", 30_000),
    "parameters": _numbered(HEAD, ".entry k{:07d}(.param.u8 a,.param.u8 b){{ret;}}", "", 20_000),
    "shared variables": _numbered(KERNEL, ".shared .b8 x{:07d};"),
    "addresses in a table": _repeated(HEAD + ".global .u64 q; .global .u64 g[]={", "q,", "q};\n"),
    "numbers in a table": _repeated(HEAD + ".global .u64 g[]={", "1,", "1};\n"),
    "what is no instruction": _repeated(KERNEL, "x;"),
    "operands that are too many": _repeated(KERNEL, "add.u32 " + "a," * 16 + "a;"),
    "braces": _repeated(KERNEL, "{}"),
}
