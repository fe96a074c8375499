"""What people type in the hub's admin panel, carried into the ledger; and what is kept when it is bad."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_kernels.pool.ledger.commands import accounts, group_properties
from gpu_kernels.pool.ledger.commands.group_properties import Properties
from gpu_kernels.pool.ledger.state.rows import Account, Event, GroupProperty, Quota
from gpu_kernels.pool.ledger.state.site_policy import SitePolicy
from gpu_kernels.vocabulary.roles import Patterns
from tests.pool.rig import MemoryRig, Rig

pytestmark = pytest.mark.quick

V100 = "V100"


class Hub:
    """A hub's groups, as the admin panel edits them, and the ledger that is told of them."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.groups: dict[str, dict[str, object]] = {}

    def type(self, group: str, **properties: object) -> int:
        """Someone edits properties of a group (None removes one); how many cannot be carried out."""
        there = self.groups.setdefault(group, {})
        there.update(properties)
        self.groups[group] = {name: value for name, value in there.items() if value is not None}
        return self.tell()

    def tell(self) -> int:
        told: dict[str, Properties] = dict(self.groups)
        return self.rig.write(lambda tx: group_properties.apply(tx, told))

    def quota(self, account: str, gpu_class: str = V100) -> Quota | None:
        return self.rig.read(lambda tx: tx.book.quotas.get((account, gpu_class)))

    def account(self, name: str) -> Account:
        return self.rig.read(lambda tx: tx.book.accounts[name])

    def fault(self, group: str, name: str) -> str | None:
        row = self.rig.read(lambda tx: tx.book.group_properties.get((group, name)))
        return None if row is None else row.fault


@pytest.fixture
def hub() -> Iterator[Hub]:
    rig = MemoryRig()
    rig.agent()
    yield Hub(rig)
    assert rig.mismatch() == 0


def test_a_limit_typed_in_the_panel_holds_for_the_next_request(hub: Hub) -> None:
    assert hub.type("ds200", gpu_limit="0.02", room_number="B12") == 0
    lease = hub.rig.reserve(groups=["ds200"])
    assert lease["course"] == "ds200"
    assert hub.quota("ds200") == Quota(account="ds200", gpu_class=V100, hard_limit=20)
    assert ("hub", "property") in hub.rig.trail("ds200")


def test_a_bad_text_is_reported_and_the_last_good_one_stays(hub: Hub) -> None:
    hub.type("ds200", gpu_limit="0.5")
    assert hub.type("ds200", gpu_limit="0,6") == 1
    quota = hub.quota("ds200")
    assert quota is not None
    assert quota.hard_limit == 500
    fault = hub.fault("ds200", "gpu_limit")
    assert fault is not None
    assert fault.startswith("gpu_limit cannot be read as '0,6': write decimals with a point, as in '0.6'.")
    (row,) = hub.rig.rows(GroupProperty)
    assert (row.value, row.faulty_value) == ("V100: 0.5", "0,6")
    assert hub.type("ds200", gpu_limit="0.6") == 0
    assert hub.fault("ds200", "gpu_limit") is None


def test_asking_again_writes_nothing(hub: Hub) -> None:
    hub.type("ds200", gpu_limit="0,5", gpu_weight="2", gpu_parent="nowhere")
    before = len(hub.rig.rows(Event)), hub.rig.rows(GroupProperty)
    hub.rig.now += 60_000
    for _ in range(3):
        assert hub.tell() == 2
    assert (len(hub.rig.rows(Event)), hub.rig.rows(GroupProperty)) == before


def test_a_text_that_is_taken_away_takes_back_what_it_set_and_nothing_else(hub: Hub) -> None:
    rig = hub.rig
    hub.type("ml101", gpu_nominal="0.05", gpu_max_leases="2", gpu_weight="3")
    rules = {"max_leases": 2, "idle": 600}
    rig.write(lambda tx: accounts.put_account(tx, "ml101", actor="x", kind="course", weight=3.0, rules=rules))
    hub.type("ml101", gpu_nominal=None, gpu_max_leases=None, gpu_weight=None)
    assert hub.quota("ml101") == Quota(account="ml101", gpu_class=V100, hard_limit=100), "as configured"
    assert (hub.account("ml101").rules, hub.account("ml101").weight) == ({"idle": 600}, 1.0)
    assert rig.rows(GroupProperty) == []


def test_a_course_whose_limit_is_taken_away_has_no_share_and_not_all_of_it(hub: Hub) -> None:
    hub.type("ds200", gpu_limit="0.5")
    hub.type("ds200", gpu_limit=None)
    assert hub.quota("ds200") is None
    assert hub.rig.read(lambda tx: tx.book.entitlements.tree.room("ds200", V100)) == 0


def test_a_group_that_is_gone_takes_its_properties_along(hub: Hub) -> None:
    hub.type("ds200", gpu_limit="0.5", gpu_idle="10 min")
    del hub.groups["ds200"]
    assert hub.tell() == 0
    assert hub.quota("ds200") is None
    assert hub.account("ds200").rules == {}
    assert hub.rig.rows(GroupProperty) == []


def test_faculties_are_made_before_what_belongs_to_them(hub: Hub) -> None:
    hub.groups = {
        "a-course": {"gpu_parent": "z-sub", "gpu_limit": "1"},
        "z-sub": {"gpu_kind": "faculty", "gpu_parent": "faculty"},
        "faculty": {"gpu_kind": "faculty", "gpu_nominal": "0.5", "gpu_borrowing": "0"},
        "uni": {"gpu_kind": "institution", "gpu_max_leases": "4"},
    }
    assert hub.tell() == 0
    path = hub.rig.read(lambda tx: tx.book.entitlements.tree.path("a-course"))
    assert path == ("uni", "faculty", "z-sub", "a-course")
    assert hub.rig.read(lambda tx: tx.book.entitlements.tree.room("a-course", V100)) == 500


def test_parents_that_are_missing_or_go_in_circles_are_faults_and_heal(hub: Hub) -> None:
    hub.type("a", gpu_kind="faculty", gpu_parent="b")
    assert "there is no such account" in (hub.fault("a", "gpu_parent") or "")
    assert hub.type("b", gpu_kind="faculty", gpu_parent="a") == 1, "one of the two cannot be"
    assert hub.type("b", gpu_parent=None) == 0
    assert hub.account("a").parent == "b"


def test_a_quota_that_contradicts_itself_blames_the_texts_of_that_class_alone(hub: Hub) -> None:
    hub.type("ds200", gpu_limit="V100: 0.5, A100: 1", gpu_nominal="A100: 0.5")
    faults = hub.type("ds200", gpu_nominal="V100: 0.6, A100: 0.7", gpu_lending="A100: 0.1", gpu_weight="2")
    assert faults == 1
    assert "cannot be sure of 0.6 V100" in (hub.fault("ds200", "gpu_nominal") or "")
    assert hub.account("ds200").weight == 2
    assert hub.quota("ds200", "A100") == Quota(
        account="ds200", gpu_class="A100", nominal=500, lending_limit=100, hard_limit=1000
    )
    assert hub.quota("ds200") == Quota(account="ds200", gpu_class=V100, hard_limit=500)
    assert hub.type("ds200", gpu_limit="V100: 0.7, A100: 1") == 0, "and it heals with the other text"
    assert hub.quota("ds200") == Quota(account="ds200", gpu_class=V100, nominal=600, hard_limit=700)


def test_a_text_that_others_need_is_not_taken_away_without_them(hub: Hub) -> None:
    hub.type("ds200", gpu_nominal="0.3", gpu_lending="0.1")
    assert hub.type("ds200", gpu_nominal=None) == 1
    fault = hub.fault("ds200", "gpu_nominal")
    assert fault is not None
    assert fault.startswith("It was taken away and stays in force: ds200 cannot lend 0.1 V100")
    assert hub.quota("ds200") == Quota(account="ds200", gpu_class=V100, nominal=300, lending_limit=100)
    assert hub.type("ds200", gpu_lending=None) == 0
    assert hub.quota("ds200") is None
    assert hub.rig.rows(GroupProperty) == []


def test_a_bare_number_stays_in_force_when_the_pool_gets_a_second_class(hub: Hub) -> None:
    hub.type("ds200", gpu_limit="0.5")
    hub.rig.agent("gpu2", gpu_class="A100")
    assert hub.tell() == 1
    assert "the pool has A100, V100: name the class" in (hub.fault("ds200", "gpu_limit") or "")
    quota = hub.quota("ds200")
    assert quota is not None
    assert quota.hard_limit == 500


def test_properties_on_the_instructors_group_or_one_that_is_no_course_are_said(hub: Hub) -> None:
    assert hub.type("ml101-instructors", gpu_limit="1") == 1
    assert "set it on the students' group" in (hub.fault("ml101-instructors", "gpu_limit") or "")
    hub.rig.ledger.site = SitePolicy(Patterns.of("nbgrader"))
    assert hub.type("staff", gpu_limit="1") == 2
    assert "is not that of a course here" in (hub.fault("staff", "gpu_limit") or "")
    assert hub.type("nbgrader-ds200", gpu_limit="1") == 2
    assert hub.quota("ds200") is not None


def test_two_groups_of_one_course_do_not_fight(hub: Hub) -> None:
    hub.rig.ledger.site = SitePolicy(Patterns.of("canvas"))
    hub.type("course::7", gpu_limit="0.5")
    assert hub.type("course::7::enrollment_type::student", gpu_limit="1") == 1
    quota = hub.quota("7")
    assert quota is not None
    assert quota.hard_limit == 500


def test_a_flood_of_properties_is_bounded(hub: Hub) -> None:
    hub.type("ds200", **{f"gpu_{number}": "x" * 10_000 for number in range(500)})
    rows = hub.rig.rows(GroupProperty)
    assert len(rows) == 40
    assert max(len(row.faulty_value or "") for row in rows) == 500


def test_on_a_database_all_of_it_survives_a_restart(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "ledger.sqlite")
    rig.agent()
    hub = Hub(rig)
    hub.groups = {
        "ds200": {"gpu_parent": "science", "gpu_limit": "0.5", "gpu_idle": "soon"},
        "science": {"gpu_kind": "faculty", "gpu_longest_life": "4 h"},
    }
    assert hub.tell() == 1
    rig.restart()
    assert hub.tell() == 1
    assert rig.read(lambda tx: tx.book.entitlements.rules("ds200").longest_life) == 4 * 3_600_000
    hub.groups = {}
    assert hub.tell() == 0
    assert rig.rows(GroupProperty) == []
    rig.close()


def test_a_text_that_no_database_keeps_stops_no_other_groups(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "ledger.sqlite")
    rig.agent()
    hub = Hub(rig)
    hub.groups["bad\ud800"] = {"gpu_limit": "1"}
    hub.groups["ml\x00"] = {"gpu_limit": "1"}
    hub.groups["ml101"] = {"gpu_\ud800": "1", "gpu_limit": "1,5\ud800", "gpu_weight": {"\x00": "\ud800"}}
    assert hub.type("ds200", gpu_limit="0.5") == 3
    quota = hub.quota("ds200")
    assert quota is not None
    assert quota.hard_limit == 500
    texts = [
        text for row in rig.rows(GroupProperty) for text in (row.name, row.faulty_value or "", row.fault)
    ]
    assert all(text is None or text.isprintable() or "\n" in text for text in texts)
    rig.close()
