"""From bytes to checked bodies and queries; what is wrong becomes one ``bad_request`` that says which field,
what was read, and what is allowed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from pydantic import BaseModel, ValidationError

from gpu_kernels.errors import InvalidRequest, TooLarge
from gpu_kernels.pool.service.checking import checked
from gpu_kernels.pool.service.schemas.base import Model, Query
from gpu_kernels.resources.base import PRINTABLE, WORDS, Body

M = TypeVar("M", bound=Model | Body)
Q = TypeVar("Q", bound=Query)
MOST_NAMED = 5
"""So many wrong fields are told at once."""
MOST_FAULTS = 2000
"""Of so many, none is told: to tell them apart takes longer than to find them."""

_WANTED = {
    "missing": "is missing",
    "string_type": "must be text, not {kind}",
    "int_type": "must be an integer, not {kind}",
    "int_parsing": "must be an integer, not {read}",
    "int_parsing_size": "must be a smaller integer, not {read}",
    "int_from_float": "must be an integer, not {read}",
    "float_type": "must be a number, not {kind}",
    "float_parsing": "must be a number, not {read}",
    "finite_number": "must be a finite number, not {read}",
    "bool_type": "must be true or false, not {kind}",
    "bool_parsing": "must be 1 (true) or 0 (false), not {read}",
    "list_type": "must be a list, not {kind}",
    "tuple_type": "must be a list, not {kind}",
    "dict_type": "must be a JSON object, not {kind}",
    "model_type": "must be a JSON object, not {kind}",
    "literal_error": "must be {expected}, not {read}",
    "greater_than_equal": "must be at least {ge:g}, not {read}",
    "greater_than": "must be more than {gt:g}, not {read}",
    "less_than_equal": "must be at most {le:g}, not {read}",
    "less_than": "must be less than {lt:g}, not {read}",
    "string_too_long": "must have at most {max_length} characters, not {length}",
    "too_long": "must have at most {max_length} entries, not {length}",
    "too_short": "must have at least {min_length} entries, not {length}",
}
"""By pydantic's kind of error: what is said of the field."""


def read_body(model: type[M], body: bytes) -> M:
    """The body as ``model``. Raises ``InvalidRequest`` or ``TooLarge``."""
    if len(body) > model.MOST_BYTES:
        raise too_large(model.MOST_BYTES)
    if not body.strip():
        raise InvalidRequest("The request has no body; it must be a JSON object.")
    try:
        return checked(model, body) if issubclass(model, Body) else model.model_validate_json(body)
    except ValidationError as error:
        raise _wrong(error, model, "the body") from None


def read_query(model: type[Q], arguments: Mapping[str, Sequence[bytes]]) -> Q:
    """The query as ``model``. Raises ``InvalidRequest``."""
    values: dict[str, str] = {}
    for name, given in arguments.items():
        if len(given) > 1:
            raise InvalidRequest(
                f"'{_short(name)}' is in the query {len(given)} times.", details={"field": name[:40]}
            )
        try:
            values[name] = given[0].decode()
        except UnicodeDecodeError:
            raise InvalidRequest(
                f"'{_short(name)}' in the query is not UTF-8.", details={"field": name[:40]}
            ) from None
    try:
        return model.model_validate_strings(values)
    except ValidationError as error:
        raise _wrong(error, model, "the query") from None


def too_large(most: int) -> TooLarge:
    return TooLarge(f"The request's body is longer than {most} bytes.", details={"limit": most})


def _wrong(error: ValidationError, model: type[Any], where: str) -> InvalidRequest:
    if error.error_count() > MOST_FAULTS:
        raise InvalidRequest(f"{where.capitalize()} has {error.error_count()} faults.")
    faults = error.errors(include_url=False)
    unknown = [fault for fault in faults if fault["type"] == "extra_forbidden"]
    others = [fault for fault in faults if fault["type"] != "extra_forbidden"]
    texts = [_fault_text(fault, where) for fault in others[:MOST_NAMED]]
    if unknown:
        texts.append(_unknown_text(unknown, model, where))
    fields = [".".join(map(str, fault["loc"]))[:100] for fault in faults[:MOST_NAMED]]
    return InvalidRequest("\n".join(texts), details={"field": fields[0], "fields": fields})


def _fault_text(fault: Any, where: str) -> str:
    kind, context, loc = fault["type"], fault.get("ctx", {}), fault["loc"]
    if kind == "json_invalid":
        return f"The request's body is not JSON: {context['error']}."
    if kind in ("value_error", "assertion_error"):
        what = str(context["error"])
        return what if not loc else f"{_name(loc, where)}: {what}"
    return f"{_name(loc, where)} {_what(kind, context, fault)}."


def _what(kind: str, context: Mapping[str, Any], fault: Any) -> str:
    read = fault["input"]
    if kind == "string_too_short" and context["min_length"] == 1:
        return "must not be empty"
    if kind == "string_pattern_mismatch":
        words = WORDS.get(context["pattern"], f"must match {context['pattern']}")
        return words if context["pattern"] == PRINTABLE else f"{words}; not {_read(read)}"
    wanted = _WANTED.get(kind)
    if wanted is None:
        return f"is wrong: {fault['msg'].lower()}"
    length = len(read) if hasattr(read, "__len__") else 0
    return wanted.format(kind=_kind(read), read=_read(read), **{"length": length, **_numbers(context)})


def _numbers(context: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in context.items() if name != "length"}


def _unknown_text(unknown: Sequence[Any], model: type[Any], where: str) -> str:
    """All unknown fields of the first place that has any, and what may stand there."""
    place = unknown[0]["loc"][:-1]
    names = sorted(str(fault["loc"][-1]) for fault in unknown if fault["loc"][:-1] == place)
    shown = ", ".join(repr(_short(name)) for name in names[:MOST_NAMED])
    known = _known(model, place)
    return f"Unknown in {_place(place, where)}: {shown}{f'; known are {known}' if known else ''}."


def _known(model: type[Any], place: Sequence[Any]) -> str:
    """The names that a part of ``model`` has, found by walking its JSON schema."""
    root = model.model_json_schema() if issubclass(model, BaseModel) else msgspec.json.schema(model)
    schema = root
    for step in (None, *place):
        if isinstance(step, int):
            schema = schema.get("items", {})
        elif step is not None:
            schema = schema.get("properties", {}).get(step, {})
        schema = next((option for option in schema.get("anyOf", ()) if "$ref" in option), schema)
        if "$ref" in schema:
            schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    return ", ".join(sorted(schema.get("properties", ())))


def _name(loc: Sequence[Any], where: str) -> str:
    """A field and where it stands: ``'index' in entry 0 of 'gpus'``."""
    is_key = bool(loc) and loc[-1] == "[key]"
    loc = [step for step in loc if step != "[key]"]
    if not loc:
        return where.capitalize()
    if isinstance(loc[-1], int):
        return _place(loc, where).capitalize()
    name = repr(_short(str(loc[-1])))
    return f"{'The name ' if is_key else ''}{name} in {_place(loc[:-1], where)}"


def _place(loc: Sequence[Any], where: str) -> str:
    if not loc:
        return where
    if isinstance(loc[-1], int):
        return f"entry {loc[-1]} of {_place(loc[:-1], where)}"
    return repr(_short(str(loc[-1])))


def _short(text: object) -> str:
    return str(text)[:40]


def _read(value: object) -> str:
    return ascii(value[:40]) if isinstance(value, str) else str(value)[:30]


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
