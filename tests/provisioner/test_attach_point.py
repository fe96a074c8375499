"""The attach point of a kernel, where its processes ask, under hardship."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading

import pytest

from gpu_kernels.provisioner import attach_point
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
    at, kept = tmp_path / "gpu-kernel-1.sock", tmp_path / "kept"
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
