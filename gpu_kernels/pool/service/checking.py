"""The check of a request that is a resource (``resources.Body``), made of the annotations of its type.

pydantic checks, since it finds all that is wrong at once, and says of each fault what was read.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any, TypeVar

from msgspec import Struct, inspect
from msgspec.structs import asdict
from pydantic_core import SchemaValidator, core_schema

from gpu_kernels.resources.base import Body

B = TypeVar("B", bound=Body)
STRICT = core_schema.CoreConfig(strict=True)
"""``"5"`` is no number, and ``1`` is not true."""


def checked(kind: type[B], body: bytes) -> B:
    """The body as ``kind``. Raises pydantic's ``ValidationError``."""
    return _check(kind).validate_json(body)  # type: ignore[no-any-return]


@cache
def _check(kind: type[Body]) -> SchemaValidator:
    return SchemaValidator(_schema(inspect.type_info(kind)))


def _schema(part: inspect.Type) -> Any:
    """A part of a body for pydantic, whose bounds have msgspec's names. Raises ``TypeError`` where it is of a
    kind that is not checked.
    """
    match part:
        case inspect.Metadata(type=inspect.StrType(), extra_json_schema={"enum": words}):
            return core_schema.literal_schema(words)
        case inspect.Metadata(type=inner):
            return _schema(inner)
        case inspect.StructType(cls=kind, fields=fields):
            found = core_schema.typed_dict_schema(
                {field.name: _field(field) for field in fields}, extra_behavior="forbid", config=STRICT
            )
            return core_schema.no_info_after_validator_function(partial(_made, kind), found)
        case inspect.VarTupleType(item_type=item):
            bounds = {name: bound for name, bound in asdict(part).items() if name != "item_type"}
            return core_schema.tuple_schema([_schema(item)], variadic_item_index=0, **bounds)
        case inspect.StrType():
            return core_schema.str_schema(**asdict(part))
        case inspect.IntType():
            return core_schema.int_schema(**asdict(part))
        case inspect.FloatType():
            return core_schema.float_schema(**asdict(part), allow_inf_nan=False)
        case inspect.BoolType():
            return core_schema.bool_schema()
    raise TypeError(f"a body cannot hold {part}")


def _field(field: inspect.Field) -> core_schema.TypedDictField:
    return core_schema.typed_dict_field(_schema(field.type), required=field.required)


def _made(kind: type[Struct], fields: dict[str, Any]) -> Struct:
    return kind(**fields)
