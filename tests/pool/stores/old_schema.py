"""A ledger as the first schema had it, with something of everything in it."""

from __future__ import annotations

from typing import Any

from alembic import command
from sqlalchemy import text

from gpu_kernels.pool.ledger.stores.database import Database
from gpu_kernels.pool.ledger.stores.schema import configuration, migrating

T = 1_700_000_000_000
Rows = dict[str, list[dict[str, Any]]]

LEASE: dict[str, Any] = {
    "reason": None, "course": "ml101", "size": "0.1 V100", "body_hash": "00", "server": "", "holder": "k1",
    "labels": '{"notebook": "a.ipynb"}', "turn": T, "created_at": T, "asked_at": T, "give_up_at": T + 60,
    "granted_at": T + 1, "expires_at": T + 61, "replaced_at": None, "ended_at": None, "agent_name": "gpu1",
    "epoch": 1, "end_seq": None, "gpu_class": "V100", "device": "software", "thousandths": 100,
    "used_mib": 5, "peak_mib": 7, "sessions": 1, "launches": 99,
}  # fmt: skip
NOT_GRANTED = {
    "granted_at": None, "expires_at": None, "agent_name": None, "gpu_class": None, "device": None, "epoch": 0,
    "thousandths": 0,
}  # fmt: skip
AGENT: dict[str, Any] = {
    "owner": "gpu-server", "boot_id": "b1", "address": "tcp://h:1", "version": "0.1", "epoch": 5,
    "target_seq": 9, "reported_seq": 8, "registered_at": T, "reported_at": T + 9,
}  # fmt: skip
GPU: dict[str, Any] = {
    "index": 0, "gpu_class": "V100", "device": "software", "name": "V100 (software GPU)", "total_mib": 33000,
    "offered": True, "offered_class": "V100", "offered_mib": 32768, "allocatable_mib": 32768,
}  # fmt: skip


def _lease(name: str, state: str, place: str | None, **values: Any) -> dict[str, Any]:
    key = f"key of {name}"
    named = {"id": name, "state": state, "user": "ada", "path": f"{name}.ipynb", "place": place, "key": key}
    return {**LEASE, **named, "live_key": key if place else None, **values}


def _part(of: str, gpu: int) -> dict[str, Any]:
    return {"lease_id": of, "gpu_id": gpu, "mib": 3276, "thousandths": 100}


def _usage(number: int, of: str, gpu: str, ended_at: int | None = None) -> dict[str, Any]:
    return {
        **{"id": number, "lease_id": of, "user": "ada", "course": "ml101", "gpu_class": "V100"},
        **{"gpu_uuid": gpu, "mib": 3276, "thousandths": 100, "started_at": T + 1, "ended_at": ended_at},
    }


ROWS: Rows = {
    "agents": [
        {**AGENT, "name": name} for name in ("gpu1", "gpu2")
    ],
    # The same GPU was moved from one server to another.
    "gpus": [
        {**GPU, "id": 1, "agent_name": "gpu2", "uuid": "GPU-1", "used_mib": 0, "used_thousandths": 0},
        {**GPU, "id": 2, "agent_name": "gpu1", "uuid": "GPU-1", "used_mib": 6552, "used_thousandths": 200},
        {**GPU, "id": 3, "agent_name": "gpu1", "uuid": "GPU-3", "used_mib": 3276, "used_thousandths": 100},
    ],
    "courses": [{"name": "cv202", "created_at": T - 5}, {"name": "ml101", "created_at": T}],
    "course_limits": [
        {"course": "ml101", "gpu_class": "A100", "thousandths": 0},
        {"course": "ml101", "gpu_class": "V100", "thousandths": 300},
    ],
    "leases": [
        _lease("active", "active", "current"),
        _lease("draining", "draining", None, end_seq=9),
        _lease("forgotten-key", "active", "current", live_key=None, path="Übung 'β'.ipynb"),
        _lease("freed", "freed", None, ended_at=T + 70, reason="the GPU server restarted", end_seq=7),
        _lease("queued", "queued", "waiting", **NOT_GRANTED),
        _lease("withdrawn", "released", None, ended_at=T + 5, **NOT_GRANTED),
    ],
    "lease_slices": [
        _part("active", 2), _part("draining", 2), _part("forgotten-key", 3), _part("freed", 2)
    ],
    "usage": [
        _usage(1, "active", "GPU-1"),
        _usage(2, "draining", "GPU-1"),
        _usage(3, "forgotten-key", "GPU-3"),
        _usage(4, "freed", "GPU-1", T + 70),
        _usage(5, "pruned long ago", "GPU-3", T + 3),
    ],
    "events": [
        {"id": 1, "at": T, "actor": "ada", "kind": "active", "subject": "l1", "detail": '{"from": null}'},
        {"id": 4, "at": T, "actor": "grace", "kind": "limit", "subject": "ml101", "detail": "{}"},
    ],
}  # fmt: skip


def to_revision(database: Database, revision: str) -> None:
    """Migrate up or down."""
    config = configuration()
    with migrating(database) as connection:
        config.attributes["connection"] = connection
        if connection.dialect.has_table(connection, "leadership"):
            command.downgrade(config, revision)
        else:
            command.upgrade(config, revision)


def fill(database: Database, rows: Rows = ROWS) -> None:
    """Write rows into a database of the first schema."""
    with migrating(database) as connection:
        for table, values in rows.items():
            if values:
                names = list(values[0])
                columns = ", ".join(f'"{name}"' for name in names)
                marks = ", ".join(f":{name}" for name in names)
                connection.execute(text(f'INSERT INTO "{table}" ({columns}) VALUES ({marks})'), values)


def read(database: Database) -> Rows:
    """Everything in a database of the first schema, sorted."""
    result: Rows = {}
    with migrating(database) as connection:
        for table, values in ROWS.items():
            names = list(values[0])
            texts = [f'CAST("{n}" AS TEXT)' if n in ("labels", "detail") else f'"{n}"' for n in names]
            found = connection.execute(text(f'SELECT {", ".join(texts)} FROM "{table}"')).all()
            result[table] = sorted((dict(zip(names, row, strict=True)) for row in found), key=repr)
    return result


def revision_of(database: Database) -> str | None:
    with migrating(database) as connection:
        if not connection.dialect.has_table(connection, "alembic_version"):
            return None
        found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
        return None if found is None else str(found)
