"""The clients: from threads, from event loops, and when what they talk to is away or is no controller."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from msgspec.json import encode

from gpu_kernels.client import AsyncPoolClient, PoolClient, Slot
from gpu_kernels.client.calls import Request
from gpu_kernels.errors import CourseLimit, NotActive, PoolUnavailable, Unauthenticated
from gpu_kernels.resources.agents import AgentReport, Registered, Registration
from gpu_kernels.resources.courses import Course, CourseList
from tests.pool.controller import Agent, ThreadedController, reserve, token


class ScriptedServer:
    """Answers each connection with the next of ``answers``, raw; then it refuses connections."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.asked: list[bytes] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        for answer in self.answers:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                self.asked.append(_whole_request(connection))
                connection.sendall(answer)
        self._socket.close()

    def close(self) -> None:
        """Also where not all answers were asked for."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(60)
        self._socket.close()


def _whole_request(connection: socket.socket) -> bytes:
    """Its head and its body, which may come apart: what is left unread resets the connection."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(65536)
        if not part:
            return data
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    told = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    left = int(told[0].partition(b":")[2]) - len(body) if told else 0
    while left > 0 and (part := connection.recv(left)):
        data += part
        left -= len(part)
    return data


@contextmanager
def scripted(*answers: bytes) -> Iterator[ScriptedServer]:
    server = ScriptedServer(*answers)
    yield server
    server.close()


def http(status: str, body: bytes, content_type: str = "application/json") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Connection: close\r\n\r\n" + body


ML101 = Course(name="ml101", limit={}, held={}, quota={}, rules={}, budgets=(), faults=(), instructor=False)
COURSES = http("200 OK", encode(CourseList((ML101,))))
LOST_CONNECTION = b""
PROXY_SAYS_AWAY = http("503 Service Unavailable", b"<html>the service is down</html>", "text/html")


def test_one_client_serves_many_threads(controller: ThreadedController, agent: Agent) -> None:
    eve = controller.client("eve")
    leases: list[str] = []
    threads = [
        threading.Thread(target=lambda n=n: leases.append(reserve(eve, f"{n}.ipynb").id)) for n in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(leases) == sorted(lease.id for lease in eve.list())


def test_one_async_client_serves_one_event_loop_after_another(
    controller: ThreadedController, agent: Agent
) -> None:
    client = AsyncPoolClient(controller.url, token("ada"))

    async def reserve_and_close(path: str) -> str:
        async with client:
            lease = await client.ask("0.02 V100", key=path, slot=Slot("", path), holder="h")
            return (await client.get(lease.id)).state

    assert [asyncio.run(reserve_and_close(path)) for path in ("a", "b")] == ["reserved", "reserved"]


async def test_the_async_client_has_all_calls(controller: ThreadedController, agent: Agent) -> None:
    root = AsyncPoolClient(controller.url, token("root"))
    async with AsyncPoolClient(controller.url, token("grace")) as grace, root:
        lease = await grace.ask("0.1 V100", key="k", slot=Slot("", "a"), holder="h", labels={"a": "b"})
        with pytest.raises(CourseLimit):
            await grace.ask("0.1 V100", key="k2", slot=Slot("", "b"), holder="h")
        assert (await grace.wait_for(lease, 1)).id == lease.id
        assert [seen.id for seen in await grace.list("ml101")] == [lease.id]
        assert (await grace.renew([(lease.id, lease.epoch)])).renewed
        assert (await grace.release(lease.id, "another")).in_force
        assert (await grace.pool()).queued == 0
        assert (await grace.courses())[0].instructor
        assert (await grace.set_limit("ml101", {"V100": 50})).limits == {"V100": 50}
        assert (await grace.course("ml101")).holds == {"V100": 100}
        assert (await root.revoke(lease.id, "exam")).state == "quarantined"
        assert await grace.release_server("") == []
    async with AsyncPoolClient(controller.url, token("gpu-server")) as server:
        told = await server.register_agent("gpu2", Registration("1", "tcp://127.0.0.1:1024", "1", ()))
        assert told == Registered("gpu2", 0, 10.0)
        said = AgentReport(boot_id="1", target_seq=0, leases=())
        assignment = await server.report_agent("gpu2", said)
        assert assignment.leases == ()


def test_a_client_works_on_after_a_fork(controller: ThreadedController, agent: Agent) -> None:
    client = controller.client("ada")
    client.pool()
    child = os.fork()
    if child == 0:
        os._exit(0 if client.pool().queued == 0 else 1)
    assert client.pool().queued == 0
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_controller_that_cannot_be_reached_is_told_in_clear_words() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
    with pytest.raises(PoolUnavailable, match=r"does not answer \(no connection\)") as caught:
        PoolClient(url, "secret-token", 2.0).pool()
    assert "Choose" not in caught.value.message
    assert "choose 'Python 3'" in caught.value.message
    assert "ConnectError" in caught.value.log_message
    assert "secret-token" not in caught.value.log_message + repr(PoolClient(url, "secret-token"))


def test_a_controller_that_says_nothing_ends_the_call_in_its_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(PoolUnavailable, match="it did not answer in time"):
            PoolClient(url, "t", 0.2).pool()


@pytest.mark.parametrize("failure", [LOST_CONNECTION, PROXY_SAYS_AWAY])
def test_a_call_that_found_nobody_is_tried_again(failure: bytes) -> None:
    with scripted(failure, failure, COURSES) as server:
        assert PoolClient(server.url, "t").courses() == [ML101]
        assert len(server.asked) == 3


def test_it_is_tried_three_times_and_no_more() -> None:
    with scripted(LOST_CONNECTION, LOST_CONNECTION, LOST_CONNECTION) as server:
        with pytest.raises(PoolUnavailable):
            PoolClient(server.url, "t").courses()
        assert len(server.asked) == 3


def test_a_refusal_is_not_tried_again() -> None:
    body = {"error": {"code": "course_limit", "message": "m", "retry_after": 5, "details": {}}}
    with scripted(http("409 Conflict", json.dumps(body).encode())) as server:
        with pytest.raises(CourseLimit):
            PoolClient(server.url, "t").courses()
        assert len(server.asked) == 1


@pytest.mark.parametrize(
    "answer",
    [
        http("200 OK", b"<html>a login page</html>", "text/html"),
        http("200 OK", b"[]"),
        http("200 OK", b'{"something": "else"}'),
        http("302 Found", b"", "text/html"),
        http("404 Not Found", b"nothing here", "text/plain"),
    ],
)
def test_what_is_no_controller_is_told_so(answer: bytes) -> None:
    with scripted(answer) as server, pytest.raises(PoolUnavailable, match=r"not a(s a)? pool controller"):
        PoolClient(server.url, "t").courses()


def test_the_environment_describes_the_client() -> None:
    def of(**variables: str) -> PoolClient:
        return PoolClient.from_environment(variables)

    with pytest.raises(PoolUnavailable, match="GPU_KERNELS_CONTROLLER is not set"):
        of(GPU_KERNELS_TOKEN="t")
    with pytest.raises(PoolUnavailable, match="is not an http or https URL"):
        of(GPU_KERNELS_CONTROLLER="localhost:8250", GPU_KERNELS_TOKEN="t")
    with pytest.raises(Unauthenticated, match="GPU_KERNELS_TOKEN or JUPYTERHUB_API_TOKEN"):
        of(GPU_KERNELS_CONTROLLER="http://localhost:8250")
    with pytest.raises(Unauthenticated):
        of(GPU_KERNELS_CONTROLLER="http://localhost:8250", GPU_KERNELS_TOKEN="a\r\nb")
    hub = of(GPU_KERNELS_CONTROLLER="http://localhost:8250/services/gpu/", JUPYTERHUB_API_TOKEN="h")
    assert hub.url == "http://localhost:8250/services/gpu"
    both = of(GPU_KERNELS_CONTROLLER="http://h", JUPYTERHUB_API_TOKEN="h", GPU_KERNELS_TOKEN="own")
    assert both._headers == {"Authorization": "token own"}


STANDBY = http(
    "503 Service Unavailable",
    b'{"error": {"code": "not_active", "message": "m", "retry_after": 1, "details": {}}}',
)


def test_a_standby_is_passed_over_and_the_active_one_remembered() -> None:
    with scripted(STANDBY) as standby, scripted(COURSES, COURSES) as active:
        client = PoolClient(f"{standby.url}, {active.url}/", "t")
        assert client.courses() == client.courses() == [ML101]
        assert client.url == active.url
        assert [len(server.asked) for server in (standby, active)] == [1, 2]


@pytest.mark.parametrize("silent", [True, False])
def test_a_controller_that_is_gone_is_passed_over(silent: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone, scripted(COURSES) as active:
        if not silent:
            gone.close()
        port = gone.getsockname()[1] if silent else 9
        client = PoolClient(f"http://127.0.0.1:{port},{active.url}", "t", 4.0)  # the half of it for each
        assert client.courses() == [ML101]


def test_the_token_goes_to_no_address_that_an_answer_names() -> None:
    with scripted(COURSES) as elsewhere:
        named = json.dumps({"address": elsewhere.url})
        body = STANDBY.partition(b"\r\n\r\n")[2].replace(b'"details": {}', f'"details": {named}'.encode())
        answer = http("503 Service Unavailable", body)
        with scripted(answer, answer, answer) as standby, pytest.raises(NotActive):
            PoolClient(standby.url, "t").courses()
        assert PoolClient(elsewhere.url, "other").courses()
    assert b"token other" in elsewhere.asked[0]


def test_what_must_not_be_repeated_is_sent_once_unless_it_never_left() -> None:
    once = Request("POST", "/courses", dict, {}, repeatable=False)
    with scripted(LOST_CONNECTION, COURSES) as first:
        with pytest.raises(PoolUnavailable):
            PoolClient(first.url, "t").send(once)
        assert PoolClient(first.url, "t").courses()
    with scripted(COURSES) as second:
        assert PoolClient(f"http://127.0.0.1:9,{second.url}", "t").send(once) == {
            "courses": [json.loads(encode(ML101))]
        }


@pytest.mark.parametrize("status", ["502 Bad Gateway", "503 Service Unavailable", "504 Gateway Timeout"])
def test_what_must_not_be_repeated_is_not_sent_again_after_a_proxy_lost_its_answer(status: str) -> None:
    once = Request("POST", "/class-hours", dict, {}, repeatable=False)
    with scripted(http(status, b"<html>upstream</html>", "text/html"), COURSES) as behind_a_proxy:
        with pytest.raises(PoolUnavailable):
            PoolClient(behind_a_proxy.url, "t").send(once)
        assert len(behind_a_proxy.asked) == 1
        assert PoolClient(behind_a_proxy.url, "t").courses()
    with scripted(STANDBY) as standby, scripted(COURSES) as active:
        assert PoolClient(f"{standby.url},{active.url}", "t").send(once)  # a standby has carried out nothing


def test_a_prefix_is_kept(tmp_path: Path) -> None:
    with ThreadedController(tmp_path / "state", prefix="/services/gpu/") as controller:
        assert controller.url.endswith("/services/gpu")
        assert controller.client("ada").pool().gpus == ()
