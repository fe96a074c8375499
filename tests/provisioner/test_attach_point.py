"""The attach point of a kernel, where its processes ask, under hardship."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
from pathlib import Path

import pytest

from gpu_kernels.provisioner import attach_point, sockets
from gpu_kernels.provisioner.attach_point import AttachPoint
from gpu_kernels.provisioner.attachment import Attachment


@pytest.fixture
def point(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    made = AttachPoint(Attachment("kernel-1", lambda: True))
    yield made
    made.close()


def status(point: AttachPoint) -> str:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(os.fspath(point.path))
        connection.sendall(b'{"do": "status"}\n')
        return str(json.loads(connection.makefile("rb").readline() or b'{"state": "hung up"}')["state"])


def test_who_comes_after_a_lack_of_threads_is_answered(point, monkeypatch):
    thread = threading.Thread
    lacking = threading.Event()
    lacking.set()

    class Threads(thread):
        def start(self) -> None:
            if self.name == "gpu-attach-client" and lacking.is_set():
                raise RuntimeError("can't start new thread")
            super().start()

    monkeypatch.setattr(attach_point.threading, "Thread", Threads)
    for _ in range(attach_point.CONNECTIONS + 1):
        with contextlib.suppress(ConnectionError):
            assert status(point) == "hung up"
    lacking.clear()
    assert status(point) == "released"


@pytest.mark.parametrize("what", ["file", "link", "folder"])
def test_what_lies_at_the_sockets_path_is_no_trouble(tmp_path, monkeypatch, what):
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    at, kept = tmp_path / f"gpu-{sockets.machine()}-kernel-1.sock", tmp_path / "kept"
    kept.write_text("mine")
    if what == "folder":
        (at / "inner").mkdir(parents=True)
    elif what == "link":
        at.symlink_to(kept)
    else:
        at.write_text("stale")
    point = AttachPoint(Attachment("kernel-1", lambda: True))
    assert status(point) == "released"
    point.close()
    assert kept.read_text() == "mine"
    assert not point.path.exists()


LEFT_BY_A_KILLED_SERVER = """
    import os, signal, sys
    from gpu_kernels.provisioner.attach_point import AttachPoint
    from gpu_kernels.provisioner.attachment import Attachment

    points = [AttachPoint(Attachment(name, lambda: True)) for name in ("left-1", "left-2")]
    print(*(point.path for point in points), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def left_by_a_killed_server(program: str = LEFT_BY_A_KILLED_SERVER) -> list[Path]:
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True
    )
    assert ended.returncode == -signal.SIGKILL
    return [Path(path) for path in ended.stdout.split()]


@pytest.fixture
def first_of_its_process(monkeypatch):
    """As in a server that has made no attach point yet."""
    monkeypatch.setattr(sockets, "_swept", set())


@pytest.fixture
def short_folder():
    """A folder whose path leaves room for a socket's name; pytest's own grow with each run."""
    with tempfile.TemporaryDirectory(prefix="gk", dir="/tmp") as folder:
        yield Path(folder)


@pytest.mark.usefixtures("first_of_its_process")
def test_what_a_killed_server_left_is_removed_and_nothing_of_those_who_live(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    left = left_by_a_killed_server()
    assert [path.parent for path in left] == [tmp_path] * 2
    assert all(path.is_socket() for path in left)
    neighbour = AttachPoint(Attachment("neighbour", lambda: True))  # another server of the same user
    sockets._swept.clear()
    for path in left_by_a_killed_server():
        assert path.is_socket()
    notes, full = (f"gpu-{sockets.machine()}-{name}.sock" for name in ("notes", "full"))
    others = {name: tmp_path / name for name in (notes, "kernel-1.json", full)}
    others[notes].write_text("a student's file")
    others["kernel-1.json"].write_text("{}")
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as waiting:
        busy.bind(str(others[full]))
        busy.listen(0)  # its backlog is full with one: it lives, but takes no more now
        waiting.connect(str(others[full]))
        point = AttachPoint(Attachment("kernel-1", lambda: True))
        assert not any(path.exists() for path in left)
        assert all(path.exists() for path in others.values())
        assert status(point) == status(neighbour) == "released"
    point.close()
    neighbour.close()


@pytest.mark.usefixtures("first_of_its_process")
def test_where_the_runtime_folder_is_too_deep_a_killed_servers_folders_are_removed(
    tmp_path, short_folder, monkeypatch
):
    temporary = short_folder
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / ("deep" * 30)))
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    left = left_by_a_killed_server()
    assert [path.parent.parent for path in left] == [temporary] * 2
    mine = temporary / f"gpu-{sockets.machine()}-mine"
    mine.mkdir()
    (mine / "notes").write_text("a student's file")
    point = AttachPoint(Attachment("kernel-1", lambda: True))
    assert not any(path.parent.exists() for path in left)
    assert (mine / "notes").exists()
    assert status(point) == "released"
    point.close()
    assert [path.name for path in temporary.iterdir()] == [mine.name]


LISTENS_ON_ANOTHER_MACHINE = (
    """
    from gpu_kernels.provisioner import sockets

    sockets.machine = lambda: "0badcafe"
"""
    + LEFT_BY_A_KILLED_SERVER
)


@pytest.mark.usefixtures("first_of_its_process")
@pytest.mark.parametrize("runtime", ["", "deep" * 30])
def test_sockets_of_another_machine_stay_where_homes_are_shared(tmp_path, monkeypatch, runtime):
    """They refuse connections here, also while they live: who listens is on the other one."""
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / runtime))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    theirs = left_by_a_killed_server(LISTENS_ON_ANOTHER_MACHINE)
    ours = left_by_a_killed_server()
    point = AttachPoint(Attachment("kernel-1", lambda: True))
    assert all(path.is_socket() for path in theirs)
    assert not any(path.exists() for path in ours)
    assert status(point) == "released"
    point.close()
