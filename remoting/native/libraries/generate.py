"""What a library's functions.txt is made into: messages, the check of their operands, and all ends of a call.

``generate.py LIBRARY FOLDER`` writes LIBRARY_messages.h, LIBRARY_exports.cc, LIBRARY_operands.cc,
LIBRARY_cpu.inc, LIBRARY_families.inc and LIBRARY_nvidia.inc into FOLDER. functions.txt says at its head what
its lines mean; C++ that its conditions and extents use beside extents.h lies in headers beside it, whose
names end in rules.h.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).parent
_BANNER = "// Made by libraries/generate.py from {}/functions.txt.\n"
_TYPES = {
    **dict.fromkeys(("S", "s"), "kF32"),
    **dict.fromkeys(("D", "d"), "kF64"),
    **dict.fromkeys(("C", "c", "Sc", "Cs"), "kC32"),
    **dict.fromkeys(("Z", "z", "Dz", "Zd"), "kC64"),
    "H": "kF16",
}
_LENGTHS = {"size", "count", "step", "lead"}  # of 64 bits in the form that has them
_MEMORY = {"in": "kRead", "out": "kWrite", "change": "kChange", "optional": "kChange", "within": "kChange"}
_MEMORY |= {"answer": "kWrite"}
_PLACED = {"given": "kRead", "result": "kWrite", "state": "kChange"}
_PARAMETER = re.compile(r"^(?P<kind>\w+)(?:\[(?P<type>[^\]]+)\])?:(?P<name>[\w.]+)(?:=(?P<extent>.+))?$")
_CONDITIONS = ("valid(", "supported(", "limits(")
_CHECKED = {"op", "fill", "side", "diag", "order", "job", "letter", "direction", "base"}
_ROOMS = {  # where NVIDIA's library works: what a program passes, and what that library is given
    "room": ("void* {0}, int {0}_count", "void*, int", "call.room(), call.room_elements()"),
    "rooms": (
        "void* {0}, size_t {0}_bytes, void* host_{0}, size_t host_{0}_bytes",
        "void*, size_t, void*, size_t",
        "call.room(), call.room_bytes(), call.host_room(), call.host_room_bytes()",
    ),
    "place": ("void* {0}", "void*", "call.room()"),
    "unused": ("void* {0}", "void*", "static_cast<void*>(nullptr)"),
    "object": ("void* {0}", "void*", "call.params()"),
}
_SETTINGS = {"syevj", "gesvdj"}
_NOT_NEGATIVE = {"size", "bytes"}
# Descriptors travel by value, as these structures of LIBRARY/rules.h; each has a letter in fields_of.
_OF_CUDNN = {
    "tensor": "Tensor",
    "filter": "Filter",
    "convolution": "Convolution",
    "pooling": "Pooling",
    "activation": "Activation",
    "lrn": "Lrn",
    "optensor": "OpTensor",
    "reduction": "Reduction",
    "dropout": "Dropout",
    "rnn": "Rnn",
    "rnndata": "RnnData",
    "ctc": "Ctc",
    "transformer": "Transformer",
}
_HOLDERS = {"sparse": "Sparse", "dense": "Dense", "vector": "Vector", "entries": "Entries"}  # of memory
_DESCRIPTORS = {**_OF_CUDNN, **_HOLDERS, "matdescr": "MatDescr"}
_LETTERS = {"tensor": "T", "filter": "F", "convolution": "C", "pooling": "P", "activation": "A"}
_LETTERS |= {"lrn": "L", "optensor": "O", "reduction": "R"}
_LETTERS |= {"dropout": "D", "rnn": "N", "rnndata": "S", "ctc": "K", "transformer": "G"}
_LETTERS |= {"sparse": "S", "dense": "D", "vector": "V", "entries": "E", "matdescr": "M"}
_SENT_AS = {"scalar": "Scalar", **dict.fromkeys(_SETTINGS, "Settings"), "real": "double", **_DESCRIPTORS}


class ListError(Exception):
    """A line of functions.txt cannot be read."""


@dataclass(frozen=True)
class Parameter:
    kind: str
    name: str
    type: str
    extent: str

    @property
    def declared(self) -> str:
        """Its type in the message."""
        return _SENT_AS.get(self.kind, "uint64_t" if self.is_pointer else "int64_t")

    @property
    def is_pointer(self) -> bool:
        return self.kind in (*_MEMORY, *_PLACED, *_SETTINGS, "arrays", "scalar", "info")

    @property
    def letter(self) -> str:
        """In `fields_of`."""
        if self.kind in _DESCRIPTORS:
            return _LETTERS[self.kind]
        if self.kind == "real":
            return "n"
        if self.declared != "int64_t":
            return "s" if self.kind in _SENT_AS else "a"
        return {"type": "t", "compute": "c"}.get(self.kind, "o" if self.kind in _CHECKED else "n")

    def in_c(self, wide: bool) -> str:
        if self.is_pointer:
            return "void*" if self.kind != "scalar" else "const void*"
        if self.kind in _DESCRIPTORS:
            return "void*"
        plain = {"stride": "long long", "letter": "signed char", "bytes": "size_t", "real": "double"}
        if self.kind in plain:
            return plain[self.kind]
        return "int64_t" if wide and self.kind in _LENGTHS else "int"


@dataclass(frozen=True)
class Function:
    name: str
    type: str
    wide: bool  # a form with integers of 64 bits is there too
    wide_alone: bool = False  # and it alone, under this name
    by_hand: bool = False  # what is exported, and what NVIDIA's library is called with

    @property
    def forms(self) -> list[tuple[str, bool]]:
        """Names, and whether their integers have 64 bits."""
        if self.wide_alone:
            return [(self.name, True)]
        return [(self.name, False), *([(self.name + "_64", True)] if self.wide else [])]


@dataclass(frozen=True)
class Family:
    name: str
    functions: tuple[Function, ...]
    parameters: tuple[Parameter, ...]
    valid: tuple[str, ...]  # conditions of a call that goes together
    supported: tuple[str, ...]
    limits: tuple[str, ...]  # calls of functions that take a Look first
    buffer: tuple[str, ...] = ()  # what the question for the size of its room takes
    asks: str = "_bufferSize"  # how that question's name ends

    @property
    def sent(self) -> list[Parameter]:
        return [p for p in self.parameters if p.kind not in ("info", "within") and p.kind not in _ROOMS]

    @property
    def given(self) -> list[Parameter]:
        """What a program passes."""
        return [p for p in self.parameters if p.kind != "within"]

    @property
    def letters(self) -> str:
        return "".join(parameter.letter for parameter in self.sent)

    def over(self, message: str, expression: str) -> str:
        """C++ over the fields of `message`."""
        names = {parameter.name for parameter in self.parameters}
        text = re.sub(
            r"(?<![.\w])[A-Za-z]\w*", lambda m: f"{message}.{m[0]}" if m[0] in names else m[0], expression
        )
        return re.sub(rf"\bzero\({message}\.(\w+)\)", r'look.zero("\1")', text)


def _parameter(text: str) -> Parameter:
    match = _PARAMETER.match(text)
    if not match:
        raise ListError(f"cannot read the parameter {text}")
    return Parameter(match["kind"], match["name"], match["type"] or "T", match["extent"] or "")


def _functions(text: str) -> list[Function]:
    functions = []
    for pattern in re.split(r",(?![^{]*\})", text):
        name, wide, alone = pattern.rstrip("+^!"), pattern[-1] in "+^", pattern.endswith("^")
        by_hand = pattern.endswith("!")
        match = re.search(r"\{(.*)\}", name)
        if not match:
            functions.append(Function(name, "kNoType", wide, alone, by_hand))
            continue
        for letters in match[1].split(","):
            named = name.replace(match[0], letters)
            functions.append(Function(named, _TYPES[letters], wide, by_hand=by_hand))
    return functions


def _conditions(words: list[str], kind: str) -> tuple[str, ...]:
    return tuple(word[len(kind) : -1] for word in words if word.startswith(kind))


def read(text: str) -> list[Family]:
    families = []
    for line in text.splitlines():
        words = line.split("#")[0].split()
        if not words:
            continue
        name, functions, *rest = words
        valid, supported, limits = (_conditions(rest, word) for word in _CONDITIONS)
        buffer, asks = [], "_bufferSize"
        for start, end in {"buffer(": "_bufferSize", "buffer_ext(": "_bufferSizeExt"}.items():
            for part in _conditions(rest, start):
                buffer, asks = part.split(","), end
        parameters = [_parameter(word) for word in rest if not word.startswith((*_CONDITIONS, "buffer"))]
        conditions = (valid, supported, limits)
        families.append(
            Family(name, tuple(_functions(functions)), tuple(parameters), *conditions, tuple(buffer), asks)
        )
    return families


def _numbered(families: list[Family]) -> list[tuple[int, Family, Function]]:
    each = [(family, function) for family in families for function in family.functions]
    return [(number, family, function) for number, (family, function) in enumerate(each)]


def messages(library: str, families: list[Family]) -> str:
    lines = [_BANNER.format(library), '#pragma once\n#include "operands.h"\n']
    lines += [f'#include "{library}/{rules.name}"\n' for rules in sorted((_HERE / library).glob("*rules.h"))]
    lines.append("\n")
    lines.append(f"namespace maths::{library} {{\n\nenum Function : uint16_t {{\n")
    lines += [f"    k_{function.name} = {number},\n" for number, _, function in _numbered(families)]
    lines.append(f"    kFunctions = {len(_numbered(families))},\n}};\n\n")
    for family in families:
        lines.append(f"struct {family.name} {{\n")
        lines += [f"    {parameter.declared} {parameter.name};\n" for parameter in family.sent]
        lines.append("};\n")
    lines.append("\n// Null for a number that no function has.\n")
    lines.append("const char* name_of(uint16_t function);\n\n")
    lines.append(
        "// What the arguments of a function are, a letter each: a address, s scalar, c compute type,\n"
    )
    lines.append("// o of a few values (operation, fill, side, diagonal, order), t type, n another number;\n")
    lines.append(f"// descriptors: {', '.join(f'{_LETTERS[kind]} {kind}' for kind in _DESCRIPTORS)}.\n")
    lines.append("const char* fields_of(uint16_t function);\n\n")
    lines.append("// Shows the operands of a call to `look`. `arguments`: the structure of its family.\n")
    lines.append("Fit look_at(uint16_t function, void* arguments, size_t bytes, Look& look);\n\n")
    lines.append(f"}}  // namespace maths::{library}\n")
    return "".join(lines)


def _shown(family: Family, parameter: Parameter) -> list[str]:
    """What shows an operand to who looks."""
    name, element = parameter.name, _element(family, parameter)
    if parameter.kind == "scalar":
        return [f'    look.scalar("{name}", m.{name}, {element});\n']
    if parameter.kind in _HOLDERS:
        return [f'    show(look, "{name}", m.{name}, Holds::{parameter.type});\n']
    if parameter.kind in _SETTINGS or not parameter.extent:
        return []
    where = f'"{name}", m.{name}, {element}, {family.over("m", parameter.extent)}'
    if parameter.kind == "arrays":
        return [f"    look.arrays({where}, m.batch);\n"]
    access = {**_MEMORY, **_PLACED}[parameter.kind]
    call = f"look.memory({where}, Access::{access});\n"
    return [f"    if (m.{name} != 0) {call}" if parameter.kind == "optional" else f"    {call}"]


def _look(family: Family) -> str:
    lines = [f"Fit look_at({family.name}& m, [[maybe_unused]] Type T, Look& look) {{\n"]
    lines.append("    [[maybe_unused]] const Type real = real_of(T), index = look.wide() ? kI64 : kI32;\n")
    lines.append("    [[maybe_unused]] constexpr Type integer = kI32;\n")
    if any(parameter.kind in _OF_CUDNN for parameter in family.parameters):
        # Their library has one form of integers, and takes scalars from the host.
        lines.append("    if (look.wide() || look.scalars_on_device()) return Fit::invalid;\n")
    known = [f"is_{p.kind}(m.{p.name})" for p in family.parameters if p.kind in _CHECKED]
    known += [f"m.{p.name} >= 0" for p in family.parameters if p.kind in _NOT_NEGATIVE]
    # An end that takes an int gets what was checked, whoever sends the call.
    for parameter in family.sent:
        if parameter.declared != "int64_t" or parameter.kind in _CHECKED | {"stride", "bytes"}:
            continue
        wide = "look.wide() || " if parameter.kind in _LENGTHS else ""
        known.append(f"({wide}is_int(m.{parameter.name}))" if wide else f"is_int(m.{parameter.name})")
    known += [f"are_settings(m.{p.name})" for p in family.parameters if p.kind in _SETTINGS]
    known += [f"({family.over('m', condition)})" for condition in family.valid]
    if known:
        holds = "\n          && ".join(known)
        lines.append(f"    if (!({holds})) return Fit::invalid;\n")
    if any(parameter.kind in _PLACED for parameter in family.parameters):
        lines.append("    if (!look.scalars_on_device()) return Fit::invalid;\n")
    for condition in family.supported:
        holds = family.over("m", condition)
        lines.append(f"    if (!({holds})) return Fit::unsupported;\n")
    lines += [f"    {_limit(family.over('m', limit))};\n" for limit in family.limits]
    # Values first: what of the others is looked at depends on them.
    for parameter in sorted(family.parameters, key=lambda p: p.kind != "scalar"):
        lines += _shown(family, parameter)
    lines.append("    return look.fit();\n}\n\n")
    return "".join(lines)


def _limit(call: str) -> str:
    """``f(x)`` as ``f(look, x)``: it refuses what the end that computes does not do so much of."""
    return call.replace("(", "(look, ", 1)


def _element(family: Family, parameter: Parameter, message: str = "m") -> str:
    if parameter.type in ("T", "real", "index"):
        return parameter.type
    if parameter.type in ("int", "long"):
        return "integer" if parameter.type == "int" else "kI64"
    if parameter.type == "byte":
        return "kI8"
    text = family.over(message, parameter.type)
    return f"as_type({text})" if "(" not in text else text


def operands(library: str, families: list[Family]) -> str:
    lines = [_BANNER.format(library), f'#include "{library}_messages.h"\n\n']
    lines.append('#include "extents.h"\n#include "software_limits.h"\n\n')
    lines.append(f"namespace maths::{library} {{\nnamespace {{\n\n")
    lines += [_look(family) for family in families]
    lines.append("}  // namespace\n\nconst char* name_of(uint16_t function) {\n")
    lines.append("    static constexpr const char* kNames[] = {\n")
    lines += [f'        "{function.name}",\n' for _, _, function in _numbered(families)]
    lines.append("    };\n    return function < kFunctions ? kNames[function] : nullptr;\n}\n\n")
    lines.append("const char* fields_of(uint16_t function) {\n")
    lines.append("    static constexpr const char* kFields[] = {\n")
    lines += [f'        "{family.letters}",\n' for _, family, _ in _numbered(families)]
    lines.append("    };\n    return function < kFunctions ? kFields[function] : nullptr;\n}\n\n")
    lines.append("Fit look_at(uint16_t function, void* arguments, size_t bytes, Look& look) {\n")
    lines.append("    switch (function) {\n")
    for _, family, function in _numbered(families):
        lines.append(f"        case k_{function.name}:\n")
        wide = "" if function.wide else " || look.wide()"
        wide = " || !look.wide()" if function.wide_alone else wide
        lines.append(f"            if (bytes != sizeof({family.name}){wide}) return Fit::invalid;\n")
        called = f"look_at(*static_cast<{family.name}*>(arguments), {function.type}, look)"
        lines.append(f"            return {called};\n")
    lines.append("        default:\n            return Fit::invalid;\n    }\n}\n\n")
    lines.append(f"}}  // namespace maths::{library}\n")
    return "".join(lines)


def _given(parameter: Parameter, wide: bool) -> str:
    if parameter.kind in _ROOMS:
        return _ROOMS[parameter.kind][0].format(parameter.name)
    return f"{parameter.in_c(wide)} {parameter.name}"


def _export(family: Family, function: Function, symbol: str, wide: bool) -> str:
    given = ", ".join(_given(parameter, wide) for parameter in family.given)
    lines = [f"MATHS_EXPORT int {symbol}(void* handle, {given}) {{\n"]
    lines.append(f"    OwnCall call(handle, k_{function.name}, {str(wide).lower()});\n")
    lines.append(
        f"    {family.name} message{{}};\n    [[maybe_unused]] constexpr Type T = {function.type};\n"
    )
    lines.append("    [[maybe_unused]] constexpr Type real = real_of(T);\n")
    lines.append(f"    [[maybe_unused]] constexpr Type index = {'kI64' if wide else 'kI32'};\n")
    placed = any(parameter.kind in _PLACED for parameter in family.parameters)
    later = []
    for parameter in family.given:
        name, element = parameter.name, _element(family, parameter, "message")
        if parameter.kind == "scalar":
            later.append(f"    call.scalar(message.{name}, {name}, {element});\n")
        elif parameter.kind in _PLACED:
            count = re.sub(r"one\(\)", "1", re.sub(r"exactly\((\d+)\)", r"\1", parameter.extent))
            access = _PLACED[parameter.kind]
            later.append(f"    call.placed(message.{name}, {name}, {element}, {count}, Access::{access});\n")
        elif parameter.kind == "answer":
            later.append(f"    call.answer(message.{name}, {name}, {element});\n")
        elif parameter.kind == "info":
            later.append(f"    call.info({name});\n")
        elif parameter.kind in _SETTINGS:
            later.append(f"    call.settings(message.{name}, {name});\n")
        elif parameter.kind in _ROOMS:
            continue
        elif parameter.is_pointer:
            lines.append(f"    message.{name} = reinterpret_cast<uint64_t>({name});\n")
        elif parameter.kind in _DESCRIPTORS:
            lines.append(f"    call.describe(message.{name}, {name});\n")
        elif parameter.kind == "bytes":
            lines.append(f"    message.{name} = static_cast<int64_t>({name});\n")
        else:
            lines.append(f"    message.{name} = {name};\n")
    lines += later
    fetches = placed or any(parameter.kind == "answer" for parameter in family.parameters)
    lines.append(
        f"    return call.{'send_and_fetch' if fetches else 'send'}(&message, sizeof message);\n}}\n\n"
    )
    return "".join(lines)


_ANSWERS = {
    "*": "int* count",
    "**": "size_t* bytes, size_t* host_bytes",
    "size": "size_t* bytes",
}


def _buffer_export(family: Family, symbol: str, type_: str, wide: bool) -> str:
    """No end needs the program's room. What a call would refuse is refused where the question says it; but
    not a leading dimension, which programs give when they call (CuPy asks for its room with another).
    """
    of = {parameter.name: parameter for parameter in family.parameters}
    asked = [of[word] for word in family.buffer if word in of]
    # What a descriptor says is looked at when it is used.
    unsaid = (set(of) - set(family.buffer)) | {p.name for p in asked if p.kind in _DESCRIPTORS}

    def said(expressions: Iterable[str]) -> list[str]:
        return [e for e in expressions if unsaid.isdisjoint(re.findall(r"[A-Za-z]\w*", e))]

    known = [f"is_{p.kind}({p.name})" for p in asked if p.kind in _CHECKED]
    known += [f"{p.name} >= 0" for p in asked if p.kind == "size"]
    known += [f"is_live<{_HOLDERS[p.kind]}>({p.name})" for p in asked if p.kind in _HOLDERS]
    known += [f"({condition})" for condition in said(family.valid)]
    supported = " && ".join(f"({condition})" for condition in said(family.supported)) or "true"
    limits = "".join(f"    if (look.fit() == Fit::fits) {_limit(each)};\n" for each in said(family.limits))
    given = ", ".join(_ANSWERS.get(word) or _given(of[word], wide) for word in family.buffer)
    answers = {"*": "count", "**": "bytes, host_bytes", "size": "bytes"}[_answer(family)]
    return (
        f"MATHS_EXPORT int {symbol}{family.asks}(void* handle, {given}) {{\n"
        f"    [[maybe_unused]] constexpr Type T = {type_};\n"
        f"    OwnLook look({str(wide).lower()}, false);\n"
        f"    if (!({' && '.join(known) or 'true'})) look.refuse(Fit::invalid);\n"
        f"    if (!({supported})) look.refuse(Fit::unsupported);\n{limits}"
        f'    return answer_room(handle, "{symbol}", look, {answers});\n}}\n\n'
    )


def _answer(family: Family) -> str:
    return next(word for word in family.buffer if word in _ANSWERS)


def exports(library: str, families: list[Family]) -> str:
    lines = [_BANNER.format(library), f'#include "{library}_messages.h"\n']
    lines.append('#include "extents.h"\n#include "software_limits.h"\n#include "own_call.h"\n\n')
    lines.append(f"using namespace maths;\nusing namespace maths::{library};\n\n")
    for _, family, function in _numbered(families):
        for symbol, wide in function.forms if not function.by_hand else ():
            lines.append(_export(family, function, symbol, wide))
            if family.buffer:
                lines.append(_buffer_export(family, symbol, function.type, wide))
    return "".join(lines)


def cpu(library: str, families: list[Family]) -> str:
    lines = [_BANNER.format(library)]
    for _, family, function in _numbered(families):
        lines.append(f"case k_{function.name}:\n")
        lines.append(f"    return run(*static_cast<{family.name}*>(arguments), {function.type}, work);\n")
    return "".join(lines)


def families_of_cpu(library: str, families: list[Family]) -> str:
    lines = [_BANNER.format(library), "// `type` is T of the function's name.\n"]
    lines += [f"CUresult run({family.name}& m, Type type, Work& work);\n" for family in families]
    return "".join(lines)


def _passed(parameter: Parameter, wide: bool) -> str:
    if parameter.kind == "info":
        return "&info"
    if parameter.kind == "scalar":
        return f"call.scalar(m.{parameter.name})"
    if parameter.kind == "answer":
        return f"call.answer(m.{parameter.name})"
    if parameter.kind in _SETTINGS:
        return f'call.settings("{parameter.kind.capitalize()}", m.{parameter.name})'
    if parameter.kind in _ROOMS:
        return _ROOMS[parameter.kind][2]
    if parameter.kind in _DESCRIPTORS:
        return f"call.descriptor(m.{parameter.name})"
    if parameter.is_pointer:
        return f"reinterpret_cast<void*>(m.{parameter.name})"
    return f"static_cast<{parameter.in_c(wide)}>(m.{parameter.name})"


def _type_in_c(parameter: Parameter, wide: bool) -> str:
    return _ROOMS[parameter.kind][1] if parameter.kind in _ROOMS else parameter.in_c(wide)


_ASKED = {  # as types, and as places
    "*": ("int*", "call.asked_elements()"),
    "**": ("size_t*, size_t*", "call.asked_bytes(), call.asked_host_bytes()"),
    "size": ("size_t*", "call.asked_bytes()"),
}


def _nvidia(family: Family, function: Function, symbol: str, wide: bool) -> str:
    lines = []
    if family.buffer:
        of = {parameter.name: parameter for parameter in family.parameters}
        types = ", ".join(_ASKED[w][0] if w in _ASKED else _type_in_c(of[w], wide) for w in family.buffer)
        passed = ", ".join(_ASKED[w][1] if w in _ASKED else _passed(of[w], wide) for w in family.buffer)
        asked = f'call.invoke<int(void*, {types})>("{symbol}{family.asks}", call.handle, {passed})'
        lines.append(f"        if (const int status = {asked}) return status;\n")
        lines.append(
            f"        if (const int status = call.make_room(bytes_of({function.type}))) return status;\n"
        )
    types = ", ".join(["void*", *(_type_in_c(parameter, wide) for parameter in family.given)])
    passed = ", ".join(["call.handle", *(_passed(parameter, wide) for parameter in family.given)])
    invoked = f'call.invoke<int({types})>("{symbol}", {passed})'
    answers = [p for p in family.parameters if p.kind == "answer"]
    for p in answers:
        invoked = f"call.write_answer({invoked}, m.{p.name}, bytes_of({_element(family, p)}))"
    lines.append(f"        return {invoked};\n")
    return "".join(lines)


def nvidia(library: str, families: list[Family]) -> str:
    lines = [_BANNER.format(library)]
    for _, family, function in _numbered(families):
        if function.by_hand:
            continue
        lines.append(f"case k_{function.name}: {{\n")
        lines.append(f"    const auto& m = *static_cast<const {family.name}*>(arguments);\n")
        if any(parameter.kind == "info" for parameter in family.parameters):
            lines.append("    int info = 0;\n")
        *wide_ones, last = reversed(function.forms)
        for symbol, wide in wide_ones:
            lines.append("    if (call.wide) {\n" + _nvidia(family, function, symbol, wide) + "    } else\n")
        lines.append("    {\n" + _nvidia(family, function, *last) + "    }\n}\n")
    return "".join(lines)


def main(library: str, folder: str) -> None:
    families = read((_HERE / library / "functions.txt").read_text())
    made = {
        "_messages.h": messages,
        "_operands.cc": operands,
        "_exports.cc": exports,
        "_cpu.inc": cpu,
        "_families.inc": families_of_cpu,
        "_nvidia.inc": nvidia,
    }
    for suffix, make in made.items():
        path, text = Path(folder, library + suffix), make(library, families)
        if not path.exists() or path.read_text() != text:  # else all that includes it would be built anew
            path.write_text(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
