"""Reads ``instructions.txt``: the forms of PTX's instructions, and the handlers that run them.

The file's head says what its lines mean. Whoever makes something of the table reads it here: the generator of
the C++, the reference page, the tests.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PATH = Path(__file__).with_name("instructions.txt")
MANUAL = "https://docs.nvidia.com/cuda/parallel-thread-execution/"

# Types by the bits of a register that holds them; those without a number stand only in the names of matrix
# instructions and conversions.
BITS = {
    "pred": 0,
    **{f"{kind}{bits}": bits for kind in "bus" for bits in (8, 16, 32, 64)},
    **{"b128": 128, "u16x2": 32, "s16x2": 32},
    **{"f16": 16, "bf16": 16, "f16x2": 32, "bf16x2": 32, "f32": 32, "f64": 64},
}
OTHER_TYPES = frozenset(("tf32", "e4m3x2", "e5m2x2", "b1", "u2", "s2", "u4", "s4"))
FIELDS = ("d", "a", "b", "c", "e")
FLAGS = frozenset(("waits", "crosses"))


class TableError(Exception):
    """A line of the table that makes no sense; it names the line."""


@dataclass(frozen=True)
class Alternative:
    written: str  # "L2::*" and "*" stand for whatever begins so
    called: str  # in the handler's name


@dataclass(frozen=True)
class Group:
    """One place of a form for a modifier."""

    name: str
    alternatives: tuple[Alternative, ...]
    optional: bool = False

    @property
    def is_type(self) -> bool:
        return not self.optional and all(
            a.written in BITS or a.written in OTHER_TYPES for a in self.alternatives
        )

    @property
    def is_open(self) -> bool:
        return any(a.written.endswith("*") for a in self.alternatives)


@dataclass(frozen=True)
class Operand:
    """What a form reads or writes. ``kind``: a type, or the place of the group that has it."""

    field: str  # of FIELDS, or "imm"
    kind: str | int = "b32"
    doubled: bool = False
    relaxed: bool = False


@dataclass(frozen=True)
class Axis:
    """What a handler's name depends on: a group's modifier, or (``group`` None) a choice of the pick."""

    group: int | None
    names: tuple[str, ...]  # by the choice; of an optional group the first is for its absence


@dataclass(frozen=True)
class Form:
    mnemonic: str
    groups: tuple[Group, ...]
    shown: str  # the operands as the table writes them
    operands: tuple[Operand, ...]  # empty when the form is picked by hand
    handler: tuple[str | Axis, ...]
    pick: str
    flags: frozenset[str]
    chapter: str  # of the reference page
    section: str  # of the manual: where it describes the form
    line: int

    @property
    def axes(self) -> list[Axis]:
        return [part for part in self.handler if isinstance(part, Axis)]

    def handlers(self) -> Iterator[tuple[str, bool]]:
        """Names of handlers, the last axis running fastest, and whether each has to be there."""
        if not self.handler:
            return
        for choice in itertools.product(*(range(len(axis.names)) for axis in self.axes)):
            chosen = iter(choice)
            name, certain = "", True
            for part in self.handler:
                if isinstance(part, str):
                    name += part
                    continue
                at = next(chosen)
                certain = certain and (part.group is not None or at == 0 or part.names[0] != "")
                name += part.names[at]
            yield name, certain

    def syntax(self) -> str:
        """The form as the manual would write it."""
        text = self.mnemonic
        for group in self.groups:
            written = "|".join(a.written for a in group.alternatives)
            one = f".{written}" if len(group.alternatives) == 1 else f".<{written}>"
            text += f"{{{one}}}" if group.optional else one
        return text

    def opcodes(self) -> Iterator[tuple[str, dict[str, str]]]:
        """All that a program may write in the form's order, and the modifier that each group has."""
        choices = []
        for group in self.groups:
            closed = [a.written for a in group.alternatives if not a.written.endswith("*")]
            choices.append(["", *closed] if group.optional else closed)
        for chosen in itertools.product(*choices):
            words = zip(self.groups, chosen, strict=True)
            yield (
                ".".join([self.mnemonic, *filter(None, chosen)]),
                {group.name: word for group, word in words if word},
            )


@dataclass(frozen=True)
class Table:
    forms: tuple[Form, ...]
    internal: tuple[str, ...]  # handlers of ops that no program writes

    def names(self) -> dict[str, bool]:
        """The handlers' names in order, and whether each has to be there."""
        found = dict.fromkeys(self.internal, True)
        for form in self.forms:
            for name, certain in form.handlers():
                found[name] = found.get(name, False) or certain
        return dict(sorted(found.items()))


def alternatives(words: list[str]) -> tuple[Alternative, ...]:
    made = []
    for word in words:
        written, renamed, called = word.partition("=")
        if not renamed:
            called = written
        made.append(Alternative(written, f".{called}" if called else ""))
    return tuple(made)


class Reader:
    def __init__(self) -> None:
        self.lets: dict[str, tuple[Alternative, ...]] = {}
        self.chapter = self.section = ""
        self.forms: list[Form] = []
        self.internal: list[str] = []

    def line(self, number: int, text: str) -> None:
        if text.startswith("["):
            self.section = text.strip("[]")
        elif text.startswith("chapter "):
            self.chapter = text.removeprefix("chapter ")
        elif text.startswith("let "):
            name, words = text.removeprefix("let ").split("=", 1)
            self.lets[name.strip()] = alternatives(words.split())
        elif text.startswith("internal "):
            self.internal += text.split()[1:]
        else:
            self.forms += self.form(number, text)

    def form(self, number: int, text: str) -> list[Form]:
        head, *rest = re.split(r"\s+(?=by |-> )", text)
        pattern, _, shown = head.partition(" ")
        handler = pick = ""
        flags: frozenset[str] = frozenset()
        words = " ".join(rest).split()
        while words:
            word = words.pop(0)
            if word == "->":
                handler = words.pop(0)
            elif word == "by":
                pick = words.pop(0)
            elif word in FLAGS:
                flags |= {word}
            else:
                raise TableError(f"line {number}: what is {word!r}?")
        if not handler and not pick:
            raise TableError(f"line {number}: neither a handler nor a pick")
        mnemonics, groups = self.pattern(number, pattern)
        shown = shown.strip()
        operands = () if pick else self.operands(number, shown, groups)
        parts = self.handler(number, handler, groups)
        return [
            Form(name, groups, shown, operands, parts, pick, flags, self.chapter, self.section, number)
            for name in mnemonics
        ]

    def pattern(self, number: int, text: str) -> tuple[list[str], tuple[Group, ...]]:
        mnemonics = re.match(r"[a-z0-9|]+", text)
        if mnemonics is None:
            raise TableError(f"line {number}: no mnemonic")
        groups = []
        rest = text[mnemonics.end() :]
        for part in re.finditer(r"(\{)?\.(?:<([^>]+)>|([\w:*]+))\}?", rest):
            opened, named, literal = part.groups()
            if literal:
                name, options = literal, alternatives([literal])
            elif ":" in named and "|" in named:
                name, words = named.split(":", 1)
                options = alternatives(words.split("|"))
            elif ":" in named:
                name, words = named.split(":", 1)
                options = alternatives([words])
            elif named in self.lets:
                name, options = named, self.lets[named]
            else:
                raise TableError(f"line {number}: no group {named!r}")
            groups.append(Group(name, options, optional=opened is not None))
        return mnemonics.group().split("|"), tuple(groups)

    def place(self, number: int, groups: tuple[Group, ...], name: str) -> int:
        for at, group in enumerate(groups):
            if group.name == name:
                return at
        raise TableError(f"line {number}: no group {name!r} in the form")

    def operands(self, number: int, text: str, groups: tuple[Group, ...]) -> tuple[Operand, ...]:
        def kind_of(name: str) -> str | int:
            return name if name in BITS else self.place(number, groups, name)

        last = groups[-1] if groups else None
        usual: str | int = "b32"
        if last is not None and last.is_type:
            usual = len(groups) - 1
        made = []
        for word in filter(None, (word.strip() for word in text.split(","))):
            named, _, kind = word.partition(":")
            relaxed = kind.endswith("~")
            kind = kind.removesuffix("~")
            doubled = kind.startswith("wide(")
            if doubled:
                kind = kind.removeprefix("wide(").removesuffix(")")
            if named not in (*FIELDS, "imm"):
                raise TableError(f"line {number}: no operand {named!r}; without a pick they are fields")
            made.append(Operand(named, kind_of(kind) if kind else usual, doubled, relaxed))
        return tuple(made)

    def handler(self, number: int, text: str, groups: tuple[Group, ...]) -> tuple[str | Axis, ...]:
        parts: list[str | Axis] = []
        for literal, inside in re.findall(r"([^<]+)|<([^>]+)>", text):
            if literal:
                parts.append(literal)
            elif inside.startswith("@"):
                name, _, words = inside[1:].partition(":")
                options = alternatives(words.split("|")) if words else self.lets[name]
                parts.append(Axis(None, tuple(option.called for option in options)))
            else:
                name, _, change = inside.partition(":")
                at = self.place(number, groups, name)
                group = groups[at]
                names = [f".b{BITS[a.written]}" if change == "bits" else a.called for a in group.alternatives]
                parts.append(Axis(at, tuple(["", *names] if group.optional else names)))
        return tuple(parts)


def read(text: str | None = None) -> Table:
    """The table in ``text``, or the project's. Raises TableError."""
    reader = Reader()
    for number, line in enumerate((PATH.read_text() if text is None else text).splitlines(), 1):
        plain = line.split("#")[0].strip()
        if plain:
            reader.line(number, plain)
    return Table(tuple(reader.forms), tuple(reader.internal))
