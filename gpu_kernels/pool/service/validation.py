"""Reading request bodies: every field is checked for its kind and its bounds, and nothing unknown is let
through.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from unicodedata import category

from gpu_kernels.errors import InvalidRequest

_MISSING: Any = object()
REVERSING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def parse_body(body: bytes) -> Fields:
    """A body that is a JSON object. Raises ``InvalidRequest``."""
    if not body.strip():
        raise InvalidRequest("The request has no body; it must be a JSON object.")
    try:
        content = json.loads(body, parse_constant=_no_constant)
    except RecursionError:
        raise InvalidRequest("The request's body is nested too deeply.") from None
    except ValueError as error:
        raise InvalidRequest(f"The request's body is not JSON: {error}.") from None
    return Fields(content, "the body")


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number in JSON")


class Fields:
    """The fields of one JSON object. Ask for each, then ``finish``: what nobody asked for is refused."""

    def __init__(self, content: object, where: str) -> None:
        if not isinstance(content, dict):
            raise InvalidRequest(f"{where.capitalize()} must be a JSON object, not {_kind(content)}.")
        self._content: Mapping[str, Any] = content
        self._where = where
        self._asked: set[str] = set()

    def _get(self, name: str, default: Any) -> Any:
        self._asked.add(name)
        value = self._content.get(name, default)
        if value is _MISSING:
            raise self._wrong(name, "is missing")
        return value

    def _wrong(self, name: str, what: str) -> InvalidRequest:
        return InvalidRequest(f"'{name}' in {self._where} {what}.", details={"field": name})

    def text(self, name: str, longest: int, *, default: Any = _MISSING, empty: bool = False) -> str:
        value = self._get(name, default)
        if value is default and default is not _MISSING:
            return value  # type: ignore[no-any-return]
        if not isinstance(value, str):
            raise self._wrong(name, f"must be text, not {_kind(value)}")
        if len(value) > longest:
            raise self._wrong(name, f"must have at most {longest} characters, not {len(value)}")
        if not value and not empty:
            raise self._wrong(name, "must not be empty")
        if any(map(_controls, value)):
            raise self._wrong(name, "must not hold control characters")
        return value

    def integer(self, name: str, least: int, most: int, *, default: Any = _MISSING) -> int:
        value = self._get(name, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong(name, f"must be an integer, not {_kind(value)}")
        if not least <= value <= most:
            raise self._wrong(name, f"must be {least} to {most}, not {str(value)[:30]}")
        return value

    def number(self, name: str, least: float, most: float, *, default: Any = _MISSING) -> float:
        value = self._get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(name, f"must be a number, not {_kind(value)}")
        if not least <= value <= most:
            raise self._wrong(name, f"must be {least:g} to {most:g}, not {str(value)[:30]}")
        return float(value)

    def fields(self, name: str) -> Fields:
        return Fields(self._get(name, _MISSING), f"'{name}'")

    def list_of_fields(self, name: str, longest: int) -> list[Fields]:
        value = self._get(name, _MISSING)
        if not isinstance(value, list):
            raise self._wrong(name, f"must be a list, not {_kind(value)}")
        if len(value) > longest:
            raise self._wrong(name, f"must have at most {longest} entries, not {len(value)}")
        return [Fields(item, f"entry {number} of '{name}'") for number, item in enumerate(value)]

    def texts_by_name(self, name: str, most: int, longest: int) -> dict[str, str]:
        inner = Fields(self._get(name, {}), f"'{name}'")
        if len(inner._content) > most:
            raise self._wrong(name, f"must have at most {most} entries, not {len(inner._content)}")
        for key in inner._content:
            if len(key) > longest:
                raise self._wrong(name, f"has a name of more than {longest} characters")
            if any(map(_controls, key)):
                raise self._wrong(name, "must not hold control characters in its names")
        return {key: inner.text(key, longest, empty=True) for key in inner._content}

    def names(self) -> list[str]:
        """The names of an object whose names are not fixed."""
        return list(self._content)

    def passed_over(self, *names: str) -> None:
        """Let these fields through unread."""
        self._asked.update(names)

    def finish(self) -> None:
        unknown = sorted(self._content.keys() - self._asked)
        if unknown:
            shown = ", ".join(repr(name[:40]) for name in unknown[:5])
            raise InvalidRequest(
                f"Unknown in {self._where}: {shown}; known are {', '.join(sorted(self._asked))}.",
                details={"unknown": unknown[:5]},
            )


def _controls(character: str) -> bool:
    """Whether it would end a line, change the direction of what follows it, or is no character at all."""
    return category(character) in {"Cc", "Cs", "Zl", "Zp"} or character in REVERSING


def _kind(value: object) -> str:
    kinds = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "text",
        list: "a list",
        dict: "an object",
    }
    return "null" if value is None else kinds.get(type(value), "something else")
