"""A flood of tokens that nobody knows: the hub is asked at a bounded rate, and known ones do not notice."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_kernels.errors import RateLimited, Unauthenticated
from gpu_kernels.limits.known_tokens import KnownTokens
from gpu_kernels.limits.questions import Questions, Rates, TooFast, Total
from tests.attacks.counting_hub import CountingHub
from tests.pool.controller import Agent, ControllerProcess, ThreadedController, error_of, reserve, token

FLOOD = 400


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[CountingHub]:
    hub = CountingHub()
    monkeypatch.setenv("JUPYTERHUB_SERVICE_NAME", "gpu")
    monkeypatch.setenv("JUPYTERHUB_API_URL", hub.url)
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "the service's own")
    yield hub
    hub.close()


def flood(url: str, number: int = FLOOD) -> list[httpx.Response]:
    """So many requests, each with a token of its own that nobody knows."""
    with httpx.Client(base_url=url, timeout=60, trust_env=False) as stranger:
        return [
            stranger.get("/api/v1/leases", headers={"Authorization": f"token {secrets.token_hex(16)}"})
            for _ in range(number)
        ]


def test_the_hub_is_asked_about_unknown_tokens_at_a_bounded_rate(tmp_path: Path, hub: CountingHub) -> None:
    with ThreadedController(tmp_path / "state", unknown_tokens=20) as controller:
        Agent(controller.client("gpu-server")).register()
        lease = reserve(controller.client("ada"))
        known, begun = hub.asked, time.monotonic()
        answers = flood(controller.url)
        of_strangers = hub.asked - known
        assert of_strangers <= 20 * (1 + (time.monotonic() - begun) / 60) + 1
        assert {answer.status_code for answer in answers} == {401, 429}
        refused = answers[-1] if answers[-1].status_code == 429 else answers[-2]
        assert error_of(refused)["code"] == RateLimited.code
        assert int(refused.headers["Retry-After"]) >= 1
        # Known ones ask the hub again each time (``token_cache`` is 0 here), and wait for nobody's rate.
        for _ in range(3):
            assert controller.client("ada").renew([(lease.id, lease.epoch)]).renewed


def test_a_newcomer_gets_in_beside_a_flood(tmp_path: Path, hub: CountingHub) -> None:
    with ThreadedController(tmp_path / "state", unknown_tokens=30) as controller:
        assert 429 in {answer.status_code for answer in flood(controller.url, 100)}
        # The client asks again when the answer says that it may.
        assert controller.client("bob").list() == []


def test_a_flood_while_the_hub_is_away_pushes_out_no_good_word(tmp_path: Path, hub: CountingHub) -> None:
    with ThreadedController(tmp_path / "state", unknown_tokens=100_000) as controller:
        controller.app.service.authenticator._known._most = 20
        agent = Agent(controller.client("gpu-server"))
        agent.register()
        lease = reserve(controller.client("ada"))
        flood(controller.url, 60)
        hub.away = True
        assert {answer.status_code for answer in flood(controller.url, 60)} <= {429, 503}
        assert controller.client("ada").renew([(lease.id, lease.epoch)]).renewed
        agent.report([])


@pytest.mark.slow
def test_a_flood_leaves_a_bounded_log(tmp_path: Path) -> None:
    with ControllerProcess(tmp_path / "state") as controller:
        flood(controller.url, 3000)
        with pytest.raises(Unauthenticated):
            controller.client("nobody").list()
        log = (controller.state / "log").read_text()
        assert "unauthenticated" in log
        assert len(log) < 100_000
        assert token("nobody") not in log


def test_refused_tokens_are_remembered_apart_from_good_ones() -> None:
    tokens: KnownTokens[None] = KnownTokens(2, 2)
    tokens.add(b"good", 1.0, "ada", None)
    for number in range(10):
        tokens.refuse(b"%d" % number, 2.0)
    assert tokens.good(b"good") is not None
    assert [tokens.refused_at(b"%d" % number) for number in (7, 8, 9)] == [float("-inf"), 2.0, 2.0]
    tokens.refuse(b"good", 3.0)
    assert tokens.good(b"good") is None
    tokens.add(b"good", 4.0, "ada", None)
    assert tokens.refused_at(b"good") == float("-inf")


def test_a_user_with_many_tokens_pushes_out_ones_own() -> None:
    tokens: KnownTokens[None] = KnownTokens(10, 3)
    tokens.add(b"ada's", 0.0, "ada", None)
    for number in range(20):
        tokens.add(b"%d" % number, 1.0, "mallory", None)
    assert tokens.good(b"ada's") is not None
    assert len(tokens) == 4


def test_one_address_leaves_as_many_open_questions_as_it_has_while_the_hub_is_slow() -> None:
    questions = Questions(Rates(of_peer=1000, in_all=2000, open=64))

    def ask_until_refused(peer: str) -> int:
        for asked in range(100):
            try:
                questions.begin(peer)
            except TooFast:
                return asked
        return 100

    assert ask_until_refused("a flood") == 32
    assert ask_until_refused("another flood") == 16
    questions.begin("a newcomer")
    for _ in range(32):
        questions.end("a flood", good=False)
    assert ask_until_refused("a newcomer") == 23


def test_wrong_tokens_use_the_rate_up_and_good_ones_do_not() -> None:
    now = 0.0
    questions = Questions(Rates(of_peer=60, in_all=120, open=3), clock=lambda: now)

    def ask(peer: str, *, good: bool) -> None:
        questions.begin(peer)
        questions.end(peer, good=good)

    for _ in range(1000):
        ask("a", good=True)
    for _ in range(60):
        ask("a", good=False)
    with pytest.raises(TooFast) as refusal:
        questions.begin("a")
    assert refusal.value.again == 1.0
    for _ in range(30):
        ask("b", good=False)
    with pytest.raises(TooFast):
        questions.begin("b")
    now = 2.0
    with pytest.raises(TooFast):
        questions.begin("a")  # it has used more than is left for all others
    questions.begin("b")
    questions.begin("c")


@given(st.integers(1, 8), st.lists(st.tuples(st.integers(0, 8), st.floats(0, 3)), max_size=300))
def test_addresses_that_flood_leave_a_newcomer_its_part_of_the_rate(
    floods: int, moments: list[tuple[int, float]]
) -> None:
    now, taken = 0.0, 0
    total = Total(most=90.0, a_second=1.5, clock=lambda: now)
    for _ in range(60):
        taken += sum(not total.take(f"flood {number}") for number in range(floods))
    assert taken >= 90 * floods / (floods + 1) - floods, "nothing is kept from who comes alone"
    for number, seconds in moments:
        now += seconds
        taken += not total.take(f"flood {number % floods}")
        assert taken <= 90 + now * 1.5
    newcomers = sum(not total.take("newcomer") for _ in range(90))
    assert newcomers >= 90 / (floods + 1) / 2 - 1
    assert taken + newcomers <= 90 + now * 1.5


def test_what_comes_back_of_the_rate_is_divided_among_those_who_flood() -> None:
    now = 0.0
    total = Total(most=90.0, a_second=1.5, clock=lambda: now)
    taken: Counter[str] = Counter()
    for second in range(100_000):
        now = float(second)
        for peer in ("a", "b", "c"):
            for _ in range(3):
                taken[peer] += not total.take(peer)
        if second % 1000 == 999:
            assert total.take("newcomer") == 0
            total.put_back("newcomer")
    assert max(taken.values()) - min(taken.values()) <= 0.1 * taken.total()
    assert 150_000 <= taken.total() <= 150_000 + 90
