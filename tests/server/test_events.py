"""What an open page is told of its kernels' slices, and what becomes of its stream."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest

from gpu_kernels.errors import TooMany
from gpu_kernels.provisioner import attachments
from gpu_kernels.server.asking import THREADS, Asker, Busy
from gpu_kernels.server.streams import MOST_STREAMS, Streams
from tests.provisioner.pool import wait_until
from tests.server.conftest import Server


@contextlib.contextmanager
def events(server):
    """The events of a new stream, as pairs of name and data, for as long as the block lasts."""
    with server.http.stream("GET", "/gpu-lab/api/events") as response:
        assert response.is_success, response.read()
        assert response.headers["Content-Type"].startswith("text/event-stream")
        yield read(response.iter_lines())


def read(lines):
    name = ""
    for line in lines:
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def test_a_stream_begins_with_all_kernels_and_tells_each_change_until_the_kernels_end(server):
    kernel = server.start_kernel()
    with events(server) as stream:
        assert next(stream) == ("kernels", {"ids": [kernel]})
        name, told = next(stream)
        assert (name, told["id"], told["state"]) == ("slice", kernel, "attached")
        server.change(kernel, "release")
        assert next(told for _, told in stream if told.get("state") == "released")["id"] == kernel
        other = server.start_kernel("0.1")
        assert next(told for _, told in stream if told.get("state") == "attached")["id"] == other
        server.http.delete(f"/api/kernels/{kernel}")
        assert ("gone", {"id": kernel}) in stream


def test_the_end_of_a_slice_is_told_though_nobody_looks(server):
    server.start_kernel()
    with events(server) as stream:
        assert next(told for _, told in stream if told.get("ends_in"))["ends_why"] == "longest life"


def test_streams_are_bounded_and_one_that_is_closed_makes_room(server):
    with contextlib.ExitStack() as open_ones:
        for _ in range(MOST_STREAMS):
            # An earlier test's, which is closed, may count until the server has noticed.
            wait_until(lambda: _opens(server, open_ones))
        answer = server.http.get("/gpu-lab/api/events")
        assert answer.is_client_error
        assert "reload this one" in answer.json()["message"]
    wait_until(lambda: _opens(server))


def _opens(server, until=None):
    """Whether one more stream is served, which is left open ``until`` then."""
    try:
        with contextlib.ExitStack() as opened:
            opened.enter_context(events(server))
            if until is not None:
                until.enter_context(opened.pop_all())
            return True
    except AssertionError:
        return False


def test_an_open_stream_does_not_hold_up_the_servers_end(tmp_path, pool):
    server = Server(tmp_path, pool)
    server.start_kernel()
    with events(server) as stream:
        next(stream)
        server.process.terminate()
        assert server.process.wait(60) == 0
    assert pool.in_force() == []
    assert "[E " not in server.log


async def test_a_stream_that_nobody_reads_holds_each_kernel_once():
    streams = Streams(Asker())
    stream = streams.open()
    for _ in range(1000):
        streams._note("one")
        streams._note("two")
    assert await stream.next(60) == ["one", "two"]
    streams.end(stream)


async def test_nobody_listens_to_attachments_while_no_page_is_open():
    before = len(attachments._listeners)
    streams = Streams(Asker(), most=1)
    stream = streams.open()
    assert len(attachments._listeners) == before + 1
    with pytest.raises(TooMany):
        streams.open()
    streams.close()
    assert len(attachments._listeners) == before
    assert stream.closed
    assert streams.open().closed


async def test_questions_that_nobody_answers_are_bounded():
    asker, answered = Asker(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def question():
        asyncio.run_coroutine_threadsafe(answered.wait(), loop).result(60)

    asked = [asyncio.ensure_future(asker.ask(question)) for _ in range(64)]
    await asyncio.sleep(0)
    with pytest.raises(Busy, match="Your kernels go on"):
        await asker.ask(question)
    assert len(asked) > THREADS
    answered.set()
    await asyncio.gather(*asked)
    assert await asker.ask(lambda: 1) == 1
    asker.close()
