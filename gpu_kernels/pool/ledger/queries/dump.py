"""The state of the pool as a file, and the pool as such a file says it was: a decision can be replayed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, replace
from typing import Any
from zoneinfo import ZoneInfo

from gpu_kernels.errors import InvalidSize
from gpu_kernels.pool.ledger.queries.scene import ask, scene_of
from gpu_kernels.pool.ledger.state.book import Book
from gpu_kernels.pool.ledger.state.rows import (
    TABLES,
    AgentToken,
    ClassHour,
    Event,
    GroupProperty,
    Lease,
    Row,
    Slice,
)
from gpu_kernels.pool.ledger.state.site_policy import SitePolicy
from gpu_kernels.pool.ledger.state.states import FINAL
from gpu_kernels.pool.ledger.stores.memory import MemoryStore
from gpu_kernels.pool.ledger.transaction import Caps, Setting, Timing, Transaction
from gpu_kernels.pool.policy.fairness import Policy
from gpu_kernels.pool.policy.placement import Catalogue, Shape
from gpu_kernels.pool.policy.queue import decide
from gpu_kernels.pool.policy.scene import Patience, Settings
from gpu_kernels.units import Size, parse_size
from gpu_kernels.vocabulary.rules import Rules, Spent

FORMAT = "gpu-kernels pool state 1"
LEFT_OUT = frozenset({AgentToken, ClassHour, Event, GroupProperty})
"""Tables that no decision looks at."""


def dump(tx: Transaction) -> dict[str, Any]:
    """All that decides who is next, as JSON: what ``load`` reads. No secrets, no keys, no labels; names of
    users are in it, since shares and rules are theirs.
    """
    book, timing = tx.book, tx.timing
    leases = {row.id for row in book.leases.values() if row.state not in FINAL}
    tables: dict[str, list[dict[str, Any]]] = {}
    for kind in TABLES:
        if kind in LEFT_OUT:
            continue
        rows: Iterable[Row] = getattr(book, kind.TABLE).values()
        if kind is Lease:
            rows = [_bare(row) for row in book.leases.values() if row.id in leases]
        elif kind is Slice:
            rows = [row for row in book.slices.values() if row.lease_id in leases]
        tables[kind.TABLE] = [_fields(row) for row in rows]
    settings = tx.site.settings
    return {
        "format": FORMAT,
        "now": tx.now,
        "zone": tx.site.zone.key,
        "timing": asdict(timing),
        "settings": {
            "patience": asdict(settings.patience),
            "fairness": asdict(settings.fairness),
            "placement": dict(settings.placement),
            "catalogue": [[str(shape.size), shape.weight] for shape in book.places.index.catalogue.shapes],
            "preemptible": sorted(settings.preemptible),
        },
        "spent": _spent(tx),
        "rows": tables,
    }


def _fields(row: Row) -> dict[str, Any]:
    found = {field.name: getattr(row, field.name) for field in fields(row)}
    return {name: str(value) if isinstance(value, Size) else value for name, value in found.items()}


def _bare(lease: Lease) -> Lease:
    """Without what its user alone should know."""
    live_key = None if lease.live_key is None else lease.id
    return replace(lease, key=lease.id, live_key=live_key, body_hash="", labels={}, holder="")


def _spent(tx: Transaction) -> list[dict[str, Any]]:
    """Of the budgets of those who wait, since they reach further back than the rows."""
    entitlements, found = tx.book.entitlements, []
    for course, user in sorted({(lease.course, lease.user) for lease in tx.book.waiting}):
        budgets = entitlements.budgets.spent(
            course, user, entitlements.rules(course).of(user, tx.now), tx.now
        )
        found.append({"course": course, "user": user, "budgets": [asdict(budget) for budget in budgets]})
    return found


class _Remembered:
    """What was spent, as a dump says it."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.zone = ZoneInfo(document["zone"])
        self._spent = {
            (entry["course"], entry["user"]): tuple(Spent(**budget) for budget in entry["budgets"])
            for entry in document["spent"]
        }

    def spent(self, course: str, user: str, rules: Rules, now: int) -> tuple[Spent, ...]:
        return self._spent.get((course, user), ())

    def add(self, *_: object) -> None:
        """Slices are in what was spent already."""


def load(document: Mapping[str, Any]) -> Transaction:
    """The pool of a dump, as a transaction that nobody commits. Raises ``ValueError`` where the document is
    no such dump.
    """
    if document.get("format") != FORMAT:
        raise ValueError(f"this is no state of a pool: its format is not {FORMAT!r}")
    try:
        return _loaded(document)
    except (KeyError, TypeError, AttributeError, InvalidSize) as error:
        raise ValueError(f"this state of a pool is damaged: {error}") from error


def _loaded(document: Mapping[str, Any]) -> Transaction:
    raw = document["settings"]
    shapes = tuple(Shape(parse_size(text), weight) for text, weight in raw["catalogue"])
    settings = Settings(
        patience=Patience(**raw["patience"]),
        fairness=Policy(**raw["fairness"]),
        placement=raw["placement"],
        catalogue=Catalogue(shapes),
        preemptible=frozenset(raw["preemptible"]),
    )
    site = SitePolicy(zone=ZoneInfo(document["zone"]), settings=settings)
    book = Book(site)
    book.entitlements.budgets = _Remembered(document)  # type: ignore[assignment]
    rows = [
        _row(kind, row)
        for kind in TABLES
        if kind not in LEFT_OUT
        for row in document["rows"].get(kind.TABLE, ())
    ]
    book.load(rows, 0)
    now = int(document["now"])
    setting = Setting(Timing(**document["timing"]), Caps(), site)
    tx = Transaction(book, MemoryStore(lambda: now), setting, now)
    tx.line = decide([ask(tx, lease) for lease in book.waiting], scene_of(tx)).waiting
    return tx


def _row(kind: type[Any], found: Mapping[str, Any]) -> Any:
    """A row of JSON: what is a tuple came as a list, a size as a text."""
    values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in found.items()}
    if kind in (Lease, ClassHour):
        values["size"] = parse_size(values["size"])
    return kind(**values)
