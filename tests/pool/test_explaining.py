"""Why a lease waits, told over the ledger and the API; and the pool's state, replayed without the pool."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from gpu_kernels.pool import replay
from gpu_kernels.pool.ledger import Transaction
from gpu_kernels.pool.ledger.commands import reservation
from gpu_kernels.pool.ledger.queries.dump import dump, load
from gpu_kernels.pool.ledger.queries.explanation import explain, starts
from gpu_kernels.pool.ledger.queries.scene import ask, scene_of
from gpu_kernels.pool.ledger.queries.times import iso
from gpu_kernels.pool.ledger.state.rows import Share
from gpu_kernels.pool.policy.queue import Decision, decide
from gpu_kernels.resources.leases import Why
from tests.pool.controller import Agent, ThreadedController, reserve, token
from tests.pool.rig import Lease, MemoryRig, Rig

LIFE = 12 * 3_600_000


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = MemoryRig({"ml101": {"V100": 3000}, "cv202": {"V100": 3000}})
    rig.agent()
    yield rig
    assert rig.mismatch() == 0
    rig.close()


@pytest.fixture
def waiting(rig: Rig) -> Lease:
    """A request that waits for the one GPU, which another has for 12 hours, and which somebody else is to
    get before.
    """
    rig.reserve("all.ipynb", "1 V100", user="zoe", groups=["cv202"])
    rig.now += 1
    rig.reserve("large.ipynb", "1 V100", user="yan", groups=["cv202"], wait=600)
    rig.now += 5
    return rig.reserve("mine.ipynb", "0.5 V100", wait=600)


def explained(rig: Rig, lease: Lease) -> Why:
    return rig.read(lambda tx: explain(tx, tx.book.leases[lease["id"]]))


def decided(tx: Transaction) -> Decision:
    asks = [ask(tx, lease) for lease in tx.book.waiting]
    return decide(asks, scene_of(tx))


class TestExplaining:
    def test_a_request_is_told_its_place_what_is_short_and_when(self, rig: Rig, waiting: Lease) -> None:
        told = explained(rig, waiting)
        assert (told.position, told.waiting) == (1, 2)  # ml101 has had nothing yet
        assert told.starts_at == iso(rig.now + LIFE - 6)
        rig.now += 5
        assert rig.lease(waiting)["starts_in"] == (LIFE - 11) / 1000
        assert told.text == (
            "You are next in the line for 0.5 V100: 1 of 1 V100 is in use. No GPU has anything left. "
            "It is your turn in about 12 hours by the present forecast; earlier when others shut down their "
            "GPU kernels, or if you choose a smaller size."
        )

    def test_an_admin_is_told_who_and_what_was_compared(self, rig: Rig, waiting: Lease) -> None:
        full = explained(rig, waiting).full
        assert full is not None
        assert full["held_by"] == "gpus"
        assert [entry["account"] for entry in full["shares"][-2]["shares"]] == ["ml101", "cv202"]
        assert json.loads(json.dumps(full))["request"]["user"] == "ada"

    def test_what_does_not_wait_is_told_so(self, rig: Rig, waiting: Lease) -> None:
        held = rig.leases(user="zoe")[0]
        assert "it is in force. It ends in about 12 hours at the latest." in explained(rig, held).text
        rig.release(held, user="zoe")
        assert explained(rig, held).text == "Your lease of 1 V100 is ending. Its user gave it back."
        rig.release(waiting)
        assert "is over" in explained(rig, waiting).text

    def test_predictions_may_be_a_little_old(self, rig: Rig, waiting: Lease) -> None:
        rig.now += 10
        first = rig.read(starts)
        rig.now += 4
        rig.release(rig.leases(user="zoe")[0], user="zoe")
        rig.report()
        assert rig.read(starts) is first
        rig.now += 1
        assert rig.read(starts) is not first
        assert waiting["id"] not in rig.read(starts)  # it was granted


class TestShares:
    def test_a_grant_and_its_end_are_charged_to_user_and_course(self, rig: Rig) -> None:
        lease = rig.reserve(size="0.5 V100")
        charged = {(row.account, row.user): row.usage for row in rig.rows(Share)}
        assert charged["ml101", "ada"] == charged["ml101", ""] == 500 * 60
        rig.now += 50_000
        rig.release(lease)
        rig.report()
        used = {(row.account, row.user): row.usage for row in rig.rows(Share)}
        assert used["ml101", "ada"] == pytest.approx(500 * 110, rel=0.001)

    def test_who_has_had_less_is_served_first(self, rig: Rig) -> None:
        held = rig.reserve("all.ipynb", "1 V100", user="zoe", groups=["cv202"])
        first = rig.reserve("again.ipynb", "1 V100", user="zoe", groups=["cv202"], wait=600)
        rig.now += 1000
        second = rig.reserve("mine.ipynb", "1 V100", wait=600)
        assert [rig.lease(lease)["position"] for lease in (first, second)] == [2, 1]
        rig.release(held, user="zoe")
        rig.report()
        assert (rig.state(first), rig.state(second)) == ("queued", "reserved")

    def test_the_order_survives_a_restart(self, rig: Rig) -> None:
        rig.reserve("all.ipynb", "1 V100", user="zoe", groups=["cv202"])
        for number, user in enumerate(["zoe", "ada", "bob"]):
            course = "cv202" if user == "zoe" else "ml101"
            rig.now += 1
            rig.reserve(f"{number}.ipynb", "1 V100", user=user, groups=[course], wait=600)
        before = [lease["user"] for lease in sorted(rig.leases(), key=lambda v: v["position"] or 0)]
        rig.restart()
        rig.sweep()
        after = [lease["user"] for lease in sorted(rig.leases(), key=lambda v: v["position"] or 0)]
        assert after == before == ["zoe", "ada", "bob", "zoe"]


class TestReplay:
    def test_a_dump_replays_the_decision_to_the_last_digit(self, rig: Rig, waiting: Lease) -> None:
        rig.pass_time(5_000)
        document = json.loads(json.dumps(rig.read(dump)))
        again = load(document)
        assert decided(again) == rig.read(decided)
        assert again.line == rig.read(lambda tx: tx.line)
        mine = again.book.leases[waiting["id"]]
        assert explain(again, mine).full == explained(rig, waiting).full

    def test_a_dump_says_nothing_that_is_its_users_alone(self, rig: Rig) -> None:
        def labelled(tx: Transaction) -> None:
            request = rig.request("secret.ipynb", key="secret-key", holder="secret-holder")
            lease = reservation.reserve(tx, request)
            tx.change(lease, labels={"secret": "secret"})

        rig.write(labelled)
        text = json.dumps(rig.read(dump)).replace("secret.ipynb", "")
        assert "secret" not in text

    def test_it_prints_the_line_and_one_lease(
        self, rig: Rig, waiting: Lease, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = tmp_path / "state.json"
        file.write_text(json.dumps(rig.read(dump)))
        assert replay.main([str(file), "--json"]) == 0
        line = json.loads(capsys.readouterr().out)["line"]
        assert [(row["user"], row["held_by"]) for row in line] == [("ada", "gpus"), ("yan", "gpus")]
        assert replay.main([str(file), "--lease", waiting["id"][:8]]) == 0
        text = capsys.readouterr().out
        assert "text You are next in the line for 0.5 V100" in text
        assert "why_not too full" in text

    def test_it_reads_standard_input(
        self, rig: Rig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(rig.read(dump))))
        assert replay.main(["-"]) == 0
        assert "line []" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("text", "complaint"),
        [
            ("", "Expecting value"),
            ("[]", "it is no JSON object"),
            ("{}", "this is no state of a pool"),
            ('{"format": "gpu-kernels pool state 1"}', "damaged: 'settings'"),
        ],
    )
    def test_what_is_no_dump_is_refused(
        self, text: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = tmp_path / "state.json"
        file.write_text(text)
        assert replay.main([str(file)]) == 2
        assert complaint in capsys.readouterr().err

    def test_a_lease_that_is_not_there_is_said(
        self, rig: Rig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = tmp_path / "state.json"
        file.write_text(json.dumps(rig.read(dump)))
        assert replay.main([str(file), "--lease", "f00"]) == 2
        assert "0 leases of this state" in capsys.readouterr().err


class TestOverTheApi:
    def get(self, controller: ThreadedController, path: str, user: str) -> httpx.Response:
        headers = {"Authorization": f"token {token(user)}"}
        return httpx.get(f"{controller.url}/api/v1{path}", headers=headers)

    def test_the_owner_reads_a_sentence_and_an_admin_everything(
        self, controller: ThreadedController, agent: Agent
    ) -> None:
        lease = reserve(controller.client("ada"))
        own = self.get(controller, f"/leases/{lease.id}/why", "ada")
        assert own.status_code == 200
        assert own.json()["full"] is None
        assert own.json()["text"].startswith("Your lease of 0.02 V100 waits for nothing")
        assert self.get(controller, f"/leases/{lease.id}/why", "bob").status_code == 404
        assert self.get(controller, f"/leases/{lease.id}/why", "root").status_code == 200

    def test_the_state_is_for_admins_and_can_be_replayed(
        self, controller: ThreadedController, agent: Agent
    ) -> None:
        assert self.get(controller, "/state", "ada").status_code == 403
        state = self.get(controller, "/state", "root")
        assert state.status_code == 200
        assert load(state.json()).book.gpus
