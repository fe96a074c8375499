"""The life of a lease in the ledger; no slice is free before its agent says so."""

from __future__ import annotations

import pytest

from gpu_kernels.errors import (
    CourseAmbiguous,
    CourseLimit,
    KeyReused,
    NoSuchClass,
    NotAMember,
    PoolFull,
    UnknownCourse,
    UnknownLease,
)
from gpu_kernels.pool.ledger import Transaction
from gpu_kernels.pool.ledger.commands import release, termination
from gpu_kernels.pool.ledger.commands.outage import SPREAD
from gpu_kernels.pool.ledger.commands.sweep import sweep
from gpu_kernels.pool.ledger.commands.transitions import move
from gpu_kernels.pool.ledger.queries import account_views
from gpu_kernels.pool.ledger.state.rows import Lease, Slice
from gpu_kernels.pool.ledger.state.states import FINAL, TABLE, IllegalTransition, State, Who
from gpu_kernels.resources.leases import Lost
from tests.pool.rig import TTL, Rig

pytestmark = pytest.mark.quick


class TestReserving:
    def test_a_lease_counts_from_its_decision(self, rig: Rig) -> None:
        lease = rig.reserve()
        assert (lease["state"], lease["course"], lease["epoch"]) == ("reserved", "ml101", 1)
        assert lease["slices"] == [{"gpu": "GPU-gpu1-0", "index": 0, "mib": 655, "thousandths": 20}]
        assert lease["agent"] == {"name": "gpu1", "address": "tcp://gpu1:1"}
        assert rig.used() == [(655, 20)]
        assert rig.target()[1][0].id == lease["id"]

    def test_epochs_grow_with_each_grant_on_an_agent(self, rig: Rig) -> None:
        epochs = []
        for number in range(4):
            lease = rig.reserve(f"{number}.ipynb")
            rig.release(lease)
            rig.report()
            rig.restart()
            epochs.append(lease["epoch"])
        assert epochs == [1, 2, 3, 4]

    def test_the_same_key_and_body_is_the_same_lease_for_the_newest_holder(self, rig: Rig) -> None:
        first = rig.reserve(holder="kernel-1")
        again = rig.reserve(holder="kernel-2", wait=5)
        assert again["id"] == first["id"]
        assert again["holder"] == "kernel-2"
        assert rig.used() == [(655, 20)]

    def test_the_same_key_with_another_body_is_refused(self, rig: Rig) -> None:
        lease = rig.reserve(key="k")
        with pytest.raises(KeyReused, match=r"belongs to a lease of 0\.02 V100 for a\.ipynb"):
            rig.reserve(size="0.04 V100", key="k")
        assert rig.state(lease) == "reserved"

    def test_a_key_is_its_users_own(self, rig: Rig) -> None:
        assert rig.reserve(key="k")["id"] != rig.reserve(key="k", user="bob")["id"]

    def test_a_key_of_an_ended_lease_gives_a_new_one(self, rig: Rig) -> None:
        first = rig.reserve(key="k")
        rig.release(first)
        assert rig.reserve(key="k")["id"] != first["id"]

    def test_a_lease_that_is_over_but_not_swept_yet_is_not_given_again(self, rig: Rig) -> None:
        first = rig.reserve()
        rig.now += TTL
        rig.report(done=0)
        second = rig.reserve()
        assert second["id"] != first["id"]
        assert rig.state(first) == "quarantined"

    def test_the_course_limit_holds_to_the_thousandth(self, rig: Rig) -> None:
        for number in range(5):
            rig.reserve(f"{number}.ipynb", user=f"student{number}")
        with pytest.raises(CourseLimit, match=r"ml101 holds 0\.1 of 0\.1 V100 now") as caught:
            rig.reserve("6.ipynb", user="student6", size="0.001 V100")
        assert caught.value.details["held"] == 100
        assert len(rig.leases()) == 5

    def test_a_refusal_leaves_no_trace(self, rig: Rig) -> None:
        waiting = self.fill_the_pool(rig)
        before = rig.leases(ended=True)
        with pytest.raises(PoolFull):
            rig.reserve("b.ipynb", "1 V100", groups=["cv202"])
        with pytest.raises(NoSuchClass):
            rig.reserve("b.ipynb", "1 T4", groups=["cv202"])
        assert rig.leases(ended=True) == before
        assert rig.target()[0] == 1
        assert waiting["state"] == "reserved"

    def fill_the_pool(self, rig: Rig) -> dict[str, object]:
        rig.set_limit("cv202", {"V100": 3000, "T4": 10})
        return rig.reserve("all.ipynb", "1 V100", groups=["cv202"])

    def test_fifty_students_fit_on_a_gpu_and_the_fifty_first_does_not(self, rig: Rig) -> None:
        for number in range(50):
            rig.reserve(user=f"student{number}", groups=["cv202"])
        assert rig.used() == [(50 * 655, 1000)]
        rig.set_limit("cv202", {"V100": 2000})
        with pytest.raises(PoolFull, match=r"The pool is full: 1 of 1 V100 is in use"):
            rig.reserve(user="student50", groups=["cv202"])

    def test_whole_gpus_are_reserved_together_on_one_server(self, rig: Rig) -> None:
        rig.agent("big", gpus=4)
        rig.set_limit("cv202", {"V100": 5000})
        lease = rig.reserve(size="3 V100", groups=["cv202"])
        assert lease["agent"]["name"] == "big"
        assert [part["thousandths"] for part in lease["slices"]] == [1000] * 3

    def test_memory_without_a_class_is_charged_where_the_course_has_a_share(self, rig: Rig) -> None:
        rig.agent("ampere", gpu_class="A100", mib=81920)
        lease = rig.reserve(size="2048 MiB", groups=["ml101"])
        assert (lease["gpu_class"], lease["slices"][0]["thousandths"]) == ("V100", 62)


class TestCourses:
    def test_the_only_course_of_a_user_is_the_default(self, rig: Rig) -> None:
        assert rig.reserve(groups=["ml101", "football"])["course"] == "ml101"

    def test_several_courses_must_be_chosen_from(self, rig: Rig) -> None:
        with pytest.raises(CourseAmbiguous, match="several courses: cv202, ml101"):
            rig.reserve(groups=["ml101", "cv202"])
        assert rig.reserve(groups=["ml101", "cv202"], course="cv202")["course"] == "cv202"

    def test_an_instructor_may_use_the_course(self, rig: Rig) -> None:
        assert rig.reserve(groups=["ml101-instructors"])["course"] == "ml101"

    def test_no_course_a_strangers_course_and_an_unknown_one_are_told_apart(self, rig: Rig) -> None:
        with pytest.raises(CourseAmbiguous, match="in no course that has a share"):
            rig.reserve(groups=[])
        with pytest.raises(NotAMember, match="ada is not a member of cv202"):
            rig.reserve(course="cv202")
        with pytest.raises(UnknownCourse, match="There is no course ghosts"):
            rig.reserve(course="ghosts", groups=["ghosts"])

    def test_configured_courses_are_taken_at_the_first_start_only(self, rig: Rig) -> None:
        rig.set_limit("ml101", {"V100": 500})
        rig.restart()
        view = rig.read(lambda tx: account_views.course(tx, "ml101", "ada", teaches=False))
        assert view.limits == {"V100": 500}

    def test_a_lowered_limit_takes_nothing_away_and_lets_nothing_new_in(self, rig: Rig) -> None:
        lease = rig.reserve()
        rig.set_limit("ml101", {"V100": 10})
        assert rig.state(lease) == "reserved"
        with pytest.raises(CourseLimit):
            rig.reserve("b.ipynb", "0.001 V100")

    def test_a_raised_limit_lets_those_in_who_wait_for_it(self, rig: Rig) -> None:
        full = rig.reserve(size="0.1 V100")
        rig.release(full)
        waiting = rig.reserve("b.ipynb", user="bob", wait=60)
        assert waiting["state"] == "queued"
        rig.set_limit("ml101", {"V100": 200})
        assert rig.state(waiting) == "reserved"


class TestEnding:
    def test_a_released_slice_is_free_when_its_agent_has_confirmed(self, rig: Rig) -> None:
        lease = rig.reserve()
        rig.report(alive=[lease])
        assert rig.state(lease) == "active"
        before = rig.target()[0]
        rig.release(lease)
        assert (rig.state(lease), rig.used()) == ("draining", [(655, 20)])
        assert rig.target() == (before + 1, [])
        rig.report(done=before)
        assert rig.state(lease) == "draining"
        rig.report(alive=[lease])
        assert rig.state(lease) == "draining"
        rig.report()
        assert (rig.state(lease), rig.used()) == ("released", [(0, 0)])

    def test_no_time_frees_a_slice_whose_agent_is_silent(self, rig: Rig) -> None:
        lease = rig.reserve()
        rig.pass_time(1000 * TTL, agents_report=False)
        assert (rig.state(lease), rig.used()) == ("quarantined", [(655, 20)])

    def test_release_is_idempotent_and_another_holders_release_changes_nothing(self, rig: Rig) -> None:
        lease = rig.reserve(holder="kernel-1")
        rig.reserve(holder="kernel-2")
        rig.release(lease, holder="kernel-1")
        assert rig.state(lease) == "reserved"
        rig.release(lease, holder="kernel-2")
        rig.release(lease, holder="kernel-2")
        assert rig.state(lease) == "draining"
        rig.report()
        rig.release(lease, holder="kernel-2")
        assert rig.state(lease) == "released"

    def test_another_users_lease_is_as_unknown_as_none(self, rig: Rig) -> None:
        lease = rig.reserve()
        texts = []
        for lease_id in (lease["id"], "0" * 32):
            with pytest.raises(UnknownLease) as caught:
                rig.release({**lease, "id": lease_id}, user="mallory")
            texts.append(caught.value.message.replace(lease_id, "ID"))
        assert texts[0] == texts[1]
        assert rig.renew(lease, user="mallory").lost[0].state == "unknown"
        assert rig.state(lease) == "reserved"

    def test_a_lease_lives_while_it_is_renewed_and_no_longer(self, rig: Rig) -> None:
        lease = rig.reserve()
        for _ in range(5):
            rig.pass_time(TTL - 1)
            assert rig.renew(lease).left == {lease["id"]: TTL / 1000}
        rig.pass_time(TTL - 1)
        assert rig.state(lease) == "reserved"
        rig.pass_time(1)
        ended = rig.lease(lease)
        assert (ended["state"], ended["reason"]) == ("quarantined", termination.NOT_RENEWED)
        assert rig.renew(lease).lost == (Lost(lease["id"], "quarantined", termination.NOT_RENEWED),)
        rig.report()
        assert (rig.state(lease), rig.used()) == ("freed", [(0, 0)])

    def test_a_lease_that_is_over_cannot_be_renewed_before_the_sweep_either(self, rig: Rig) -> None:
        lease = rig.reserve()
        rig.now += TTL
        assert rig.renew(lease).lost[0].state == "quarantined"

    def test_an_older_epoch_cannot_renew(self, rig: Rig) -> None:
        lease = rig.reserve()
        assert rig.renew({**lease, "epoch": lease["epoch"] - 1}).lost[0].state == "unknown"

    def test_a_server_that_stops_ends_all_its_leases_and_no_others(self, rig: Rig) -> None:
        mine = [rig.reserve(f"{n}.ipynb", server="lab") for n in range(2)]
        swapped = rig.reserve("0.ipynb", "0.01 V100", server="lab")
        others = [rig.reserve("a.ipynb", server=""), rig.reserve("a.ipynb", user="bob", server="lab")]
        rig.write(lambda tx: len(release.release_server(tx, "ada", "lab", "ada")))
        assert {rig.state(lease) for lease in [*mine, swapped]} == {"draining"}
        assert {rig.state(lease) for lease in others} == {"reserved"}

    def test_a_revoked_lease_keeps_its_reason(self, rig: Rig) -> None:
        lease = rig.reserve()

        def revoke(tx: Transaction) -> None:
            row = tx.book.leases[lease["id"]]
            termination.revoke(tx, row, who=Who.ADMIN, actor="root", reason="Needed for the exam")

        rig.write(revoke)
        rig.report()
        assert (rig.state(lease), rig.lease(lease)["reason"]) == ("freed", "Needed for the exam")

    def test_accounts_open_with_the_grant_and_close_when_the_slice_is_free(self, rig: Rig) -> None:
        lease = rig.reserve()
        rig.now += 10_000
        rig.release(lease)
        rig.now += 2_000
        rig.report()
        (account,) = rig.rows(Slice)
        assert (account.user, account.course, account.mib, account.thousandths) == ("ada", "ml101", 655, 20)
        assert account.ended_at is not None
        assert account.ended_at - account.started_at == 12_000

    def test_every_change_is_in_the_audit_trail(self, rig: Rig) -> None:
        lease = rig.reserve()
        rig.report(alive=[lease])
        rig.release(lease)
        rig.report()
        trail = rig.trail(lease["id"])
        assert trail == [("ada", "reserved"), ("gpu1", "active"), ("ada", "draining"), ("gpu1", "released")]


class TestRestarts:
    def test_a_controllers_restart_loses_and_doubles_nothing(self, rig: Rig) -> None:
        leases = [rig.reserve(f"{n}.ipynb") for n in range(3)]
        rig.now += 100 * TTL
        rig.restart()
        rig.report(alive=leases)
        rig.write(sweep)
        assert [rig.state(lease) for lease in leases] == ["active"] * 3
        assert rig.reserve("0.ipynb")["id"] == leases[0]["id"]
        rig.pass_time(TTL - 1)
        assert len(rig.renew(*leases).renewed) == 3

    def test_what_nobody_renews_after_a_restart_ends_one_time_to_live_later(self, rig: Rig) -> None:
        lease = rig.reserve()
        rig.now += 100 * TTL
        rig.restart()
        rig.pass_time(TTL - 1)
        assert rig.state(lease) == "reserved"
        rig.pass_time(round(SPREAD * TTL) + 1)
        assert rig.state(lease) == "quarantined"

    def test_what_nobody_renews_after_a_restart_does_not_end_in_one_instant(self, rig: Rig) -> None:
        rig.set_limit("ml101", {"V100": 1000})
        for number in range(20):
            rig.reserve(f"{number}.ipynb")
        rig.restart()
        ends = {row.expires_at for row in rig.rows(Lease)}
        assert len(ends) > 10
        assert all(rig.now + TTL <= end < rig.now + (1 + SPREAD) * TTL for end in ends if end is not None)


def test_the_table_of_states_is_the_one_of_the_design(rig: Rig) -> None:
    reached = {to for _, to in TABLE}
    assert reached == set(State)
    for (before, after), who in TABLE.items():
        assert who
        assert before not in FINAL or after == State.QUARANTINED
    lease = rig.reserve()

    def jump(tx: Transaction) -> None:
        move(tx, tx.book.leases[lease["id"]], State.FREED, who=Who.AGENT, actor="x")

    with pytest.raises(IllegalTransition, match="reserved to freed by agent"):
        rig.write(jump)
    assert rig.state(lease) == "reserved"
