"""The ledger against a naive model: whatever happens in whatever order, the sums are right."""

from __future__ import annotations

import shutil
from collections import defaultdict
from pathlib import Path
from tempfile import mkdtemp

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gpu_kernels.errors import CourseLimit, KeyReused, PoolError, PoolFull
from gpu_kernels.pool.ledger.queries import pool_views
from gpu_kernels.pool.ledger.state.states import FINAL, HOLDING, IN_FORCE
from tests.pool.rig import TTL, Lease, Rig

USERS = {"ada": "ml101", "bob": "ml101", "eve": "cv202"}
SIZES = ["0.02 V100", "0.05 V100", "0.1 V100", "0.5 V100", "1 V100", "2 V100", "2048 MiB V100", "0.3 GPU"]
users = st.sampled_from(sorted(USERS))
ALLOWED_NEXT = {
    "queued": {"queued", "reserved", "active", "draining", "quarantined", *FINAL},
    "reserved": {"reserved", "active", "draining", "quarantined", "released", "freed"},
    "active": {"active", "draining", "quarantined", "released", "freed"},
    "draining": {"draining", "released"},
    "quarantined": {"quarantined", "freed"},
}


class LedgerMachine(RuleBasedStateMachine):
    """The model is what was answered; the checks are sums over it, as plain as can be."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = mkdtemp()
        self.known: dict[str, Lease] = {}
        self.epochs: dict[str, int] = defaultdict(int)
        self.seqs: dict[str, int] = defaultdict(int)
        self.limits = {"ml101": 300, "cv202": 2500}
        self.limits_were = dict(self.limits)
        self.order: dict[str, int] = {}

    @initialize()
    def start(self) -> None:
        self.rig = Rig(
            Path(self.folder) / "ledger.sqlite",
            {name: {"V100": value, "A100": value} for name, value in self.limits.items()},
        )
        self.rig.agent("gpu1", gpus=2)
        self.rig.agent("gpu2", gpus=1, mib=16384)

    def teardown(self) -> None:
        if hasattr(self, "rig"):
            self.rig.close()
        shutil.rmtree(self.folder)

    def all(self, *states: str) -> list[Lease]:
        """In the order in which they were asked for: ids are random, and a replay must draw the same."""
        leases = sorted(self.rig.leases(ended=True), key=lambda lease: self.order.get(lease["id"], 0))
        return [lease for lease in leases if not states or lease["state"] in states]

    @rule(
        user=users,
        path=st.sampled_from("abcd"),
        size=st.sampled_from(SIZES),
        key=st.integers(0, 5),
        wait=st.sampled_from([0, 30, 600]),
    )
    def reserve(self, user: str, path: str, size: str, key: int, wait: int) -> None:
        before = {lease["id"] for lease in self.all()}
        try:
            lease = self.rig.reserve(
                path, size, user=user, groups=[USERS[user]], key=f"{path}{key}", wait=wait
            )
        except PoolFull:
            self.check_nothing_fits(size, user)
        except (CourseLimit, KeyReused):
            pass
        except PoolError as error:
            assert error.code == "slice_too_large"  # noqa: PT017 - any other refusal would be wrong here
        else:
            self.order.setdefault(lease["id"], len(self.order) + 1)
            if lease["id"] in before:
                assert (lease["user"], lease["slot"]["path"]) == (user, path)
            else:
                assert wait or lease["state"] in IN_FORCE

    def check_nothing_fits(self, size: str, user: str) -> None:
        """Refused as full: then, with nobody queued, no GPU has that much free."""
        if self.all("queued") or not size.endswith("V100") or "MiB" in size:
            return
        number = float(size.split()[0])
        free = [
            gpu.available
            and gpu.used_thousandths + min(number, 1) * 1000 <= 1000
            and gpu.used_mib + int(gpu.allocatable_mib * min(number, 1)) <= gpu.allocatable_mib
            for gpu in self.rig.ledger.read(pool_views.gpus)
        ]
        assert not any(free) if number <= 1 else not all(free[:2])

    @precondition(lambda self: self.all("queued", "reserved", "active"))
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        lease = data.draw(st.sampled_from(self.all("queued", "reserved", "active")))
        right = data.draw(st.booleans())
        self.rig.release(lease, holder=lease["holder"] if right else "nobody")
        after = self.rig.state(lease)
        assert after in (("draining", "released") if right else (lease["state"],))

    @rule()
    def renew_everything(self) -> None:
        for lease in self.all():
            renewal = self.rig.renew(lease, user=lease["user"])
            if lease["state"] not in IN_FORCE:
                assert not renewal.renewed

    @rule(milliseconds=st.sampled_from([1, 1000, TTL // 2, TTL, 20 * TTL]))
    def time_passes(self, milliseconds: int) -> None:
        self.rig.pass_time(milliseconds)

    @rule(name=st.sampled_from(["gpu1", "gpu2"]), data=st.data())
    def report(self, name: str, data: st.DataObject) -> None:
        newest = self.rig.target(name)[0]
        done = data.draw(st.integers(0, newest))
        mine = [lease for lease in self.all(*HOLDING) if lease["agent"]["name"] == name]
        alive = [lease for lease in mine if data.draw(st.booleans())]
        self.rig.report(name, done=done, alive=alive)
        for lease in alive:
            assert self.rig.state(lease) not in FINAL

    @rule(name=st.sampled_from(["gpu1", "gpu2"]))
    def agent_carries_everything_out(self, name: str) -> None:
        self.rig.report(name)
        left = [lease for lease in self.all("draining", "quarantined") if lease["agent"]["name"] == name]
        assert left == []

    @rule(name=st.sampled_from(["gpu1", "gpu2"]), boot=st.sampled_from(["1", "2", "3"]))
    def agent_restarts(self, name: str, boot: str) -> None:
        rebooted = self.rig.boots[name] != boot
        self.rig.agent(
            name, gpus=2 if name == "gpu1" else 1, mib=32768 if name == "gpu1" else 16384, boot=boot
        )
        if rebooted:
            assert not [lease for lease in self.all("active") if lease["agent"]["name"] == name]

    @rule()
    def controller_restarts(self) -> None:
        before = self.all()
        self.rig.restart()
        assert [_identity(lease) for lease in self.all()] == [_identity(lease) for lease in before]

    @rule(course=st.sampled_from(["ml101", "cv202"]), limit=st.sampled_from([0, 20, 300, 2500]))
    def limit_changes(self, course: str, limit: int) -> None:
        self.limits[course] = limit
        self.limits_were[course] = max(limit, self.limits_were[course])
        self.rig.set_limit(course, {"V100": limit})

    @invariant()
    def gpus_hold_what_their_leases_say_and_no_more_than_they_have(self) -> None:
        if not hasattr(self, "rig"):
            return
        sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for lease in self.all(*HOLDING):
            for part in lease["slices"]:
                sums[part["gpu"]][0] += part["mib"]
                sums[part["gpu"]][1] += part["thousandths"]
        for gpu in self.rig.ledger.read(pool_views.gpus):
            assert [gpu.used_mib, gpu.used_thousandths] == sums[gpu.uuid]
            assert gpu.used_mib <= gpu.allocatable_mib
            assert gpu.used_thousandths <= 1000
        assert self.rig.mismatch() == 0

    @invariant()
    def courses_hold_no_more_than_their_limit_and_one_overlap_a_user(self) -> None:
        if not hasattr(self, "rig"):
            return
        for course, limit in self.limits_were.items():
            held = [lease for lease in self.all(*HOLDING) if lease["course"] == course]
            total = sum(part["thousandths"] for lease in held for part in lease["slices"])
            members = sum(of == course for of in USERS.values())
            assert total <= limit + members * limit

    @invariant()
    def states_epochs_and_sequences_only_go_forward(self) -> None:
        if not hasattr(self, "rig"):
            return
        for lease in self.all():
            before = self.known.get(lease["id"])
            if before is None:
                if lease["agent"] is not None:
                    name = lease["agent"]["name"]
                    assert lease["epoch"] > 0
                    self.epochs[name] = max(self.epochs[name], lease["epoch"])
            else:
                allowed = ALLOWED_NEXT.get(before["state"], {before["state"]})
                assert lease["state"] in allowed
                assert before["epoch"] in (0, lease["epoch"])
            self.known[lease["id"]] = lease
        granted = [(lease["agent"]["name"], lease["epoch"]) for lease in self.all() if lease["agent"]]
        assert len(granted) == len(set(granted))
        for name in ("gpu1", "gpu2"):
            seq = self.rig.target(name)[0]
            assert seq >= self.seqs[name]
            self.seqs[name] = seq

    @invariant()
    def agents_are_told_to_serve_exactly_what_is_in_force(self) -> None:
        if not hasattr(self, "rig"):
            return
        told = {target.id for name in ("gpu1", "gpu2") for target in self.rig.target(name)[1]}
        assert told == {lease["id"] for lease in self.all(*IN_FORCE)}


def _identity(lease: Lease) -> tuple[object, ...]:
    return lease["id"], lease["state"], lease["epoch"], lease["holder"], str(lease["slices"])


LedgerMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=30)
TestLedgerMachine = LedgerMachine.TestCase
