"""Databases that fail, each in its own way: what is told, and that the store goes on afterwards."""

from __future__ import annotations

import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from gpu_kernels.errors import LedgerUnavailable, OutcomeUnknown
from gpu_kernels.pool.ledger.state.rows import Change
from gpu_kernels.pool.ledger.stores import Deposed, postgresql
from gpu_kernels.pool.ledger.stores.database import RowMissing
from gpu_kernels.pool.ledger.stores.sql import SqlStore, UnknownDatabase
from tests.pool.stores.examples import AGENT, GPU, POOL, change, event, write
from tests.pool.stores.postgresql import Server, running_server
from tests.pool.stores.test_term import pass_time

MINUTE = 60_000


def leading(url: str, term_ttl: int = MINUTE) -> SqlStore:
    store = SqlStore(url, term_ttl=term_ttl)
    store.open()
    store.lead("one", "http://one")
    return store


def ids(store: SqlStore) -> list[int]:
    return [row.id for row in store.events_after(0)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


class TestSQLite:
    def test_a_file_that_another_program_holds(self, file: Path) -> None:
        store = leading(f"sqlite:///{file}")
        store._connected().execute("PRAGMA busy_timeout = 20")
        other = sqlite3.connect(file, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerUnavailable, match="another program holds it") as refused:
            store.begin()
        assert "SQLITE_BUSY" in refused.value.log_message
        assert str(file) in refused.value.log_message
        assert str(file) not in refused.value.message
        store.begin(writes=False)
        store.rollback()
        other.close()
        write(store, event(1))
        store.close()

    def test_a_full_disk(self, file: Path) -> None:
        store = leading(f"sqlite:///{file}")
        write(store, *POOL)
        connection = store._connected()
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(LedgerUnavailable, match="its disk is full or failing") as refused:
            write(store, *(event(n, detail={"x": "y" * 500}) for n in range(1, 200)))
        assert "SQLITE_FULL" in refused.value.log_message
        assert ids(store) == []
        connection.execute("PRAGMA max_page_count = 1000000")
        write(store, event(1))
        assert ids(store) == [1]
        store.close()

    def test_a_file_that_is_none_of_a_database(self, file: Path) -> None:
        file.write_bytes(b"not a database, whatever its name says" * 100)
        with pytest.raises(LedgerUnavailable, match="its file is damaged"):
            SqlStore(f"sqlite:///{file}").open()
        assert file.read_bytes().startswith(b"not a database")

    def test_a_folder_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(LedgerUnavailable, match="may not be written"):
            SqlStore(f"sqlite:///{tmp_path}/nowhere/ledger.sqlite").open()


@pytest.mark.parametrize("url", ["mysql://h/x", "sqlite://", "sqlite:///:memory:", "oracle://h:1/x"])
def test_what_a_ledger_cannot_be_kept_in(url: str) -> None:
    with pytest.raises(UnknownDatabase, match="A ledger cannot be kept in"):
        SqlStore(url)


def test_a_password_is_in_no_text() -> None:
    with pytest.raises(UnknownDatabase) as refused:
        SqlStore("mysql://me:hunter2@h/x")
    assert "hunter2" not in str(refused.value)
    with pytest.raises(LedgerUnavailable) as away:
        SqlStore("postgresql://me:hunter2@/x?host=/nowhere").open()
    assert "hunter2" not in away.value.message + away.value.log_message


def test_a_row_that_somebody_took_away_is_noticed(sql_store: SqlStore) -> None:
    write(sql_store, *POOL)
    sql_store.begin()
    sql_store._connected().execute("DELETE FROM seats")
    sql_store._connected().execute("DELETE FROM gpus")
    sql_store.commit()
    with pytest.raises(RowMissing, match=r"UPDATE .*gpus.*: 0 of 1 rows"):
        change(sql_store, GPU, used_mib=5)
    write(sql_store, event(1))


def test_what_postgresql_cannot_take_is_that_rows_fault_and_no_outage(postgresql_url: str) -> None:
    """So that the others of its batch are tried without it."""
    store = leading(postgresql_url)
    with pytest.raises(psycopg.errors.ProgramLimitExceeded):
        write(store, event(1, subject="".join(chr(33 + n % 90) + chr(0x4E00 + n) for n in range(9000))))
    with pytest.raises(psycopg.DataError):
        write(store, event(1, subject="a\0b"))
    with pytest.raises(psycopg.IntegrityError):
        write(store, event(1), event(1))
    write(store, event(1))
    store.close()


@pytest.fixture(scope="module")
def own_server() -> Iterator[Server]:
    """A server to be stopped, for these tests alone."""
    with running_server(fsync=False) as server:
        yield server


@pytest.fixture
def server(own_server: Server) -> Iterator[Server]:
    yield own_server
    if not own_server.running:
        own_server.start()


class TestPostgreSQL:
    def test_a_server_that_crashes_and_comes_back(self, server: Server) -> None:
        store = leading(server.new_database())
        write(store, AGENT, event(1))
        store.begin()
        store.write([Change(None, event(2))])
        server.stop(crash=True)
        with pytest.raises(LedgerUnavailable):
            store.commit()
        store.rollback()
        with pytest.raises(LedgerUnavailable, match="its database server does not answer"):
            store.begin()
        with pytest.raises(LedgerUnavailable, match="its database server does not answer"):
            store.events()
        server.start()
        assert ids(store) == [1]
        write(store, event(2))
        assert ids(store) == [1, 2]
        store.close()

    def test_a_server_that_is_restarted_between_two_transactions_is_not_noticed(self, server: Server) -> None:
        store = leading(server.new_database())
        assert ids(store) == []
        server.stop()
        server.start()
        write(store, event(1))
        assert ids(store) == [1]
        store.close()

    def test_a_session_that_an_administrator_ends(self, server: Server) -> None:
        store = leading(server.new_database())
        store.begin()
        end_sessions(server, store)
        with pytest.raises(LedgerUnavailable):
            store.write([Change(None, event(1))])
        store.rollback()
        assert ids(store) == []
        write(store, event(1))
        store.close()

    @pytest.mark.parametrize("written", [False, True], ids=["begun", "written"])
    def test_one_that_stands_still_in_a_transaction_does_not_keep_the_lock(
        self, server: Server, written: bool
    ) -> None:
        url = server.new_database()
        other = SqlStore(url)
        other.open()
        other._terms.ttl = SHORT  # its own transactions may last, also where this machine stands still
        still, before = standing_still(url, written)
        assert take(other) == before + 1
        with pytest.raises(LedgerUnavailable):
            still.write([Change(None, event(2))])
        still.rollback()
        with pytest.raises(Deposed):
            still.begin()
        assert ids(other) == []
        still.close()
        write(other, event(1))
        other.close()

    @pytest.mark.parametrize("how", ["load", "write", "commit"])
    def test_one_that_has_begun_and_says_nothing_is_ended_and_told_that_it_may_try_again(
        self, server: Server, how: str
    ) -> None:
        """By the server itself, though nobody else is there to take the term."""
        still, _ = standing_still(server.new_database(), written=False)
        wait_until_ended(server, still._connected().info.backend_pid)
        go_on = {
            "load": lambda: list(still.load(0).rows),
            "write": lambda: still.write([Change(None, event(1))]),
            "commit": still.commit,
        }
        with pytest.raises(LedgerUnavailable, match="does not answer"):
            go_on[how]()
        still.rollback()
        assert ids(still) == []
        still.close()

    def test_one_on_standby_takes_over_after_a_restart_too(self, server: Server) -> None:
        url = server.new_database()
        leader, other = leading(url), SqlStore(url, term_ttl=MINUTE)
        other.open()
        with pytest.raises(Deposed):
            other.lead("two", "")
        leader.close()
        server.stop()
        server.start()
        with suppress(LedgerUnavailable):
            other.lead("two", "")
        assert other.lead("two", "").term in (2, 3)
        write(other, event(1))
        other.close()

    def test_a_transaction_under_way_is_left_alone(self, server: Server) -> None:
        """Only what is older than a term is ended."""
        url = server.new_database()
        store = leading(url, term_ttl=MINUTE)
        store.begin()
        other = SqlStore(url, term_ttl=MINUTE)
        assert other._database.evict(other._connected(), MINUTE) == (0, 1)
        store.write([Change(None, event(1))])
        store.commit()
        assert other._database.evict(other._connected(), 0) == (0, 0)
        store.close()

    def test_who_may_take_the_term_does_not_wait_behind_a_transaction_under_way(self, server: Server) -> None:
        """It could not end that, should it stand still, while it waits for its lock."""
        url = server.new_database()
        store = leading(url)
        pass_time(store, 2 * MINUTE)
        store.begin()
        store.write([Change(None, event(1))])
        other = SqlStore(url, term_ttl=MINUTE)
        other.open()
        with pytest.raises(Deposed):
            other.lead("two", "")
        store.commit()
        with pytest.raises(Deposed):
            other.lead("two", "")
        write(store, event(2))
        assert ids(other) == [1, 2]
        other.close()
        store.close()

    def test_a_server_that_is_a_replica_now(self, server: Server) -> None:
        url = server.new_database()
        store = leading(url)
        name = urlsplit(url).path[1:]
        server.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        end_sessions(server, store)
        with pytest.raises(LedgerUnavailable):
            store.begin()
        server.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
        write(store, event(1))
        store.close()

    def test_a_server_that_is_too_old(self, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(postgresql, "OLDEST", 990000)
        with pytest.raises(postgresql.TooOld, match="13 or later is needed"):
            SqlStore(server.url("postgres")).open()


SHORT = 500
"""Milliseconds, for one that is to lose its term."""


def standing_still(url: str, written: bool) -> tuple[SqlStore, int]:
    """One that leads, has begun, perhaps written, and says no more; and its term. It begins anew where this
    machine itself stood still for so long before it had come so far."""
    end = time.monotonic() + 60
    while True:
        store = SqlStore(url, term_ttl=SHORT)
        try:
            store.open()
            term = store.lead("one", "http://one").term
            store.begin()
            if written:
                store.write([Change(None, event(1))])
            return store, term
        except (LedgerUnavailable, Deposed):
            store.close()
            assert time.monotonic() < end


def end_sessions(server: Server, store: SqlStore) -> None:
    pid = store._connected().info.backend_pid
    server.execute(f"SELECT pg_terminate_backend({pid})")
    wait_until_ended(server, pid)


def wait_until_ended(server: Server, pid: int) -> None:
    with psycopg.connect(server.url("postgres"), autocommit=True) as probe:
        while probe.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", (pid,)).fetchone():
            pass


def take(store: SqlStore) -> int:
    """The term, when its time has come."""
    end = time.monotonic() + 60
    while True:
        try:
            return store.lead("two", "http://two").term
        except Deposed:
            assert time.monotonic() < end
            time.sleep(0.02)


class LosesCommits:
    """A way to a PostgreSQL server that breaks at the next COMMIT once it is ``armed``: before the server has
    it, or ``after``, when the server has carried it out and the answer is under way.
    """

    def __init__(self, server_folder: Path, *, after: bool) -> None:
        self.folder = Path(mkdtemp(prefix="pg-way-"))
        self._server = str(server_folder / ".s.PGSQL.5432")
        self._after = after
        self.armed = False
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.folder / ".s.PGSQL.5432"))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._server)
                threading.Thread(target=self._carry, args=(client, server), daemon=True).start()
                threading.Thread(target=self._back, args=(server, client), daemon=True).start()

    def _carry(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(65536):
                if self.armed and b"COMMIT" in data:
                    self.armed = False
                    client.shutdown(socket.SHUT_WR)  # no answer reaches the client any more
                    if self._after:
                        server.sendall(data)
                        server.settimeout(10)
                        client.close()
                        return
                    break
                server.sendall(data)
        for end in (client, server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _back(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                client.sendall(data)

    def close(self) -> None:
        self._listener.close()
        rmtree(self.folder)


class TestACommitWithoutAnAnswer:
    @pytest.mark.parametrize("after", [False, True], ids=["never arrived", "was carried out"])
    def test_it_is_told_as_unknown_and_a_load_says_which_it_was(
        self, postgresql_url: str, after: bool
    ) -> None:
        folder = Path(parse_qs(urlsplit(postgresql_url).query)["host"][0])
        with closing(LosesCommits(folder, after=after)) as way:
            store = leading(postgresql_url.replace(str(folder), str(way.folder)))
            store.begin()
            store.write([Change(None, AGENT), Change(None, event(1))])
            way.armed = True
            with pytest.raises(OutcomeUnknown, match="repeating a request is safe"):
                store.commit()
            store.rollback()
            store.begin()  # as the writer, who waits for the session that was lost
            assert list(store.load(0).rows) == ([AGENT] if after else [])
            store.rollback()
            write(store, event(2))
            store.close()


def test_the_writers_lock_is_kept_while_a_lost_commit_is_under_way(server: Server) -> None:
    """So a load after an unknown outcome sees what came of it: it waits for the session that was lost."""
    url = server.new_database()
    store = leading(url)
    lost = psycopg.connect(url, autocommit=True)
    lost.execute("BEGIN")
    lost.execute(f"SELECT pg_advisory_xact_lock({postgresql.WRITERS_LOCK})")
    lost.execute("INSERT INTO events VALUES (1, 1, 'a', 'b', 'c', '{}')")
    loaded: list[int] = []

    def load() -> None:
        store.begin()
        loaded.append(store.load(0).last_event)
        store.rollback()

    thread = threading.Thread(target=load)
    thread.start()
    waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    with psycopg.connect(url, autocommit=True) as probe:
        while not probe.execute(waiting).fetchone()[0]:  # type: ignore[index]
            assert thread.is_alive()
    assert loaded == []
    lost.execute("COMMIT")
    thread.join()
    assert loaded == [1]
    lost.close()
    store.close()
