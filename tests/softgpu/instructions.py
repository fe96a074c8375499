"""The software GPU's table of instructions, and programs of one instruction of each of its forms."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDER = Path(__file__).parents[2] / "remoting/native/softgpu/instructions"


def loaded(name: str) -> ModuleType:
    """A module of the table's folder, which is no package: the build runs it with a bare Python."""
    spec = importlib.util.spec_from_file_location(f"instructions_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


table = loaded("table")
TABLE = table.read()
Form = Any  # table.Form, which no type checker can see
# The words that stand for whatever begins so, as programs write them.
OPEN = {"L1::*": "L1::evict_last", "L2::*": "L2::128B", "*": ""}


def sample(form: Form) -> Iterator[tuple[str, dict[str, str]]]:
    """Opcodes of the form in which each modifier stands, and is missing where it may be; not all of them."""
    choices = []
    for group in form.groups:
        words = [OPEN.get(a.written, a.written) for a in group.alternatives]
        choices.append(["", *filter(None, words)] if group.optional else words)
    longest = max((len(words) for words in choices), default=1)
    seen = set()
    for i in range(2 * longest):
        chosen = [
            words[(i + i // len(words) * place) % len(words)] if words else ""
            for place, words in enumerate(choices)
        ]
        opcode = ".".join([form.mnemonic, *filter(None, chosen)])
        if opcode not in seen:
            seen.add(opcode)
            yield opcode, {group.name: word for group, word in zip(form.groups, chosen, strict=True) if word}


# A register of each type, declared by `kernel`.
REGISTERS = {
    **dict.fromkeys(("pred",), "%p1"),
    **dict.fromkeys(("b8", "u8", "s8", "b16", "u16", "s16", "f16", "bf16"), "%h1"),
    **dict.fromkeys(("b32", "u32", "s32", "f16x2", "bf16x2", "u16x2", "s16x2", "tf32"), "%r1"),
    **dict.fromkeys(("b64", "u64", "s64"), "%rd1"),
    **{"f32": "%f1", "f64": "%fd1", "b128": "%q1", "e4m3x2": "%h1", "e5m2x2": "%h1"},
}
DOUBLED = {"u16": "%r1", "s16": "%r1", "u32": "%rd1", "s32": "%rd1"}


def generic(form: Form, words: dict[str, str]) -> str:
    """Operands of a form that is picked by its operands."""
    shown = []
    for operand in form.operands:
        kind = form.groups[operand.kind].name if isinstance(operand.kind, int) else operand.kind
        kind = words.get(kind, kind)
        if operand.field == "imm":
            shown.append("0x96")
        else:
            shown.append(DOUBLED[kind] if operand.doubled else REGISTERS[kind])
    return ", ".join(shown)


def types(opcode: str) -> list[str]:
    return [word for word in opcode.split(".") if word in table.BITS or word in table.OTHER_TYPES]


def several(count: int, kind: str) -> str:
    return "{" + ", ".join([REGISTERS[kind]] * count) + "}" if count > 1 else REGISTERS[kind]


def of_one_type(count: int) -> Callable[[str], str]:
    return lambda opcode: ", ".join([REGISTERS[types(opcode)[-1]]] * count)


def joined(before: str) -> Callable[[str], str]:
    """Comparisons: a third predicate where there is logic."""

    def shown(opcode: str) -> str:
        found = types(opcode)
        logic = bool({"and", "or", "xor"} & set(opcode.split(".")))
        first = before or REGISTERS[found[0]]
        return f"{first}, {REGISTERS[found[-1]]}, {REGISTERS[found[-1]]}" + (", %p2" if logic else "")

    return shown


def accessed(opcode: str) -> tuple[str, str]:
    words = opcode.split(".")
    count = 4 if "v4" in words else 2 if "v2" in words else 1
    place = "[%rd2]"
    if "shared" in words or "shared::cta" in words or "shared::cluster" in words:
        place = "[shared]"
    elif "local" in words:
        place = "[mine]"
    elif any(word.startswith("param") for word in words):
        place = "[in]" if words[0] == "ld" and types(opcode)[-1] != "b128" and count == 1 else "[%rd2]"
    return several(count, types(opcode)[-1]), place


def load(opcode: str) -> str:
    return ", ".join(accessed(opcode))


def store(opcode: str) -> str:
    return ", ".join(reversed(accessed(opcode)))


def atomic(opcode: str) -> str:
    register, place = accessed(opcode)
    returns = [register] if opcode.startswith("atom") else []
    return ", ".join([*returns, place, *[register] * (2 if ".cas" in opcode else 1)])


def converted(opcode: str) -> str:
    to, source = types(opcode)[-2:]
    two = source == "f32" and to.endswith("x2")
    return ", ".join([REGISTERS[to], *[REGISTERS[source]] * (2 if two else 1)])


def matrix(opcode: str) -> str:
    """Fragments of a product: as many registers as a lane has of each."""
    shape = next(
        table.re.fullmatch(r"m(\d+)n(\d+)k(\d+)", w)
        for w in opcode.split(".")
        if w.startswith("m") and "k" in w
    )
    m, n, k = (int(part) for part in shape.groups())
    found = types(opcode)
    bits = {"tf32": 32, "b1": 1, "u4": 4, "s4": 4}
    wide = [bits.get(kind) or table.BITS[kind] for kind in found]
    kept = [kind if kind in ("f32", "f64") else "b32" for kind in found]

    def fragment(elements: int, place: int) -> str:
        return several(elements // 32 if wide[place] == 64 else elements * wide[place] // 1024, kept[place])

    if opcode.startswith("wmma") and len(found) == 2:
        return ", ".join([fragment(m * n, 0), several(8, "b32"), several(8, "b32"), fragment(m * n, 1)])
    return ", ".join([fragment(m * n, 0), fragment(m * k, 1), fragment(k * n, 2), fragment(m * n, 3)])


def moved(opcode: str) -> str:
    """wmma.load and wmma.store."""
    words = opcode.split(".")
    m, n, k = (
        int(x) for x in table.re.findall(r"\d+", next(w for w in words if w.startswith("m") and "k" in w))
    )
    kind, part = words[-1], words[2]
    elements = m * k if part == "a" else k * n if part == "b" else m * n
    count = 8 if part in "ab" and kind == "f16" else elements * table.BITS[kind] // 1024
    registers = several(count, kind if kind == "f32" else "b32")
    place = "[shared]" if any(word.startswith("shared") for word in words) else "[%rd2]"
    return f"{registers}, {place}" if words[1] == "load" else f"{place}, {registers}"


# Coordinates of each geometry, with the layer before them.
PLACES = {
    "1d": ["f"],
    "2d": ["f", "f"],
    "3d": ["f", "f", "f", "f"],
    "a1d": ["r", "f"],
    "a2d": ["r", "f", "f", "f"],
    "cube": ["f", "f", "f", "f"],
    "acube": ["r", "f", "f", "f"],
}


def coordinates(opcode: str, *, whole: bool) -> str:
    kinds = next(PLACES[word] for word in opcode.split(".") if word in PLACES)
    return "{" + ", ".join("%r1" if whole else f"%{kind}1" for kind in kinds) + "}"


def texture(opcode: str) -> str:
    """tex and tld4."""
    words = opcode.split(".")
    whole = words[-1] == "s32"
    place = coordinates(opcode, whole=whole)
    more = {"level": ", %r1" if whole else ", %f1", "grad": ", {C}, {C}"}.get(words[1], "")
    changes = ", ".join(["%f1"] * (1 if "1d" in opcode else 2 if "2d" in opcode else 4))
    results = several(2 if "v2" in words else 4, words[-2])
    return f"{results}, [%rd2, {place}]{more}".replace("C", changes)


def surface(opcode: str) -> str:
    words = opcode.split(".")
    kind = types(opcode)[-1]
    count = 4 if "v4" in words else 2 if "v2" in words else 1
    registers, place = "{" + ", ".join([REGISTERS[kind]] * count) + "}", coordinates(opcode, whole=True)
    if words[0] == "sured":
        registers = REGISTERS[kind]
    parts = [registers, f"[%rd2, {place}]"]
    return ", ".join(parts if words[0] == "suld" else reversed(parts))


def video(opcode: str) -> str:
    more = bool({"add", "min", "max"} & set(opcode.split(".")[1:]))
    return ", ".join(["%r1"] * (4 if more else 3))


def barrier(opcode: str) -> str:
    return "0, 32" if "arrive" in opcode else "0"


# By the pick, what an opcode's operands may be. The others have none.
OPERANDS: dict[str, Callable[[str], str]] = {
    "mad_with_carry": of_one_type(4),
    "mad24": of_one_type(4),
    "signed_extreme": of_one_type(3),
    "halves": of_one_type(2),
    "lop3": lambda _: "%r1|%p1, %r1, %r1, %r1, 0x96, %p2",
    "set": joined(""),
    "set_pair": joined("%r1"),
    "setp": joined("%p1|%p2"),
    "setp_pair": joined("%p1|%p2"),
    "mov": of_one_type(2),
    "cvta": lambda _: "%rd1, %rd1",
    "convert_integer": converted,
    "convert_clamped": converted,
    "convert_any": converted,
    "shfl": lambda opcode: "%r1|%p1, %r1, %r2, 31" + (", -1" if ".sync" in opcode else ""),
    "ld": load,
    "st": store,
    "atom": atomic,
    "red": atomic,
    "wide_atom": atomic,
    "policy": lambda _: "%rd1, 1.0",
    "copy": lambda opcode: "[shared], [%rd2], 16" + (", 16, %rd1" if "L2" in opcode else ""),
    "copy_wait": lambda _: "0",
    "wmma_move": moved,
    "wmma_multiply": matrix,
    "mma": matrix,
    "ldmatrix": lambda opcode: several(int(table.re.search(r"\.x(\d)", opcode)[1]), "b32") + ", [shared]",
    "texture": texture,
    "gather": texture,
    "texture_query": lambda opcode: "%r1, [%rd2]" + (", %r1" if ".level" in opcode else ""),
    "surface_access": surface,
    "surface_reduction": surface,
    "video": video,
    "video_mad": lambda _: "%r1, %r1, %r1, %r1",
    "video_parts": lambda _: "%r1, %r1, %r1, %r1",
    "match": lambda opcode: f"%r1, {REGISTERS[types(opcode)[-1]]}, -1",
    "barrier": barrier,
    "barrier_red": lambda opcode: ("%r1" if ".popc" in opcode else "%p1") + ", 0, %p2",
    "warp_barrier": lambda _: "-1",
    "nothing": lambda opcode: "[%rd2]" if opcode.startswith(("prefetch", "applypriority", "discard")) else "",
    "branch": lambda _: "END",
    "branch_table": lambda _: "%r1, TARGETS",
    "call": lambda _: "called",
    "nanosleep": lambda _: "0",
}


# Picks that refuse what they are given, and what they say.
REFUSING = {
    "multimem": "software GPUs have no multicast objects",
    "no_texture": "of textures and surfaces, what CUDA C\\+\\+ compiles to is supported",
}


DECLARED = """
.reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<4>; .reg .b64 %rd<4>;
.reg .f32 %f<4>; .reg .f64 %fd<4>; .reg .b128 %q<4>;
.shared .align 16 .b8 shared[64]; .local .align 16 .b8 mine[64];
ld.param.u64 %rd2, [in];
"""


def statements(form: Form, opcodes: Iterable[tuple[str, dict[str, str]]], guard: str = "") -> list[str]:
    """Each of the opcodes once, with operands that it may have."""
    lines = []
    for opcode, words in opcodes:
        shown = generic(form, words) if not form.pick else OPERANDS.get(form.pick, lambda _: "")(opcode)
        lines.append(f"{guard}{opcode} {shown};")
    return lines


def kernel(name: str, form: Form, opcodes: list[tuple[str, dict[str, str]]]) -> str:
    """A kernel that has each of the opcodes once, where no lane goes: it is to load, and means nothing."""
    lines = [
        f".visible .entry {name}(.param .u64 in) {{{DECLARED}",
        "setp.ne.u64 %p3, %rd2, 0;",
        "@%p3 bra END;",
        "TARGETS: .branchtargets END;",
        *statements(form, opcodes),
        "END: ret;",
        "}",
    ]
    return "\n".join(lines)


# Registers that instructions write, with what they hold before, and how a lane's is stored.
HELD = {"%r1": "b32", "%h1": "b16", "%rd1": "b64", "%f1": "f32", "%fd1": "f64"}


def guarded_kernel(name: str, forms: list[Form]) -> str:
    """All opcodes under a guard that no lane has; `in` gets what registers hold then, 8 bytes each."""
    lines = [
        f".visible .entry {name}(.param .u64 in) {{{DECLARED}",
        "setp.eq.u64 %p0, %rd2, 0;",
        "setp.eq.u64 %p1, %rd2, 0; setp.eq.u64 %p2, %rd2, 0;",
        "mov.b128 %q1, {%rd2, %rd2};",
        *(f"mov.{kind} {register}, {7 if kind[0] == 'b' else '7.0'};" for register, kind in HELD.items()),
        "TARGETS: .branchtargets END;",
    ]
    for form in forms:
        lines += statements(form, sample(form), "@%p0 ")
    lines += [
        f"st.global.{kind} [%rd2+{8 * place}], {reg};" for place, (reg, kind) in enumerate(HELD.items())
    ]
    lines += ["selp.b32 %r3, 1, 0, %p1;", f"st.global.b32 [%rd2+{8 * len(HELD)}], %r3;", "END: ret;", "}"]
    return "\n".join(lines)


HEAD = ".version 8.5\n.target sm_90\n.address_size 64\n.func called() { ret; }\n"
