"""Rows of every table, as a small pool has them, and how to write them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpu_kernels.pool.ledger.state.rows import (
    Account,
    Agent,
    AgentToken,
    Change,
    ClassHour,
    Event,
    Gpu,
    GroupProperty,
    Lease,
    Quota,
    Row,
    Seat,
    Share,
    Slice,
    TaughtRules,
    Window,
)
from gpu_kernels.pool.ledger.stores import Store
from gpu_kernels.units import parse_size

T = 1_800_000_000_000
AGENT = Agent(
    name="gpu1",
    owner="gpu-server",
    boot_id="1",
    address="tcp://h:1",
    version="1",
    registered_at=T,
    reported_at=T,
)
AGENT_TOKEN = AgentToken(sha256="5e" * 32, agent="gpu1", created_by="root", created_at=T)
GPU = Gpu(
    id=1,
    agent_name="gpu1",
    uuid="GPU-1",
    index=0,
    gpu_class="V100",
    device="software",
    name="V100 (software GPU)",
    total_mib=33000,
    offered=True,
    offered_class="V100",
    offered_mib=32768,
    allocatable_mib=32768,
)
INSTITUTION = Account(name="institution", kind="institution", created_at=T)
COURSE = Account(
    name="ml101",
    kind="course",
    parent="institution",
    weight=0.5,
    rules={"leases": 2, "budgets": [{"hours": 1.5, "per": "week"}]},
    created_at=T,
)
CLASS_HOUR = ClassHour(
    id="h1",
    course="ml101",
    size=parse_size("0.1 V100"),
    seats=1,
    weekdays="15",
    start="09:15",
    minutes=90,
    time_zone="Europe/Berlin",
    first_date="2027-01-01",
    last_date="2027-03-01",
    except_dates=("2027-01-11", "2027-01-18"),
    created_by="grace",
    created_at=T,
)
WINDOW = Window(
    id="w1", class_hour="h1", course="ml101", starts_at=T + 10, ends_at=T + 20, lead_at=T + 5, late_at=T + 15
)
SEAT = Seat(window="w1", number=1, gpu_id=1, mib=3276, thousandths=100)


def lease(name: str = "l1", **values: Any) -> Lease:
    """A queued request, but for ``values``."""
    given: dict[str, Any] = {
        "id": name,
        "state": "queued",
        "user": "ada",
        "course": "ml101",
        "size": parse_size("0.1 V100"),
        "key": f"key of {name}",
        "live_key": f"key of {name}",
        "body_hash": "00",
        "server": "",
        "path": f"{name}.ipynb",
        "place": "waiting",
        "holder": "kernel-1",
        "turn": T,
        "created_at": T,
        "asked_at": T,
        "give_up_at": T + 100,
        **values,
    }
    return Lease(**given)


def granted(name: str = "l1", **values: Any) -> Lease:
    held = {"state": "reserved", "place": "current", "agent_name": "gpu1", "gpu_class": "V100", "epoch": 1}
    return lease(name, **{**held, "granted_at": T, "expires_at": T + 60, "thousandths": 100, **values})


def ended(name: str = "l1", at: int = T + 50, **values: Any) -> Lease:
    over = {"state": "released", "place": None, "live_key": None, "ended_at": at}
    return granted(name, **{**over, **values})


def part(of: str = "l1", **values: Any) -> Slice:
    """A lease's slice of ``GPU``."""
    given: dict[str, Any] = {
        "lease_id": of,
        "gpu_id": 1,
        "gpu_uuid": "GPU-1",
        "gpu_class": "V100",
        "user": "ada",
        "course": "ml101",
        "mib": 3276,
        "thousandths": 100,
        "started_at": T,
        **values,
    }
    return Slice(**given)


def event(number: int, **values: Any) -> Event:
    given: dict[str, Any] = {"at": T, "actor": "ada", "kind": "reserved", "subject": "l1", **values}
    return Event(id=number, **given)


POOL: tuple[Row, ...] = (
    AGENT,
    AGENT_TOKEN,
    GPU,
    INSTITUTION,
    COURSE,
    Quota(account="ml101", gpu_class="V100", nominal=100, lending_limit=50, hard_limit=1000),
    TaughtRules(account="ml101", rules={"max_leases": 1, "paused": "Prüfung"}, changed_at=T),
    Share(account="ml101", user="", gpu_class="V100", usage=12.25, at=T),
    GroupProperty(group="ml101", name="gpu_limit", value="0.1 V100", at=T),
    GroupProperty(group="ml101", name="gpu_max_size", value="0.1", fault="no", faulty_value="0,5", at=T),
    CLASS_HOUR,
    WINDOW,
    SEAT,
)
ONE_OF_EACH: tuple[Row, ...] = (
    *POOL,
    granted(labels={"notebook": "Übung 1 “β”.ipynb"}),
    part(),
    event(1, detail={"from": None, "to": {"V100": [1, 2]}}),
)


def write(store: Store, *rows: Row) -> int:
    """Put new rows into the store, in one transaction; its time."""
    return apply(store, [Change(None, row) for row in rows])


def change(store: Store, row: Row, **values: Any) -> Any:
    """Change a row that is there."""
    after = replace(row, **values)
    apply(store, [Change(row, after)])
    return after


def drop(store: Store, *rows: Row) -> None:
    apply(store, [Change(row, None) for row in rows])


def apply(store: Store, changes: list[Change]) -> int:
    now = store.begin()
    try:
        store.write(changes)
        store.commit()
    except BaseException:
        store.rollback()
        raise
    return now


def everything(store: Store, ended_since: int = 0) -> set[str]:
    """What a load gives, as comparable texts (some fields cannot be hashed)."""
    store.begin(writes=False)
    try:
        return {repr(row) for row in store.load(ended_since).rows}
    finally:
        store.rollback()
