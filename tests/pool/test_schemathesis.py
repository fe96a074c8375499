"""The API against its own document: requests made from it, good and bad, by everyone who has a token.

Whatever is asked, there is no fault (5xx), and each answer is one that the document knows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import CHECKS, load_all_checks

from gpu_kernels.pool.service.openapi import document
from tests.pool.controller import Agent, ControllerProcess, reserve, token

load_all_checks()
CHECKED = CHECKS.get_by_names(
    [
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_headers_conformance",
        "response_schema_conformance",
        "negative_data_rejection",
    ]
)
WHO = ["ada", "grace", "root", "gpu-server"]
"""A student, an instructor, an admin of the pool, a GPU server."""
STREAMS = "/events"
"""Has no end; see test_events."""


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControllerProcess]:
    """With something in it: a GPU server, a lease in force, one that has ended, one that waits."""
    state = tmp_path_factory.mktemp("schemathesis") / "state"
    with ControllerProcess(state, 0, agent_ttl=20.0, max_requests=1e6) as controller:
        controller.url = (state / "url").read_text()
        agent = Agent(controller.client("gpu-server"))
        agent.register()
        ada, eve = controller.client("ada"), controller.client("eve")
        ended = reserve(ada)
        ada.release(ended.id, ended.holder)
        agent.carry_out()
        reserve(ada, "b.ipynb")
        reserve(eve, size="0.95 V100")
        assert reserve(ada, "c.ipynb", size="0.08 V100", wait=600).queued
        yield controller


REJECTIONS = [400, 401, 403, 404, 405, 409, 413]
config = schemathesis.config.SchemathesisConfig.from_dict(
    {"checks": {"negative_data_rejection": {"expected-statuses": REJECTIONS}}}
)
schema = schemathesis.openapi.from_dict(document(), config=config).exclude(path=STREAMS)
bounded = settings(
    max_examples=5,
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


turns = itertools.cycle(WHO)
"""Each request is asked by the next one: every call has dozens of cases, so everybody asks everything."""


@schema.parametrize()
@bounded
def test_every_answer_is_one_that_the_document_knows(
    case: schemathesis.Case, controller: ControllerProcess
) -> None:
    case.call_and_validate(
        base_url=f"{controller.url}/api/v1",
        headers={"Authorization": f"token {token(next(turns))}"},
        checks=CHECKED,
        timeout=60,
    )
