"""Databases of older versions become ones of this version, and back, with what is in them."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text

from gpu_kernels.pool.ledger.state.rows import Account, Agent, Event, Gpu, GroupProperty, Lease, Quota, Slice
from gpu_kernels.pool.ledger.stores import Deposed
from gpu_kernels.pool.ledger.stores.database import Database
from gpu_kernels.pool.ledger.stores.schema import NewerDatabase, migrating
from gpu_kernels.pool.ledger.stores.sql import SqlStore, open_database
from gpu_kernels.pool.ledger.stores.tables import METADATA
from tests.pool.stores.examples import ONE_OF_EACH, everything, write
from tests.pool.stores.old_schema import ROWS, T, fill, read, revision_of, to_revision

KILLED = """
import os, signal, sys
from sqlalchemy import event
from sqlalchemy.engine import Engine
from gpu_kernels.pool.ledger.stores.sql import open_database
from tests.pool.stores.old_schema import to_revision

url, revision, left = sys.argv[1], sys.argv[2], int(sys.argv[3])

def count(*ignored):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

event.listen(Engine, "after_cursor_execute", count)
to_revision(open_database(url), revision)
print(left)
"""


@pytest.fixture
def database(url: str) -> Database:
    """An empty database of each kind."""
    return open_database(url)


@pytest.fixture
def old(database: Database) -> Database:
    """A database of the first schema, with rows in it."""
    to_revision(database, "0001")
    fill(database)
    return database


def schema(database: Database) -> set[str]:
    """What the database has, as it says it itself."""
    lite = """
        SELECT sql FROM sqlite_master WHERE name NOT LIKE '%alembic%' AND sql IS NOT NULL
    """
    postgresql = """
        SELECT c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || a.attnotnull
               || COALESCE(l.collname, '')
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid LEFT JOIN pg_collation l
             ON l.oid = a.attcollation
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND a.attnum > 0
              AND NOT a.attisdropped
        UNION ALL
        SELECT conname || ' on ' || conrelid::regclass || ' ' || pg_get_constraintdef(oid)
        FROM pg_constraint WHERE connamespace = 'public'::regnamespace
        UNION ALL
        SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'
        UNION ALL
        SELECT relname || ' ' || reloptions::text FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND reloptions IS NOT NULL
    """
    with migrating(database) as connection:
        query = lite if connection.dialect.name == "sqlite" else postgresql
        return {" ".join(row[0].split()) for row in connection.exec_driver_sql(query)}


class TestSchema:
    def test_migrations_make_what_the_tables_say(self, database: Database) -> None:
        """Every column, constraint and index to the letter."""
        to_revision(database, "head")
        migrated = schema(database)
        with migrating(database) as connection:
            METADATA.drop_all(connection)
            METADATA.create_all(connection)
        assert schema(database) == migrated
        assert any("leases" in line for line in migrated)

    def test_a_migrated_database_is_left_alone(self, opened: Callable[[], SqlStore], url: str) -> None:
        first = opened()
        first.lead("one", "")
        write(first, *ONE_OF_EACH)
        before = everything(first)
        opened()
        assert everything(first) == before

    def test_a_newer_database_is_refused_and_not_touched(self, database: Database, url: str) -> None:
        to_revision(database, "head")
        with migrating(database) as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        with pytest.raises(NewerDatabase, match=r"newer version \(schema 9999\).*nothing was changed"):
            SqlStore(url).open()
        assert revision_of(database) == "9999"


def alone(opened: Callable[[], SqlStore]) -> SqlStore:
    """A controller that knows it is the only one: no other may be running on a ledger without terms."""
    store = opened()
    store.lead("one", "", alone=True)
    return store


class TestUpgrade:
    def test_it_carries_everything_over(self, old: Database, opened: Callable[[], SqlStore]) -> None:
        store = alone(opened)
        leases = {lease.id: lease for lease in store.every(Lease)}
        assert set(leases) == {row["id"] for row in ROWS["leases"]}
        active = leases["active"]
        assert (active.state, active.place, active.labels) == ("active", "current", {"notebook": "a.ipynb"})
        assert (active.active_at, active.granted_at, active.start_seq) == (T + 1, T + 1, None)
        assert leases["freed"].ended_at == T + 70
        assert leases["queued"].active_at is None
        assert {gpu.id: gpu.used_mib for gpu in store.every(Gpu)} == {1: 0, 2: 6552, 3: 3276}
        assert {(agent.name, agent.epoch, agent.standing) for agent in store.every(Agent)} == {
            ("gpu1", 5, "open"),
            ("gpu2", 5, "open"),
        }
        assert [(e.id, dict(e.detail)) for e in store.events().rows] == [(4, {}), (1, {"from": None})]

    def test_courses_become_accounts_with_a_hard_limit(
        self, old: Database, opened: Callable[[], SqlStore]
    ) -> None:
        store = alone(opened)
        assert {(a.name, a.kind, a.parent, a.created_at) for a in store.every(Account)} == {
            ("institution", "institution", None, T - 5),
            ("ml101", "course", "institution", T),
            ("cv202", "course", "institution", T - 5),
        }
        quotas = store.every(Quota)
        assert {(q.account, q.gpu_class, q.hard_limit) for q in quotas} == {
            ("ml101", "V100", 300),
            ("ml101", "A100", 0),
        }
        assert all(q.nominal == 0 and q.borrowing_limit is None for q in quotas)

    def test_a_course_may_have_the_institutions_name(
        self, old: Database, opened: Callable[[], SqlStore]
    ) -> None:
        with migrating(old) as connection:
            connection.execute(text("INSERT INTO courses (name, created_at) VALUES ('institution', 1)"))
        accounts = {a.name: (a.kind, a.parent) for a in alone(opened).every(Account)}
        assert accounts["institution"] == ("course", "the institution")
        assert accounts["the institution"] == ("institution", None)

    def test_use_and_accounts_become_one(self, old: Database, opened: Callable[[], SqlStore]) -> None:
        slices = {row.lease_id: row for row in alone(opened).every(Slice)}
        assert {name: (row.gpu_id, row.gpu_uuid, row.ended_at) for name, row in slices.items()} == {
            "active": (2, "GPU-1", None),
            "draining": (2, "GPU-1", None),
            "forgotten-key": (3, "GPU-3", None),
            "freed": (2, "GPU-1", T + 70),
            "pruned long ago": (3, "GPU-3", T + 3),
        }
        assert slices["active"].started_at == slices["active"].active_at == T + 1
        assert all(row.mib == 3276 and row.thousandths == 100 for row in slices.values())

    def test_what_the_store_sums_is_what_the_gpus_say(
        self, old: Database, opened: Callable[[], SqlStore]
    ) -> None:
        store = alone(opened)
        used = {gpu.id: (gpu.used_mib, gpu.used_thousandths) for gpu in store.every(Gpu) if gpu.used_mib}
        assert store.held() == used

    def test_an_empty_ledger_stays_empty(self, database: Database, opened: Callable[[], SqlStore]) -> None:
        to_revision(database, "0001")
        store = alone(opened)
        assert everything(store) == set()

    def test_a_ledger_without_terms_is_left_alone_while_a_controller_may_serve_it(
        self, old: Database, opened: Callable[[], SqlStore]
    ) -> None:
        before = read(old)
        with pytest.raises(Deposed):
            opened().lead("new", "http://new")
        assert revision_of(old) == "0001"
        assert read(old) == before

    def test_a_served_database_is_left_to_the_controller_that_serves_it(
        self, old: Database, opened: Callable[[], SqlStore]
    ) -> None:
        """The newer controller waits on standby, and upgrades when its turn comes."""
        active = alone(opened)
        with migrating(old) as connection:  # as if this were the schema of an older version than the code
            connection.execute(text("UPDATE alembic_version SET version_num = '0001'"))
        newer = opened()
        with pytest.raises(Deposed):
            newer.lead("new", "http://new")
        assert revision_of(old) == "0001"
        with migrating(old) as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = '0004'"))
        active.close()
        assert newer.lead("new", "http://new").term == 2


class TestDowngrade:
    def test_there_and_back_is_the_same(self, old: Database) -> None:
        before = read(old)
        to_revision(old, "head")
        to_revision(old, "0001")
        assert read(old) == before

    def test_new_rows_fit_into_the_old_schema(
        self, database: Database, opened: Callable[[], SqlStore]
    ) -> None:
        store = opened()
        store.lead("one", "")
        write(store, *ONE_OF_EACH)
        store.close()
        to_revision(database, "0001")
        rows = read(database)
        assert [row["id"] for row in rows["leases"]] == ["l1"]
        assert [row["name"] for row in rows["courses"]] == ["ml101"]
        assert [row["thousandths"] for row in rows["course_limits"]] == [1000]
        assert [row["lease_id"] for row in rows["lease_slices"]] == ["l1"]
        assert [(row["id"], row["lease_id"]) for row in rows["usage"]] == [(1, "l1")]
        to_revision(database, "head")
        assert {type(row) for row in opened().every(GroupProperty)} == set()

    def test_the_old_code_goes_on_numbering(self, old: Database) -> None:
        """It leaves the numbers of events, accounts and GPUs to the database."""
        to_revision(old, "head")
        to_revision(old, "0001")
        event = "(at, actor, kind, subject, detail) VALUES (1, 'a', 'b', 'c', '{}')"
        with migrating(old) as connection:
            connection.execute(text(f"INSERT INTO events {event}"))
            assert connection.execute(text("SELECT MAX(id) FROM events")).scalar() == 5

    def test_a_ledger_with_nothing_in_it(self, database: Database) -> None:
        to_revision(database, "head")
        to_revision(database, "0001")
        assert all(rows == [] for rows in read(database).values())
        to_revision(database, "head")


def migrate_and_kill(url: str, revision: str, after: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", KILLED, url, revision, str(after)]
    return subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[3])


class TestInterrupted:
    """kill -9 in the middle of a migration leaves the old state or the new one."""

    @pytest.mark.parametrize("after", [9, 30, 60])
    def test_on_the_way_up(self, old: Database, url: str, after: int) -> None:
        before = read(old)
        killed = migrate_and_kill(url, "head", after)
        assert killed.returncode == -signal.SIGKILL, killed.stdout + killed.stderr
        assert revision_of(old) == "0001"
        assert read(old) == before
        store = SqlStore(url)
        store.open()
        store.lead("one", "", alone=True)
        assert len(store.every(Lease)) == len(ROWS["leases"])
        store.close()

    @pytest.mark.parametrize("after", [5, 68])
    def test_on_the_way_down(self, old: Database, url: str, after: int) -> None:
        before = read(old)
        to_revision(old, "head")
        newest = revision_of(old)
        killed = migrate_and_kill(url, "0001", after)
        assert killed.returncode == -signal.SIGKILL, killed.stdout + killed.stderr
        assert revision_of(old) == newest
        to_revision(old, "0001")
        assert read(old) == before


def test_two_that_start_at_once_take_turns(url: str) -> None:
    stores = [SqlStore(url) for _ in range(3)]
    errors: list[BaseException] = []

    def start(store: SqlStore) -> None:
        try:
            store.open()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=start, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert all(store.every(Event) == [] for store in stores)
    for store in stores:
        store.close()
