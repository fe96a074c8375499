"""Kernels that start at once and wait for their slice: what their processes are told, and what is left."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
from contextlib import closing
from pathlib import Path

import pytest

from gpu_kernels.client import Slot, lease_holder
from gpu_kernels.client.keeper import KEEPER
from gpu_kernels.errors import CourseLimit, NoSuchClass, PoolUnavailable
from gpu_kernels.provisioner import attachments, leasing
from tests.provisioner.conftest import point_at
from tests.provisioner.pool import wait_until
from tests.provisioner.test_lease_of_a_kernel import environment_of


class Conversation:
    """A process of the kernel that asks the attach point, as the forwarding client does."""

    def __init__(self, address: str, **request: object) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(60)
        self._socket.connect(address.removeprefix("unix://"))
        self._socket.sendall(json.dumps(request).encode() + b"\n")
        self._lines = self._socket.makefile("rb")

    def next(self) -> dict | None:
        line = self._lines.readline()
        return json.loads(line) if line else None

    def last(self) -> dict | None:
        answers = list(iter(self.next, None))
        self.hang_up()
        return answers[-1] if answers else None

    def hang_up(self) -> None:
        self._lines.close()
        self._socket.close()


def ask(address: str, **request: object) -> dict:
    return Conversation(address, **request).last()


@pytest.fixture
def lazy(specs, make_kernel):
    """Makes a kernel that starts lazily, without waiting at all."""

    def make(size: str = "0.02 V100", first_wait_s: float = 0.0, **config):
        name = "lazy-" + size.replace(" ", "-").replace("/", "-").lower()
        return make_kernel(specs(name, size, start="lazy", first_wait_s=first_wait_s, **config))

    return make


@pytest.fixture
def full(pool):
    """A pool whose GPU is taken, and what gives it back."""
    pool.limit(5000)
    blocker = pool.student.ask("1 V100", key="b", slot=Slot("", "b"), holder="blocker")
    return lambda: pool.student.release(blocker.id, "blocker")


def waiting(pool) -> list[str]:
    return [lease.size for lease in pool.leases() if lease.queued]


def is_there(path: str) -> bool:
    return Path(path).exists()


def address_of(kernel) -> str:
    return environment_of(kernel)["GPU_KERNELS_ATTACH"]


async def test_a_kernel_starts_while_it_waits_and_its_first_call_gets_the_slice_when_it_comes(
    pool, full, lazy
):
    kernel = lazy()
    await kernel.start_kernel()
    environ = environment_of(kernel)
    assert "GPU_KERNELS_LEASE" not in environ
    assert environ["LD_LIBRARY_PATH"].split(":")[0].endswith("remoting/lib/client")
    assert "libnvJitLink" in environ["LD_PRELOAD"], "the pool has software GPUs only"
    await asyncio.to_thread(wait_until, lambda: waiting(pool) == ["0.02 V100"])
    first_call = Conversation(environ["GPU_KERNELS_ATTACH"], do="wait")
    told = await asyncio.to_thread(first_call.next)
    assert (told["state"], told["size"]) == ("waiting", "0.02 V100")
    full()
    answer = await asyncio.to_thread(first_call.last)
    (lease,) = [lease for lease in pool.in_force() if lease.holder == kernel.kernel_id]
    assert answer["state"] == "attached"
    assert answer["environment"]["GPU_KERNELS_LEASE"] == lease.id
    assert answer["environment"]["GPU_KERNELS_SECRET"] == lease.secret
    assert KEEPER.keeps() == [lease.id]
    await kernel.shutdown_kernel(now=True)
    await asyncio.to_thread(wait_until, lambda: pool.leases() == [])


async def test_a_slice_that_is_free_is_there_when_the_kernel_is(pool, lazy):
    kernel = lazy(first_wait_s=100)
    await kernel.start_kernel()
    (lease,) = pool.in_force()
    assert environment_of(kernel)["GPU_KERNELS_LEASE"] == lease.id
    answer = await asyncio.to_thread(ask, address_of(kernel), do="wait")
    assert (answer["state"], answer["lease"]) == ("attached", lease.id)
    await kernel.shutdown_kernel(now=True)


async def test_the_place_in_the_line_stays_when_a_client_hangs_up_and_when_the_kernel_restarts(
    pool, full, lazy
):
    kernel = lazy()
    await kernel.start_kernel()
    await asyncio.to_thread(wait_until, lambda: waiting(pool))
    (queued,) = [lease for lease in pool.leases() if lease.queued]
    call = Conversation(address_of(kernel), do="wait")
    await asyncio.to_thread(call.next)
    call.hang_up()
    await kernel.restart_kernel(now=True)
    assert [lease.id for lease in pool.leases() if lease.queued] == [queued.id]
    full()
    answer = await asyncio.to_thread(ask, address_of(kernel), do="wait")
    assert answer["lease"] == queued.id
    await kernel.shutdown_kernel(now=True)


async def test_a_kernel_that_ends_while_it_waits_waits_no_longer(pool, full, lazy):
    kernel = lazy()
    await kernel.start_kernel()
    await asyncio.to_thread(wait_until, lambda: waiting(pool))
    call = Conversation(address := address_of(kernel), do="wait")
    await asyncio.to_thread(call.next)
    await kernel.shutdown_kernel(now=True)
    assert waiting(pool) == []
    assert attachments.get(kernel.kernel_id) is None
    assert not is_there(address.removeprefix("unix://"))
    await asyncio.to_thread(call.last)


async def test_a_kernel_waits_for_its_classmates_while_the_course_is_at_its_limit(pool, lazy):
    pool.limit(30)
    first, second = lazy(first_wait_s=100), lazy("0.021 V100")
    await first.start_kernel()
    await second.start_kernel()
    await asyncio.to_thread(wait_until, lambda: waiting(pool) == ["0.021 V100"])
    await first.shutdown_kernel(now=True)
    answer = await asyncio.to_thread(ask, address_of(second), do="wait")
    assert (answer["state"], answer["size"]) == ("attached", "0.021 V100")
    await second.shutdown_kernel(now=True)


async def test_what_waiting_cannot_cure_is_refused_at_the_start(pool, lazy):
    with pytest.raises(NoSuchClass):
        await lazy("0.02 H900", first_wait_s=100).start_kernel()
    pool.limit(10)
    with pytest.raises(CourseLimit, match="more than ml101 may hold"):
        await lazy(first_wait_s=100).start_kernel()
    assert pool.leases() == []
    assert attachments.all() == []


async def test_a_server_without_a_pool_says_so_at_the_start(monkeypatch, lazy):
    point_at(monkeypatch, "")
    with pytest.raises(PoolUnavailable, match="No GPU pool is configured"):
        await lazy().start_kernel()
    assert attachments.all() == []


async def test_a_kernel_starts_while_the_controller_is_away_and_says_what_it_waits_for(monkeypatch, lazy):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    point_at(monkeypatch, f"http://127.0.0.1:{port}")
    kernel = lazy()
    await kernel.start_kernel()
    call = Conversation(address_of(kernel), do="wait")

    def trouble() -> bool:
        return "The GPU pool does not answer" in call.next()["text"]

    await asyncio.to_thread(wait_until, trouble)
    call.hang_up()
    await kernel.shutdown_kernel(now=True)


async def test_a_released_slice_is_asked_for_again_by_the_next_call(pool, lazy):
    kernel = lazy(first_wait_s=100)
    await kernel.start_kernel()
    address = address_of(kernel)
    (before,) = pool.in_force()
    answer = await asyncio.to_thread(ask, address, do="release")
    assert answer["state"] == "released"
    assert "given back" in answer["text"]
    assert pool.in_force() == []
    assert KEEPER.keeps() == []
    assert (await asyncio.to_thread(ask, address, do="status"))["state"] == "released"
    answer = await asyncio.to_thread(ask, address, do="wait")
    (after,) = pool.in_force()
    assert (answer["state"], answer["lease"]) == ("attached", after.id)
    assert after.id != before.id
    await kernel.shutdown_kernel(now=True)


async def test_a_restart_does_not_take_again_what_the_student_gave_back(pool, lazy):
    kernel = lazy(first_wait_s=100)
    await kernel.start_kernel()
    await asyncio.to_thread(ask, address_of(kernel), do="release")
    await kernel.restart_kernel(now=True)
    assert pool.in_force() == []
    assert "GPU_KERNELS_REFUSAL" not in environment_of(kernel)
    await kernel.shutdown_kernel(now=True)


async def test_a_slice_that_was_taken_back_is_noticed_by_the_next_life_and_replaced(pool, lazy):
    kernel = lazy(first_wait_s=100)
    await kernel.start_kernel()
    (before,) = pool.in_force()
    pool.admin.revoke(before.id, "maintenance")
    answer = await asyncio.to_thread(ask, address_of(kernel), do="wait")
    assert answer["state"] == "attached"
    assert answer["lease"] != before.id
    await kernel.shutdown_kernel(now=True)


async def test_another_size_is_swapped_in_and_the_old_slice_goes(pool, lazy):
    kernel = lazy(first_wait_s=100)
    await kernel.start_kernel()
    answer = await asyncio.to_thread(ask, address_of(kernel), do="attach", size="1/10 V100")
    assert (answer["state"], answer["size"]) == ("attached", "0.1 V100")
    await asyncio.to_thread(wait_until, lambda: [lease.size for lease in pool.in_force()] == ["0.1 V100"])
    assert KEEPER.keeps() == [answer["lease"]]
    await kernel.shutdown_kernel(now=True)
    await asyncio.to_thread(wait_until, lambda: pool.leases() == [])


async def test_a_refused_size_leaves_what_there_is_and_says_so(pool, lazy):
    pool.limit(50)
    kernel = lazy(first_wait_s=100)
    await kernel.start_kernel()
    address = address_of(kernel)
    for size in ("0.5 V100", "0.1 H900", "a lot", ""):
        answer = await asyncio.to_thread(ask, address, do="attach", size=size)
        assert answer["state"] == "refused"
    answer = await asyncio.to_thread(ask, address, do="attach", size="0.5 V100")
    assert "ml101 may hold" in answer["text"]
    assert answer["text"].endswith("You still have 0.02 V100.")
    assert (await asyncio.to_thread(ask, address, do="status"))["state"] == "attached"
    assert [lease.size for lease in pool.in_force()] == ["0.02 V100"]
    await kernel.shutdown_kernel(now=True)


async def test_who_waits_for_a_larger_slice_keeps_the_smaller_one_and_may_stay_with_it(pool, lazy):
    pool.limit(5000)
    kernel = lazy(first_wait_s=100)
    await kernel.start_kernel()
    pool.student.ask("0.9 V100", key="b", slot=Slot("", "b"), holder="blocker")
    address = address_of(kernel)
    call = Conversation(address, do="attach", size="0.5 V100")
    assert (await asyncio.to_thread(call.next))["state"] == "waiting"
    status = await asyncio.to_thread(ask, address, do="status")
    assert (status["state"], status["size"]) == ("attached", "0.02 V100")
    assert status["wanted"]["size"] == "0.5 V100"
    await asyncio.to_thread(wait_until, lambda: waiting(pool) == ["0.5 V100"])
    assert (await asyncio.to_thread(ask, address, do="keep"))["state"] == "attached"
    answer = await asyncio.to_thread(call.last)
    assert answer["state"] == "refused"
    assert "You still have 0.02 V100" in answer["text"]
    await asyncio.to_thread(wait_until, lambda: waiting(pool) == [])  # it leaves the line by itself
    await kernel.shutdown_kernel(now=True)


async def test_a_wait_that_is_over_ends_and_the_place_stays(pool, full, lazy):
    kernel = lazy()
    await kernel.start_kernel()
    answer = await asyncio.to_thread(ask, address_of(kernel), do="wait", seconds=0.01)
    assert answer["state"] == "waiting"
    await asyncio.to_thread(wait_until, lambda: waiting(pool) == ["0.02 V100"])
    await kernel.shutdown_kernel(now=True)


async def test_a_dead_kernel_that_nobody_cleans_up_after_leaves_the_line(pool, full, lazy, monkeypatch):
    monkeypatch.setattr(lease_holder, "LOOK_UP_S", 0.05)
    kernel = lazy()
    await kernel.start_kernel()
    await asyncio.to_thread(wait_until, lambda: waiting(pool))
    monkeypatch.setattr(leasing, "DEAD_GRACE_S", 0.0)
    kernel.provisioner.process.kill()
    kernel.provisioner.process.wait()
    await asyncio.to_thread(wait_until, lambda: not waiting(pool))
    await kernel.shutdown_kernel(now=True)


async def test_a_start_that_is_cancelled_while_it_waits_a_moment_leaves_nothing(pool, full, lazy):
    starting = asyncio.ensure_future(lazy(first_wait_s=100).start_kernel())
    await asyncio.to_thread(wait_until, lambda: waiting(pool))
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    full()
    await asyncio.to_thread(wait_until, lambda: pool.leases() == [] and attachments.all() == [])


async def test_others_are_told_of_each_change(pool, lazy):
    seen = []

    def listener(_, view) -> None:
        seen.append(view.state)
        raise RuntimeError("a listener that fails holds nobody up")

    unlisten = attachments.listen(listener)
    kernel = lazy(first_wait_s=100)
    await kernel.start_kernel()
    assert attachments.all() == [attachments.get(kernel.kernel_id)]
    await asyncio.to_thread(wait_until, lambda: "attached" in seen)
    await kernel.shutdown_kernel(now=True)
    unlisten()
    assert seen[-1] == "released"


# --- bad input -------------------------------------------------------------------------------------------


@pytest.fixture
async def address(pool, lazy):
    kernel = lazy(first_wait_s=100)
    await kernel.start_kernel()
    yield address_of(kernel)
    await kernel.shutdown_kernel(now=True)


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"nonsense\n",
        b"[]\n",
        b"1\n",
        b"{}\n",
        b'{"do": "dance"}\n',
        b'{"do": ["wait"]}\n',
        b'{"do": "attach"}\n',
        b'{"do": "attach", "size": 7}\n',
        b'{"do": "wait", "seconds": "long"}\n',
        b'{"do": "wait", "seconds": -1}\n',
        b'{"do": "wait", "seconds": NaN}\n',
        b'{"do": "wait", "seconds": true}\n',
        b"\xff\xfe\n",
        b"[" * 4000 + b"\n",
        b"x" * 5000,
    ],
)
async def test_a_request_that_is_none_is_refused_with_the_reason(address, line):
    def converse() -> dict:
        with closing(socket.socket(socket.AF_UNIX)) as client:
            client.settimeout(60)
            client.connect(address.removeprefix("unix://"))
            client.sendall(line)
            return json.loads(client.makefile("rb").readline())

    answer = await asyncio.to_thread(converse)
    assert answer["state"] == "refused"
    assert answer["text"]
    assert (await asyncio.to_thread(ask, address, do="status"))["state"] == "attached"


async def test_who_hangs_up_at_once_or_says_nothing_harms_nobody(address, monkeypatch):
    def silent() -> bytes:
        with closing(socket.socket(socket.AF_UNIX)) as client:
            client.settimeout(60)
            client.connect(address.removeprefix("unix://"))
            return client.recv(10)

    with monkeypatch.context() as hurried:
        hurried.setattr("gpu_kernels.provisioner.attach_point.REQUEST_WITHIN_S", 0.05)
        assert await asyncio.to_thread(silent) == b""
    assert (await asyncio.to_thread(ask, address, do="status"))["state"] == "attached"


async def test_only_the_user_may_open_the_socket(address):
    assert stat.S_IMODE(os.stat(address.removeprefix("unix://")).st_mode) == 0o600


async def test_somebody_is_heard_however_many_wait(pool, full, lazy, monkeypatch):
    monkeypatch.setattr("gpu_kernels.provisioner.attach_point.WAITERS", 2)
    kernel = lazy()
    await kernel.start_kernel()
    address = address_of(kernel)
    waits = [Conversation(address, do="wait") for _ in range(2)]
    for wait in waits:
        assert (await asyncio.to_thread(wait.next))["state"] == "waiting"
    answer = await asyncio.to_thread(ask, address, do="wait")
    assert answer["state"] == "refused"
    assert "2 processes of this kernel wait" in answer["text"]
    assert (await asyncio.to_thread(ask, address, do="release"))["state"] == "released"
    for wait in waits:
        assert (await asyncio.to_thread(wait.last))["state"] == "released"
    await kernel.shutdown_kernel(now=True)


async def test_a_runtime_folder_that_is_too_deep_for_a_socket_is_not_used(pool, lazy, monkeypatch, tmp_path):
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(deep))
    kernel = lazy(first_wait_s=100)
    await kernel.start_kernel()
    address = address_of(kernel)
    assert str(deep) not in address
    assert (await asyncio.to_thread(ask, address, do="status"))["state"] == "attached"
    folder = os.path.dirname(address.removeprefix("unix://"))
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    await kernel.shutdown_kernel(now=True)
    assert not is_there(folder)
