"""The made parts of docs/reference/pool-api.md: ``python -m gpu_kernels.pool.service.reference PAGE`` writes
them anew from the operations, the schemas and the errors. A test fails while the page differs.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gpu_kernels.errors import BY_CODE
from gpu_kernels.pool.service.openapi import document, meaning
from gpu_kernels.pool.service.operations import ALWAYS, Operation, operations_of
from gpu_kernels.pool.service.routes import ROUTES

BEGIN, END = "<!-- made: {name} -->", "<!-- end of {name} -->"
GENERAL = {kind.code for kind in ALWAYS} | {
    "unauthenticated", "forbidden", "bad_request", "too_large", "hub_unavailable", "too_many", "rate_limited",
}  # fmt: skip
"""Codes that are not said again with every call."""
WORDS = {"string": "text", "boolean": "true or false"}
Json = Mapping[str, Any]


def with_made_parts(page: str) -> str:
    """The page with its made parts as they should be. Raises ``ValueError`` where a part's marks lack."""
    for name, lines in (("errors", _errors()), ("calls", _calls()), ("shapes", _shapes())):
        begin, end = BEGIN.format(name=name), END.format(name=name)
        if page.count(begin) != 1 or page.count(end) != 1:
            raise ValueError(f"the page must hold {begin} and {end} once each")
        before, _, rest = page.partition(begin)
        made = "\n".join(lines).strip()
        page = f"{before}{begin}\n\n{made}\n\n{end}{rest.partition(end)[2]}"
    return page


def _errors() -> Iterator[str]:
    yield "| code | HTTP status | means |"
    yield "|---|---|---|"
    for code, kind in sorted(BY_CODE.items(), key=lambda item: (item[1].status, item[0])):
        yield f"| `{code}` | {kind.status} | {_cell(meaning(code))} |"


def _calls() -> Iterator[str]:
    for path, handler in ROUTES:
        for method, made in operations_of(handler).items():
            yield f"### `{method} {path}`"
            yield ""
            yield from _call(made)
            yield ""


def _call(made: Operation) -> Iterator[str]:
    who = f" For: {made.who or f'the scope `{made.scope}`'}." if made.who or made.scope else ""
    yield f"{made.summary}.{who}"
    if made.description:
        yield ""
        yield " ".join(made.description.split())
    if made.query is not None:
        yield from _fields("query", made.query.model_json_schema())
    if made.body is not None:
        yield from _fields("field", document()["components"]["schemas"][made.body.__name__])
    answers = " or ".join(f"{status} {_shape(model)}" for status, model in made.answers.items())
    own = ", ".join(f"`{kind.code}`" for kind in made.errors if kind.code not in GENERAL)
    yield ""
    yield f"Answers {answers}." + (f" Refuses with {own}." if own else "")


def _shape(model: type[Any] | str) -> str:
    return f"`{model}`" if isinstance(model, str) else f"[{model.__name__}](#{model.__name__.lower()})"


def _shapes() -> Iterator[str]:
    shown = document()["components"]["schemas"]
    for name in sorted(shown):
        schema = shown[name]
        if schema.get("type") != "object" or name.endswith("Query"):
            continue
        yield f"### {name}"
        yield ""
        yield " ".join(schema.get("description", "").split())
        yield from _fields("field", schema)
        yield ""


def _fields(head: str, schema: Json) -> Iterator[str]:
    properties = schema.get("properties", {})
    if not properties:
        return
    required = schema.get("required", ())
    yield ""
    yield f"| {head} | is | |"
    yield "|---|---|---|"
    for name, part in properties.items():
        default = part.get("default")
        left_out = "" if name in required else f", {_json(default)}" if default is not None else ", optional"
        yield f"| `{name}` | {_cell(_kind(part, schema) + left_out)} | {_cell(part.get('description', ''))} |"


def _kind(part: Json, root: Json) -> str:
    """A schema in a few words, with its bounds."""
    if "$ref" in part:
        name = part["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in part:
        return " or ".join(_kind(option, root) for option in part["anyOf"])
    if "enum" in part:
        return " or ".join(f"`{value}`" for value in part["enum"])
    if "const" in part:
        return f"`{part['const']}`"
    kind = str(part.get("type", "anything"))
    if kind == "array":
        items = part.get("prefixItems")
        inner = (
            ", ".join(_kind(item, root) for item in items) if items else _kind(part.get("items", {}), root)
        )
        return f"list of {inner}{_bounds(part, 'minItems', 'maxItems')}"
    values = part.get("additionalProperties") or next(iter(part.get("patternProperties", {}).values()), None)
    if kind == "object" and isinstance(values, dict):
        return f"{_kind(values, root)} by name{_bounds(part, 'minProperties', 'maxProperties')}"
    limits = ("minLength", "maxLength") if kind == "string" else ("minimum", "maximum")
    return WORDS.get(kind, kind) + _bounds(part, *limits)


def _bounds(part: Json, least: str, most: str) -> str:
    low, high = part.get(least), part.get(most)
    if high is None or high >= 2**61:
        return "" if low is None else f" from {low:g}"
    return f" up to {high:g}" if not low else f" {low:g} to {high:g}"


def _json(value: object) -> str:
    return "empty" if value == "" else f"`{json.dumps(value)}`"


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


def main(arguments: Iterable[str]) -> None:
    for name in arguments:
        page = Path(name)
        page.write_text(with_made_parts(page.read_text()))


if __name__ == "__main__":
    main(sys.argv[1:])
