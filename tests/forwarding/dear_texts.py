"""PTX as large as is asked for: whose loading takes much memory for its size, a text of each kind, and as
compilers make it of a library's many kernels."""

from __future__ import annotations

from collections.abc import Callable

HEAD = ".version 8.3\n.target sm_90\n.address_size 64\n"
NAMES = ".reg .u32 a, b; .reg .u64 q; .reg .b16 h; .reg .pred p; .reg .b128 w;\n"
CALLED = ".func f() { ret; }\n.func (.reg .u32 r) g(.reg .u32 s) { ret; }\n"

STATEMENTS = {
    "additions": "add.u32 a, a, 1;\n",
    "returns": "ret;",
    "guarded returns": "@p ret;",
    "exits": "exit;",
    "barriers": "bar.sync 0;",
    "moves": "mov.u32 a,1;",
    "moves of numbers": "mov.u32 a,{0};",
    "complements": "not.b32 a,a;",
    "divisions": "div.u64 q,q,q;",
    "remainders": "rem.s64 q,q,q;",
    "two predicates": "setp.eq.u32 p|p,a,b;",
    "vectors": "ld.v4.b32 {{a,b,a,b}},[q];",
    "matrices": "wmma.load.a.sync.aligned.row.m16n16k16.f16 {{a,a,a,a,a,a,a,a}},[q];",
    "branches to one label": "@p bra M;",
    "short branches": "@p bra L{0:06d};L{0:06d}:",
    "labels": "L{0:07d}:",
    "registers": ".reg .u32 x{0:07d};",
    "ranges of registers": ".reg .b32 %r<1000000>;add.u32 %r{0},%r{0},%r{0};",
    "narrow loads": "@p ld.v4.u8 {{q,q,q,q}},[q];",
    "narrow stores": "@p st.v4.u8 [q],{{q,q,q,q}};",
    "halves": "@p mov.b64 {{a,b}},q;",
    "logic of predicates": "@p setp.eq.and.u32 p|p,a,b,!p;",
    "sets": "@p set.eq.and.u32.u32 a,a,b,!p;",
    "narrow conversions": "@p cvt.u8.u8 q,q;",
    "narrow atomics": "@p atom.add.u32 q,[q],q;",
    "carries": "@p madc.hi.cc.u32 a,a,b,a;",
    "wide registers": "@p mov.b128 w,w;",
    "pairs of halves": "@p setp.eq.and.f16x2 p|p,a,b,!p;",
    "signs": "@p min.xorsign.abs.f16x2 a,a,b;",
    "four halves": "@p mov.b64 {{h,h,h,h}},q;",
    "volatile loads": "@p ld.volatile.shared.s32 q,[a];",
    "copies on their way": "@p cp.async.cg.shared.global [a],[q],16,p;",
    "parts": "@p vset4.u32.u32.eq a,a,b,a;",
    "reductions at barriers": "@p bar.red.popc.u32 a,0,32,!p;",
    "shuffles": "@p shfl.sync.up.b32 a|p,a,1,0,-1;",
    "matches": "@p match.all.sync.b32 a|p,b,-1;",
    "calls": "call f;",
    "guarded calls": "@p call f;",
    "calls with results": "call (a),g,(a);",
    "source lines": ".loc 1 1 1\nret;",
    "shared variables": ".shared .b8 x{0:07d};",
    "global variables": ".global .b8 x{0:07d};",
    "what is no instruction": "x;",
    "operands that are too many": "add.u32 " + "a," * 16 + "a;",
    "braces": "{{}}",
}


def _repeated(before: str, unit: str, after: str = "ret; }\n", most: int = 1 << 30) -> Callable[[int], str]:
    return lambda size: before + unit * min(size // len(unit), most) + after


def _numbered(before: str, unit: str, after: str = "ret; }\n", most: int = 1 << 30) -> Callable[[int], str]:
    def text(size: int) -> str:
        count = min(size // len(unit.format(0)), most)
        return before + "".join(unit.format(i) for i in range(count)) + after

    return text


def _in_one_kernel(statement: str, most: int = 1 << 30) -> Callable[[int], str]:
    return _numbered(
        HEAD + '.file 1 "a"\n' + CALLED + ".visible .entry k() {\n" + NAMES, statement, "M: ret; }\n", most
    )


def _in_functions(statement: str, each: int) -> Callable[[int], str]:
    """So many of it in each function, so that what stays of them is more than what one takes."""

    def text(size: int) -> str:
        count = min(size // (len(NAMES) + 24 + len(statement.format(0)) * each), 16_000)
        functions = (
            f".func h{i}() {{\n{NAMES}{''.join(statement.format(n) for n in range(each))}M: ret; }}\n"
            for i in range(count)
        )
        return HEAD + '.file 1 "a"\n' + CALLED + "".join(functions)

    return text


def _with_many_results(statement: str) -> Callable[[int], str]:
    """One function that gives as many values as it may, of which each return reads all."""
    results = ",".join(f".reg .b32 r{number}" for number in range(4096))
    return _repeated(f"{HEAD}.func ({results}) f() {{\n.reg .pred p;\n", statement)


def _by_a_table(targets: int, labels: int, branches: str) -> Callable[[int], str]:
    """Functions of some 20 KB, each with as many branches through its table as may have 2**20 targets
    together; its targets are so many labels."""
    table = ",".join(f"L{number % labels}" for number in range(targets))
    body = f"{NAMES}T: .branchtargets {table};\n{branches}ret; }}\n"
    return _numbered(HEAD, ".func f{:07d}() {{\n" + body.replace("}", "}}"), "")


DEAR: dict[str, Callable[[int], str]] = {
    **{kind: _in_one_kernel(statement) for kind, statement in STATEMENTS.items()},
    **{f"{kind} in functions": _in_functions(statement, 300) for kind, statement in STATEMENTS.items()},
    **{
        f"few {kind} in functions": _in_functions(STATEMENTS[kind], 3)
        for kind in ("additions", "guarded calls", "global variables")
    },
    "returns of many values": _with_many_results("ret;"),
    "guarded returns of many values": _with_many_results("@p ret;"),
    "branches through a table to one label": _by_a_table(2048, 1, "@p brx.idx a,T;" * 512 + "L0:"),
    "branches through a table to many labels": _by_a_table(
        2048, 1024, "@p brx.idx a,T;" * 512 + "".join(f"L{number}:bar.sync 0;" for number in range(1024))
    ),
    "branches through a table to each other": _by_a_table(
        1024, 1024, "".join(f"L{number}:brx.idx a,T;" for number in range(1024))
    ),
    "functions": _numbered(HEAD, ".func f{:07d}(){{ret;}}", "", 16_000),
    "kernels": _numbered(HEAD, ".entry k{:07d}(){{ret;}}", "", 16_000),
    "parameters": _numbered(HEAD, ".entry k{:07d}(.param.u8 a,.param.u8 b){{ret;}}", "", 16_000),
    "addresses in a table": _repeated(HEAD + ".global .u64 q; .global .u64 g[]={", "q,", "q};\n"),
    "numbers in a table": _repeated(HEAD + ".global .u64 g[]={", "1,", "1};\n"),
}

LINES = """\
	ld.param.u64 	%rd{0}, [{1}_param_0];
	cvta.to.global.u64 	%rd{0}, %rd{0};
	mul.wide.s32 	%rd{0}, %r{0}, 8;
	ld.global.nc.f64 	%fd{0}, [%rd{0}+64];
	shr.u32 	%r{0}, %r{0}, 31;
	setp.lt.s32 	%p1, %r{0}, {0};
	@%p1 bra 	$L__BB{0};
	fma.rn.f64 	%fd{0}, %fd{0}, %fd1, 0d3FF0000000000000;
	shfl.sync.down.b32 	%r{0}|%p1, %r{0}, 16, 31, -1;
	ld.shared.v2.f64 	{{%fd{0}, %fd1}}, [shared];
$L__BB{0}:
	st.shared.f64 	[shared+128], %fd{0};
"""


def library(size: int) -> str:
    """Kernels of some 53 KB each, with names as C++'s templates have them."""
    made = [HEAD]
    for number in range(size // 53_000):
        name = f"_ZN7library6detail{number}kernelINS_6policyILi800EEEPdPKdiNS_3sumEEEvT0_T1_T2_T3_"
        made.append(
            f".visible .entry {name}(\n\t.param .u64 {name}_param_0,\n\t.param .u32 {name}_param_1\n)\n{{\n"
            "\t.reg .pred %p<4>;\n\t.reg .b32 %r<999>;\n\t.reg .b64 %rd<999>;\n\t.reg .f64 %fd<999>;\n"
            "\t.shared .align 8 .b8 shared[256];\n"
        )
        made += [LINES.format(part + 2, name) for part in range(110)]
        made.append("\tret;\n\n}\n")
    return "".join(made)
