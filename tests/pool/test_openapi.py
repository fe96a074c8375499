"""The API describes itself: every route, method and refusal is in its OpenAPI document."""

from __future__ import annotations

import re
from typing import Any

import httpx
import jsonschema
import pytest

from gpu_kernels.errors import BY_CODE
from gpu_kernels.pool.service.openapi import document
from gpu_kernels.pool.service.operations import operations_of
from gpu_kernels.pool.service.routes import PARAMETERS, ROUTES, pattern_of
from tests.pool.controller import ThreadedController

DOCUMENT = document()
NOT_OF_ONE_CALL = {
    "not_found",
    "method_not_allowed",
    "unknown_version",
}
"""Codes of addresses and methods that are not there."""


def calls() -> list[tuple[str, str]]:
    return [(path, method) for path, handler in ROUTES for method in operations_of(handler)]


def test_every_call_is_there_and_no_other() -> None:
    told = {(path, method.upper()) for path, item in DOCUMENT["paths"].items() for method in item}
    assert told == set(calls())


def test_every_method_of_every_handler_is_an_operation() -> None:
    for _, handler in ROUTES:
        defined = {
            name for name in ("get", "post", "put", "patch", "delete", "head") if name in vars(handler)
        }
        assert defined == {method.lower() for method in operations_of(handler)}


def test_every_refusal_that_an_operation_names_is_in_its_responses() -> None:
    for path, handler in ROUTES:
        for method, made in operations_of(handler).items():
            responses = DOCUMENT["paths"][path][method.lower()]["responses"]
            for kind in made.errors:
                assert f"`{kind.code}`" in responses[str(kind.status)]["description"], (path, method)


def test_every_code_that_can_be_answered_is_somewhere_in_the_document() -> None:
    told = set(re.findall(r"`(\w+)`: ", str(DOCUMENT)))
    assert told >= set(BY_CODE) - NOT_OF_ONE_CALL


def test_parameters_are_those_of_the_address() -> None:
    for path, _ in ROUTES:
        assert set(re.findall(r"\{(\w+)\}", path)) <= set(PARAMETERS)
        assert re.fullmatch(pattern_of(path), re.sub(r"\{\w+\}", "x", path))


def test_no_two_operations_have_the_same_id() -> None:
    ids = [call["operationId"] for item in DOCUMENT["paths"].values() for call in item.values()]
    assert len(ids) == len(set(ids))


def test_its_schemas_are_schemas_and_their_references_lead_somewhere() -> None:
    components = DOCUMENT["components"]["schemas"]
    for schema in components.values():
        jsonschema.Draft202012Validator.check_schema(schema)
    for name in re.findall(r"#/components/schemas/(\w+)", str(DOCUMENT)):
        assert name in components


@pytest.mark.parametrize("prefix", ["/", "/services/gpu/"])
def test_it_is_served_to_anyone_and_says_where_the_api_is(tmp_path: Any, prefix: str) -> None:
    with ThreadedController(tmp_path / "state", prefix=prefix) as controller:
        served = httpx.get(f"{controller.url}/api/v1/openapi.json").json()
    assert served["paths"] == DOCUMENT["paths"]
    assert served["servers"] == [{"url": f"{prefix.rstrip('/')}/api/v1"}]
