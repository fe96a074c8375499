"""A process that begins without a slice gets it from its kernel's attach point, and waits there for it."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .interrupts import pressing
from .minimal_agent import MinimalAgent
from .recorded import Client

ALLOCATE = """
    c = Cuda()
    print("allocated", c.allocate(64) != 0)
"""
BEGIN = """
    cuda = ctypes.CDLL("libcuda.so.1")
    print(cuda.cuInit(0))
"""


class AttachPoint:
    """Answers each request with the same lines; ``goes_on`` holds back what comes after the first."""

    def __init__(self, folder: Path, *lines: dict[str, Any] | bytes) -> None:
        self.lines = lines
        self.requests: list[dict[str, Any]] = []
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.path = folder / "attach.sock"
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.path))
        self.listener.listen(8)
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as requests:
            self.requests.append(json.loads(requests.readline()))
            try:
                for line in self.lines:
                    text = line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n"
                    connection.sendall(text)
                    self.goes_on.wait(60)
            except OSError:
                return

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


@pytest.fixture
def points(tmp_path: Path) -> Iterator[Any]:
    made: list[AttachPoint] = []

    def make(*lines: dict[str, Any] | bytes) -> AttachPoint:
        made.append(AttachPoint(tmp_path, *lines))
        return made[-1]

    yield make
    for point in made:
        point.goes_on.set()
        point.close()


def attached(agent: MinimalAgent, client: Client) -> dict[str, Any]:
    names = ("GPU_KERNELS_AGENT", "GPU_KERNELS_LEASE", "GPU_KERNELS_EPOCH", "GPU_KERNELS_SECRET")
    environment = client.environment_of()
    return {
        "state": "attached",
        "size": "0.02 V100",
        "environment": {"OTHER": "x", **{name: environment[name] for name in names}},
        "text": "",
    }


def waiting(position: int, **more: Any) -> dict[str, Any]:
    told = {"state": "waiting", "size": "0.02 V100", "position": position, "since": 30, "starts_in": 90}
    return {**told, "text": "You are next.", **more}


def without_slice(point: AttachPoint) -> dict[str, str]:
    return {
        "GPU_KERNELS_ATTACH": f"unix://{point.path}",
        "GPU_KERNELS_AGENT": "",
        "GPU_KERNELS_LEASE": "",
    }


def test_what_is_forked_while_a_thread_waits_may_ask_for_itself(client, points) -> None:
    point = points(waiting(2), {"state": "refused", "text": "the course is paused"})
    point.goes_on.clear()
    code = """
        import os, threading
        cuda = ctypes.CDLL("libcuda.so.1")
        waits = threading.Thread(target=lambda: cuda.cuInit(0))
        seen, told = os.pipe()
        output = os.dup(1)
        os.dup2(told, 1)  # the thread's line, in as many writes as it likes
        waits.start()
        os.read(seen, 1)
        child = os.fork()
        if child == 0:
            os.dup2(output, 1)
            os.environ["GPU_KERNELS_ATTACH"] = "unix:///nowhere"
            os._exit(cuda.cuInit(0))
        os.write(output, b"%d\\n" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        os._exit(0)
    """
    assert client.check(code, **without_slice(point)) == "100\n"


def test_the_first_call_gets_the_slice_that_the_kernel_has(agent, client, points) -> None:
    point = points(attached(agent, client))
    assert client.check(ALLOCATE, **without_slice(point)) == "allocated True\n"
    assert point.requests == [{"do": "wait"}]


def test_the_first_call_waits_and_shows_how_the_line_moves(agent, client, points) -> None:
    point = points(
        waiting(3), waiting(2, starts_in=30, since=60), waiting(1, starts_in=None), attached(agent, client)
    )
    done = client.run(ALLOCATE, **without_slice(point))
    assert done.returncode == 0, done.stderr
    shown = done.stdout.replace("\r", "\n").splitlines()
    assert [line.rstrip() for line in shown if line] == [
        "You are next.",
        "waiting for a GPU (0.02 V100): number 3 in the line, about 2 min [#####---------------]",
        "waiting for a GPU (0.02 V100): number 2 in the line, about 30 s [#############-------]",
        "waiting for a GPU (0.02 V100): number 1 in the line",
        "your GPU (0.02 V100) is there, after 30 s",
        "allocated True",
    ]
    assert done.stderr == ""


def test_an_interrupt_ends_the_wait_and_the_next_call_asks_again(agent, client, points) -> None:
    point = points(waiting(3), attached(agent, client))
    point.goes_on.clear()
    process = client.start(
        """
        import signal
        def once(*_):  # as Python does by itself; whoever presses again is not heard while that is handled
            signal.signal(signal.SIGINT, lambda *_: None)
            raise KeyboardInterrupt
        signal.signal(signal.SIGINT, once)
        cuda = ctypes.CDLL("libcuda.so.1")
        try:
            first = []
            first.append(cuda.cuInit(0))
            import time; time.sleep(60)
        except KeyboardInterrupt:
            print("interrupted", first, flush=True)
        sys.stdin.readline()
        print("then", cuda.cuInit(0))
        """,
        **without_slice(point),
    )
    assert process.stdout
    assert process.stdin
    seen = ""
    while "number 3" not in seen:
        seen += process.stdout.read(1)
    with pressing(process):
        while "interrupted [" not in seen:
            seen += process.stdout.read(1)
    point.goes_on.set()
    out, err = process.communicate("go\n", timeout=60)
    assert "your place in the line is kept" in err
    assert "then 0" in out, err


@pytest.mark.parametrize("state", ["refused", "released"])
def test_a_refusal_is_the_controllers_text_and_may_pass(agent, client, points, state) -> None:
    point = points({"state": state, "text": "The budget of ml101 is used up.\nAsk again on Monday."})
    done = client.run(
        """
        cuda = ctypes.CDLL("libcuda.so.1")
        print(cuda.cuInit(0), cuda.cuInit(0))
        """,
        **without_slice(point),
    )
    assert done.stdout == "100 100\n"
    assert "The budget of ml101 is used up.\nAsk again on Monday." in done.stderr
    assert len(point.requests) == 2, "the second call finds out anew"


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"no json\n",
        b"[]\n",
        b'{"state": "attached"}\n',
        b'{"state": 7}\n',
        b'{"state": "attached", "environment": {"GPU_KERNELS_AGENT": "tcp://x"}}\n',
        b'{"state": "attached", "environment": [1, {"a": "b"}]}\n',
        b"{" * 200 + b"\n",
        b'{"a": ' + b"[" * 5000 + b"\n",
        b"x" * 200_000 + b"\n",
    ],
)
def test_nonsense_from_the_attach_point_is_no_slice(agent, client, points, line) -> None:
    done = client.run(BEGIN, **without_slice(points(line)))
    assert done.stdout.endswith("100\n"), done.stderr
    assert "gpu-kernels: no GPU:" in done.stderr


def test_where_nobody_answers_the_environment_counts(agent, client, tmp_path) -> None:
    nowhere = {"GPU_KERNELS_ATTACH": f"unix://{tmp_path / 'gone'}"}
    assert client.check(ALLOCATE, **nowhere) == "allocated True\n"


def test_without_either_the_text_says_what_to_do(client, tmp_path) -> None:
    done = client.run(
        BEGIN, GPU_KERNELS_ATTACH=f"unix://{tmp_path / 'gone'}", GPU_KERNELS_AGENT="", GPU_KERNELS_LEASE=""
    )
    assert done.stdout == "100\n"
    assert "the Jupyter server that asks for this kernel's GPU does not answer" in done.stderr
    assert "Restart the kernel to get a GPU." in done.stderr


def test_a_file_is_told_of_a_wait_once(agent, client, points, tmp_path) -> None:
    point = points(waiting(3), waiting(2), attached(agent, client))
    done = client.check(
        f"""
        out = os.open({str(tmp_path / "out")!r}, os.O_WRONLY | os.O_CREAT, 0o600)
        kept = os.dup(1)
        os.dup2(out, 1)
        c = Cuda()
        os.dup2(kept, 1)
        """,
        **without_slice(point),
    )
    assert done == ""
    why, first, last = (tmp_path / "out").read_text().splitlines()
    assert why == "You are next."
    assert first.startswith("waiting for a GPU (0.02 V100): number 3")
    assert last.startswith("your GPU (0.02 V100) is there,")
