"""Errors travel: what the controller raises, the client raises again."""

from __future__ import annotations

import pytest

from gpu_kernels import errors

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("code", sorted(errors.BY_CODE))
def test_every_error_arrives_as_its_own_class(code: str) -> None:
    kind = errors.BY_CODE[code]
    sent = kind("what and why", retry_after=3.0, details={"limit": 5})
    got = errors.from_json(sent.status, sent.to_json())
    assert type(got) is kind
    assert (got.message, got.retry_after, got.details) == ("what and why", 3.0, {"limit": 5})


def test_codes_are_unique() -> None:
    kinds = {kind for kind in errors.BY_CODE.values() if "code" in vars(kind)}
    assert len(kinds) == len(errors.BY_CODE)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, errors.Unauthenticated),
        (403, errors.Forbidden),
        (404, errors.NotFound),
        (409, errors.Refused),
        (418, errors.InvalidRequest),
        (500, errors.PoolError),
    ],
)
def test_an_unknown_code_becomes_the_nearest_class(status: int, kind: type[errors.PoolError]) -> None:
    body = {"error": {"code": "of_a_later_version", "message": "text", "retry_after": None, "details": {}}}
    got = errors.from_json(status, body)
    assert type(got) is kind
    assert got.message == "text"


@pytest.mark.parametrize("body", [None, [], {}, {"error": "text"}, {"error": {"message": 5}}, "<html>"])
def test_an_answer_that_no_controller_gives_says_so(body: object) -> None:
    got = errors.from_json(502, body)
    assert isinstance(got, errors.PoolUnavailable)
    assert "HTTP 502" in got.message


def test_the_log_text_is_apart_from_the_users() -> None:
    error = errors.PoolFull("for the student", log_message="for the operator")
    assert str(error) == "for the student"
    assert error.log_message == "for the operator"
    assert "operator" not in str(error.to_json())
