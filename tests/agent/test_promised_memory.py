"""What software GPUs offer together is there: never more than their machine, or its cgroup, can promise."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_kernels.remoting.agent import promises
from gpu_kernels.remoting.agent.gpus import software_gpus
from gpu_kernels.remoting.agent.own_memory import own_memory
from gpu_kernels.remoting.machine_memory import VARIABLE, _of_cgroups, machine_memory
from tests.agent.lanes import lane

HERE = machine_memory()
STRANGER = 61234


@contextlib.asynccontextmanager
async def told_by_agent(
    controller, folder: Path, *options: str, told: str = "", name: str = "gpu-server-1"
) -> AsyncIterator[Path]:
    """An agent process once it serves, or has ended; what it wrote."""
    command = [sys.executable, "-m", "gpu_kernels.remoting.agent", "--name", name, "--device", "software"]
    command += ["--controller", controller.url, "--state-dir", str(folder / "state"), *options]
    process, log = await asyncio.to_thread(_started, command, folder, told)
    try:
        yield log
    finally:
        process.kill()
        await asyncio.to_thread(process.wait)


def _started(command: list[str], folder: Path, told: str) -> tuple[subprocess.Popen[bytes], Path]:
    folder.mkdir()
    log = folder / "log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [*command, "--AgentApp.workers_as_root=True"],
            env={**os.environ, "GPU_KERNELS_TOKEN": "token", VARIABLE: told},
            stderr=stderr,
        )
    while " serving tcp://" not in log.read_text() and process.poll() is None:
        time.sleep(0.02)
    return process, log


def promised() -> int:
    """What agents of this machine have promised that are root's or this account's, in MiB."""
    return sum(claim.mib for claim in promises.claims() if claim.counts)


@contextlib.contextmanager
def bound(*names: bytes) -> Iterator[None]:
    """Listening sockets with these names."""
    with contextlib.ExitStack() as stack:
        for name in names:
            bound = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            bound.bind(name)
            bound.listen()
        yield


@contextlib.contextmanager
def bound_by_another(*names: bytes) -> Iterator[None]:
    """As ``bound``, by another account."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setuid(STRANGER)
            with bound(*names):
                os.write(writes, b"!")
                signal.pause()
        finally:
            os._exit(0)
    os.close(writes)
    with open(reads, "rb") as ready:
        assert ready.read(1) == b"!"
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def offered(registration: dict) -> list[tuple[int, int]]:
    return [(gpu["total_mib"], gpu["allocatable_mib"]) for gpu in registration["gpus"]]


@given(st.integers(16, 4 << 20), st.integers(1, 64), st.integers(16, 1 << 20))
def test_slices_workers_and_the_reserve_together_are_never_more_than_the_machine(machine_mib, count, asked):
    machine = machine_memory(machine_mib)
    each = min(asked, machine.software_mib // count)
    workers = own_memory(machine, count, software_mib=each * count)
    assert machine.reserve_mib >= machine_mib // 8
    assert each * count + workers.total_mib + machine.reserve_mib <= machine_mib


async def test_software_gpus_offer_together_what_their_machine_has_and_say_why(controller, tmp_path):
    options = ("--software-memory-mib", "32768", "--software-count", "2")
    async with told_by_agent(controller, tmp_path / "a", *options, told="16384") as log:
        await controller.next_reports()
        said = log.read_text()
        # 2048 MiB are kept, and a quarter of the rest is for workers themselves.
        assert offered(controller.registrations[0]) == [(32768, 5376)] * 2
        assert re.search(
            r"\[W .*2 software GPUs with 5376 MiB, not 32768 as configured: this machine has 16384", said
        )
        assert "workers may take 3584 MiB" in said


async def test_what_the_machine_has_is_offered_as_configured(controller, tmp_path):
    async with told_by_agent(controller, tmp_path / "a", "--software-memory-mib", "100", told="16384") as log:
        await controller.next_reports()
        assert offered(controller.registrations[0]) == [(100, 100)]
        assert re.search(r"\[I .*1 software GPU with 100 MiB; this machine has 16384 MiB", log.read_text())


async def test_a_machine_that_nobody_tells_of_is_not_promised_twice(controller, tmp_path):
    much = str(HERE.mib)
    async with told_by_agent(controller, tmp_path / "a", "--software-memory-mib", "64", name="a") as first:
        assert "software GPU with 64 MiB" in first.read_text()
        before = promised()
        assert before >= 64
        async with told_by_agent(controller, tmp_path / "b", "--software-memory-mib", much, name="b") as log:
            await controller.until(lambda: len(controller.registrations) == 2)
            ((_, mib),) = offered(controller.registrations[1])
            assert mib <= HERE.software_mib - 64
            assert "offers 64" in log.read_text()
            assert promised() <= HERE.software_mib
            async with told_by_agent(controller, tmp_path / "c", name="c") as third:
                assert "no memory is left for a software GPU" in third.read_text()
    assert promised() < before, "a promise outlived its agent"


def test_agents_with_the_same_process_id_promise_one_beside_the_other():
    """As those of containers that share the host's network, which are process 1 each."""
    before = promised()
    promises.promise(HERE, 16, 1, 16)
    second = promises.promise(HERE, 16, 1, 16)
    assert promised() == before + 32
    assert f"process {os.getpid()} offers 16" in second.text


def test_a_claim_is_seen_however_often_it_has_been_looked_at():
    made = promises.promise(HERE, 16, 1, 16)
    before = promised()
    assert made.claim is not None
    for _ in range(2 * socket.SOMAXCONN):  # unanswered they fill its queue
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asks, contextlib.suppress(BlockingIOError):
            asks.setblocking(False)
            asks.connect(made.claim.getsockname())
    assert promised() == before


def test_other_sockets_whatever_their_names_are_no_claims(tmp_path, monkeypatch):
    before = promised()
    claim, older = f"@{promises.PREFIX}/7/0badcafe/9999999", f"@{promises.PREFIX}/8/9999999"
    for name in (claim, f"a b/{claim}", f"a b/{older}"):
        (tmp_path / name).parent.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    files = [claim.encode(), f"a b/{claim}".encode(), f"a b/{older}".encode()]
    forged = f"0: 0 0 0 0 0 0 {claim}".encode()
    with bound(b"\0\xff\xfe\x85" + secrets.token_bytes(8), b"\0\n" + forged + b"\n", *files):
        assert promised() == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root takes another account")
def test_what_another_account_claims_is_told_and_not_believed():
    before = promised()
    with bound_by_another(f"\0{promises.PREFIX}/1/{secrets.token_hex(4)}/{HERE.mib}".encode()):
        assert promised() == before
        made = promises.promise(HERE, 16, 1, 16)
    assert made.each_mib == 16
    assert f"not counted is what user {STRANGER} would offer, {HERE.mib}" in made.text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root takes another account")
def test_a_lock_that_another_account_keeps_ends_the_wait_and_is_told_as_its(monkeypatch):
    monkeypatch.setattr(promises, "WITHIN_S", 0.5)
    refused = pytest.raises(promises.NoMemoryLeft, match=f"another process of user {STRANGER} has been")
    with bound_by_another(f"\0{promises.PREFIX}".encode()), refused:
        promises.promise(HERE, 16, 1, 16)
    promises.promise(HERE, 16, 1, 16)


async def test_leases_from_before_a_machine_had_less_are_served_and_told_of(controller, serve, caplog):
    less = software_gpus("gpu-server-1", "V100", 32768, 2, "0.1.0", offered_mib=1000)
    leases = [await controller.grant(f"lease-{i}", mib=900, thousandths=400) for i in range(2)]
    async with (
        serve(gpus=less) as agent,
        lane(agent.address, leases[0]),
        lane(agent.address, leases[1]) as second,
    ):
        assert "900" in second.facts["argv"]
    assert "slices of GPU 0 have 1800 MiB, and it offers 1000" in caplog.text


@pytest.mark.parametrize(
    ("kind", "own", "file"),
    [("cgroup2", "0::/a/b\n", "memory.max"), ("cgroup", "4:memory:/a/b\n", "memory.limit_in_bytes")],
)
def test_a_cgroup_bounds_what_the_machine_has_also_from_above(tmp_path, kind, own, file):
    """As in a container, whose cgroup's parent has the limit, or whose mount begins at its cgroup."""
    proc, tree = tmp_path / "proc", tmp_path / "tree"
    (tree / "a" / "b").mkdir(parents=True)
    proc.mkdir()
    (proc / "cgroup").write_text(own)
    (proc / "mountinfo").write_text(f"30 24 0:27 / {tree} rw - {kind} none rw,memory\n")
    (tree / "a" / "b" / file).write_text("max\n")
    assert list(_of_cgroups(proc)) == []
    (tree / "a" / file).write_text(f"{3 << 30}\n")
    assert [limit.mib for limit in _of_cgroups(proc)] == [3072]
    (proc / "mountinfo").write_text(f"30 24 0:27 /a/b {tree / 'a'} rw - {kind} none rw,memory\n")
    (limit,) = _of_cgroups(proc)
    assert (limit.mib, limit.source) == (3072, f"{file} of the cgroup {tree / 'a'}")


def test_mounts_whose_names_are_no_text_bound_what_the_machine_has_all_the_same(tmp_path):
    proc, tree = tmp_path / "proc", tmp_path / "tree\udcff\x85\u2003"
    for folder in (proc, tree):
        folder.mkdir()
    (proc / "cgroup").write_text("1:name=\udcff\x85:/\n0::/\n", errors="surrogateescape")
    mounts = f"29 24 0:26 / /mnt/\udcfe rw - ext4 /dev/x rw\n30 24 0:27 / {tree} rw - cgroup2 none rw\n"
    (proc / "mountinfo").write_text(mounts, errors="surrogateescape")
    (tree / "memory.max").write_text(f"{3 << 30}\n")
    assert [limit.mib for limit in _of_cgroups(proc)] == [3072]


def test_memory_that_is_told_wrongly_is_refused(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "gpu_kernels.remoting.agent", "--controller", "http://127.0.0.1:9"],
        env={**os.environ, "GPU_KERNELS_TOKEN": "token", VARIABLE: "much", "XDG_STATE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 1
    assert f"{VARIABLE}=much: a whole number of MiB is wanted" in done.stderr
    assert "Traceback" not in done.stderr
