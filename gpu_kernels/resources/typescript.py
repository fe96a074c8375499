"""TypeScript's types of what the Jupyter server tells its pages, made of the Python ones in ``lab``:

python -m gpu_kernels.resources.typescript gpu_kernels/labextension/src/resources.ts
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import NODEFAULT, inspect

from gpu_kernels.resources import lab

ANSWERS = (lab.KernelSlice, lab.KernelSlices, lab.CourseOffer, lab.Failure)
WORDS = {"Change": lab.Change}
"""What a page may say, by the type's name."""
HEADING = (
    "/** Made of gpu_kernels/resources/lab.py by `python -m gpu_kernels.resources.typescript`: "
    "change it there. */"
)
SIMPLE: Mapping[type[Any], str] = {
    inspect.StrType: "string",
    inspect.IntType: "number",
    inspect.FloatType: "number",
    inspect.BoolType: "boolean",
    inspect.NoneType: "null",
}


def module() -> str:
    """The whole of ``resources.ts``."""
    events = inspect.multi_type_info(list(lab.EVENTS))
    answers = [*inspect.multi_type_info(ANSWERS), *events]
    structs = {struct.cls: struct for kind in answers for struct in _structs(kind)}
    told = [
        f"\n  | {{ name: {_quoted(name)}; data: {_type(kind)} }}"
        for kind, name in zip(events, lab.EVENTS.values(), strict=True)
    ]
    parts = [
        HEADING,
        *(f"export type {name} = {_type(inspect.type_info(kind))};" for name, kind in WORDS.items()),
        *map(_interface, structs.values()),
        f"/** What a stream tells. */\nexport type KernelEvent ={''.join(told)};",
    ]
    return "\n\n".join(parts) + "\n"


def _structs(kind: Any) -> Iterator[inspect.StructType]:
    """The structs that a type is made of, each after those that it names."""
    if isinstance(kind, inspect.StructType):
        for field in kind.fields:
            yield from _structs(field.type)
        yield kind
    elif isinstance(kind, inspect.UnionType):
        for option in kind.types:
            yield from _structs(option)
    elif isinstance(kind, inspect.Metadata):
        yield from _structs(kind.type)
    elif isinstance(kind, inspect.VarTupleType):
        yield from _structs(kind.item_type)


def _interface(struct: inspect.StructType) -> str:
    lines = [*_comment(struct.cls.__doc__), f"export interface I{struct.cls.__name__} {{"]
    for field in struct.fields:
        if not field.required and field.default is NODEFAULT and field.default_factory is NODEFAULT:
            raise TypeError(f"{struct.cls.__name__}.{field.name} may be left out, which has no type here")
        kind = field.type
        if isinstance(kind, inspect.Metadata):
            lines += _comment((kind.extra_json_schema or {}).get("description"), "  ")
        lines.append(f"  {field.encode_name}: {_type(kind)};")
    return "\n".join([*lines, "}"])


def _comment(text: str | None, indent: str = "") -> Sequence[str]:
    return [f"{indent}/** {' '.join(text.split())} */"] if text else []


def _type(kind: Any) -> str:
    """Raises ``TypeError`` for a type that has no counterpart here."""
    if type(kind) in SIMPLE:
        return SIMPLE[type(kind)]
    if isinstance(kind, inspect.LiteralType):
        return " | ".join(_quoted(value) for value in kind.values)
    if isinstance(kind, inspect.UnionType):
        return " | ".join(map(_type, kind.types))
    if isinstance(kind, inspect.Metadata):
        return _type(kind.type)
    if isinstance(kind, inspect.VarTupleType):
        item = _type(kind.item_type)
        return f"({item})[]" if " | " in item else f"{item}[]"
    if isinstance(kind, inspect.StructType):
        return f"I{kind.cls.__name__}"
    raise TypeError(f"{kind} has no type in TypeScript yet")


def _quoted(word: object) -> str:
    return f"'{word}'"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(module())
