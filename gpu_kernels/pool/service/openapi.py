"""The API's OpenAPI 3.1 document, made from the routes and what their operations declare."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from msgspec.json import schema_components
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from gpu_kernels import __version__
from gpu_kernels.errors import BY_CODE, NotFound, PoolError
from gpu_kernels.pool.service.operations import Operation, operations_of
from gpu_kernels.pool.service.routes import PARAMETERS, ROUTES
from gpu_kernels.pool.service.schemas.pool import Error
from gpu_kernels.resources.base import Body, Resource
from gpu_kernels.resources.events import PoolEvent

Json = dict[str, Any]
VALIDATION: JsonSchemaMode = "validation"
REFERENCE = "#/components/schemas/{model}"


def document(server: str = "/api/v1") -> Json:
    """The whole document; ``server`` is where ``/api/v1`` is to be found."""
    schemas, components = _schemas()
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "GPU pool controller",
            "version": __version__,
            "description": "Who holds which slice of which GPU: leases, courses, GPU servers.",
        },
        "servers": [{"url": server}],
        "security": [{"token": []}],
        "paths": {
            path: {
                method.lower(): _operation(made, path, schemas)
                for method, made in operations_of(handler).items()
            }
            for path, handler in ROUTES
        },
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "Authorization",
                    "description": "'token T' or 'Bearer T': a token of the hub, or of the token file",
                }
            },
        },
    }


def _all_operations() -> Iterator[Operation]:
    for _, handler in ROUTES:
        yield from operations_of(handler).values()


@cache
def _schemas() -> tuple[Mapping[Any, Json], Json]:
    """References by model, and the components that they refer to."""
    wanted: list[Any] = [Error, PoolEvent]
    for made in _all_operations():
        wanted += [made.body, made.query, *made.answers.values()]
    models = dict.fromkeys(model for model in wanted if isinstance(model, type))
    bodies = [model for model in models if issubclass(model, Body)]
    answers = [model for model in models if issubclass(model, Resource) and model not in bodies]
    others = [(model, VALIDATION) for model in models if issubclass(model, BaseModel)]
    references, definitions = models_json_schema(others, ref_template=REFERENCE)
    found: dict[Any, Json] = {model: references[model, VALIDATION] for model, _ in others}
    components = dict(definitions["$defs"])
    for kinds, say in ((bodies, _say_no_other_is_taken), (answers, _say_all_is_sent)):
        its_references, its = schema_components(kinds, ref_template=REFERENCE.format(model="{name}"))
        assert not its.keys() & components.keys(), "two shapes of one name"
        for component in its.values():
            say(component)
        found |= dict(zip(kinds, its_references, strict=True))
        components |= its
    return found, components


def _say_no_other_is_taken(component: Json) -> None:
    component["additionalProperties"] = False


def _say_all_is_sent(component: Json) -> None:
    """A default is for readers of older controllers; what may be left out has none."""
    sent = component["properties"]
    component["required"] = [
        name for name, part in sent.items() if "default" in part or name in component["required"]
    ]
    for part in sent.values():
        part.pop("default", None)


def _operation(made: Operation, path: str, schemas: Mapping[Any, Json]) -> Json:
    errors = (*made.errors, NotFound) if "{" in path and NotFound not in made.errors else made.errors
    told: Json = {
        "operationId": made.name,
        "summary": made.summary,
        "description": made.description,
        "tags": [path.split("/")[1]],
        "parameters": [*_path_parameters(path), *_query_parameters(made)],
        "responses": {**_answers(made, schemas), **_errors(errors, schemas)},
    }
    if made.scope is not None or made.who is not None:
        told["x-who"] = made.who or f"the scope {made.scope}"
        told["x-scope"] = made.scope
    if made.anonymous:
        told["security"] = [{}, {"token": []}]
    if made.body is not None:
        schema = schemas[made.body]
        told["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return told


def _path_parameters(path: str) -> list[Json]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": PARAMETERS[name].description,
            "schema": {"type": "string", "pattern": f"^{PARAMETERS[name].pattern}$"},
        }
        for name in re.findall(r"\{(\w+)\}", path)
    ]


def _query_parameters(made: Operation) -> list[Json]:
    if made.query is None:
        return []
    schema = made.query.model_json_schema(ref_template=REFERENCE)
    required = schema.get("required", ())
    return [
        {
            "name": name,
            "in": "query",
            "required": name in required,
            "description": part.pop("description", ""),
            "schema": _not_null(part),
        }
        for name, part in schema.get("properties", {}).items()
    ]


def _not_null(part: Json) -> Json:
    """A query's field may be left out, but it cannot be null."""
    options = [option for option in part.pop("anyOf", ()) if option != {"type": "null"}]
    if part.get("default", 0) is None:
        del part["default"]
    return {**part, **options[0]} if options else part


def _answers(made: Operation, schemas: Mapping[Any, Json]) -> Json:
    told = {}
    for status, model in made.answers.items():
        if isinstance(model, str):
            media, schema = model, {"type": "string"} if model.startswith("text/") else {}
        else:
            media, schema = "application/json", schemas[model]
        told[str(status)] = {"description": made.summary, "content": {media: {"schema": schema}}}
    return told


def _errors(kinds: Iterable[type[PoolError]], schemas: Mapping[Any, Json]) -> Json:
    """One response a status, whose schema names the codes that it may have."""
    by_status: dict[int, list[type[PoolError]]] = {}
    for kind in kinds:
        by_status.setdefault(kind.status, []).append(kind)
    return {str(status): _error(group, schemas) for status, group in sorted(by_status.items())}


def _error(kinds: list[type[PoolError]], schemas: Mapping[Any, Json]) -> Json:
    codes = [kind.code for kind in kinds]
    narrowed = {"properties": {"error": {"properties": {"code": {"enum": codes}}}}}
    return {
        "description": " ".join(f"`{kind.code}`: {meaning(kind.code)}" for kind in kinds),
        "headers": {
            "Retry-After": {"description": "Seconds after which to try again", "schema": {"type": "integer"}}
        },
        "content": {"application/json": {"schema": {"allOf": [schemas[Error], narrowed]}}},
    }


def meaning(code: str) -> str:
    """What a code means, in the words of its class."""
    return " ".join((BY_CODE[code].__doc__ or "").split())
