"""Who has taken a worker over may ask the kernel for nothing that reaches beyond its lease.

Each attack comes from inside the real worker, by its driver, when it serves already. So that a test that
passes says something, the same attack is made with the filter off, where it must be one.
"""

from __future__ import annotations

import ctypes
import os
import platform
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacks.taken_over import TakenOver, taken_over
from tests.native_build import Build, build_of_make

_libc = ctypes.CDLL(None)
pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the filter is for x86-64")

REFUSED = {
    "starts another program": "exec",
    "forks": "fork",
    "forks by the call's number": "fork-by-number",
    "clones itself": "clone",
    "starts a program as a library does": "spawn",
    "opens a connection to the controller": "reach {port}",
    "opens a socket of another kind": f"socket {int(socket.AF_NETLINK)}",
    "makes sockets that can be sent from anywhere": "pair",
    "stops a neighbour": "kill {neighbour} 19",
    "kills a neighbour": "kill {neighbour} 9",
    "kills a neighbour's thread": "tgkill {neighbour} 9",
    "kills a neighbour's thread by its number alone": "tkill {neighbour} 9",
    "queues a signal for a neighbour": "queue {neighbour} 9",
    "gets a handle of a neighbour": "pidfd {neighbour}",
    "has its own signals sent to a neighbour": "own-signals-for {neighbour}",
    "asks for a neighbour's limits": "limits {neighbour}",
    "keeps a neighbour to one core": "slow affinity {neighbour}",
    "lets a neighbour run when nobody else does": "slow idle {neighbour}",
    "does so by the newer call": "slow attributes {neighbour}",
    "sets the parameters of a neighbour's scheduling": "slow parameters {neighbour}",
    "makes a neighbour nice": "slow nice {neighbour}",
    "lets a neighbour's disk wait": "slow io {neighbour}",
    "lives on after its agent": "death-signal",
    "lets neighbours of its account look into it": "readable-again",
    "makes calls past the filter": "ring",
    "counts what the machine does": "counter",
    "keeps the kernel waiting for its memory": "userfault",
    "makes memory that others find by a name": "shared-memory",
}
FATAL = {
    "traces a neighbour": "ptrace {neighbour}",
    "reads a neighbour's memory": "read-memory {neighbour}",
    "enters a namespace of its own": "unshare",
    "enters another's namespace": "setns",
    "mounts": "mount",
    "loads a program into the kernel": "bpf",
    "calls by the numbering of 32 bits": "int80",
    "calls by the numbering of x32": "x32",
}
# Without the filter these need a right that the account may lack, or a kernel that was built for them.
NOT_EVERYWHERE = {
    "counts what the machine does",
    "keeps the kernel waiting for its memory",
    "makes calls past the filter",
    "traces a neighbour",
    "reads a neighbour's memory",
    "enters a namespace of its own",
    "enters another's namespace",
    "mounts",
    "loads a program into the kernel",
    "calls by the numbering of 32 bits",
    "calls by the numbering of x32",
}


@pytest.fixture(scope="module")
def native() -> Build:
    return build_of_make("gpu_worker", "hostile_driver")


@pytest.fixture
def worker(tmp_path: Path, native: Build) -> Iterator[TakenOver]:
    with taken_over(tmp_path, native) as made:
        yield made


@pytest.fixture
def unfiltered(tmp_path: Path, native: Build) -> Iterator[TakenOver]:
    with taken_over(tmp_path, native, "--seccomp", "off") as made:
        yield made


def give_up_capabilities() -> None:
    """As a worker has: one without any may change the scheduling of others without any."""
    prctl_drop, some = 24, 64
    for capability in range(some):
        _libc.prctl(prctl_drop, capability, 0, 0, 0)


@pytest.fixture
def targets() -> Iterator[dict[str, int]]:
    """Another lease's worker of the same account, as far as signals go; and a controller's port."""
    neighbour = subprocess.Popen(["sleep", "600"], preexec_fn=give_up_capabilities)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield {"neighbour": neighbour.pid, "port": listener.getsockname()[1]}
    neighbour.kill()
    neighbour.wait()


@pytest.mark.parametrize("who", ["", "early "], ids=["a lane's thread", "a thread from before"])
@pytest.mark.parametrize("what", REFUSED)
def test_it_is_refused_and_the_worker_goes_on(worker, targets, what, who):
    attack = who + REFUSED[what].format(**targets)
    assert worker.attempt(attack) == "EPERM"
    assert worker.attempt("nothing") == "done", "a library that tries this for its own reasons harms nothing"
    assert os.waitid(os.P_PID, targets["neighbour"], os.WEXITED | os.WSTOPPED | os.WNOHANG) is None


@pytest.mark.parametrize("who", ["", "early "], ids=["a lane's thread", "a thread from before"])
@pytest.mark.parametrize("what", FATAL)
def test_it_ends_the_worker_at_once(worker, targets, what, who):
    assert worker.attempt(who + FATAL[what].format(**targets)) == "SIGSYS"


@pytest.mark.parametrize("what", sorted((REFUSED | FATAL).keys() - NOT_EVERYWHERE))
def test_without_the_filter_it_would_have_been_an_attack(unfiltered, targets, what):
    came_to = unfiltered.attempt((REFUSED | FATAL)[what].format(**targets))
    assert came_to in ("done", "it is another program")


@pytest.mark.parametrize("call", ["connect", "bind", "listen", "accept"])
def test_the_sockets_that_it_has_stay_where_they_are(worker, call):
    assert worker.attempt(f"on-own-socket {call}") == "EPERM"


def test_a_session_and_group_of_its_own_are_refused(worker):
    assert worker.attempt("setsid") == "EPERM"
    assert worker.attempt("setpgid") == "EPERM"


@pytest.mark.parametrize("attack", ["clone3", "beyond"])
def test_calls_that_cannot_be_looked_into_are_not_there(worker, attack):
    assert worker.attempt(attack) == "ENOSYS"


def test_honest_work_goes_on_under_the_filter(worker):
    assert worker.attempt("honest") == "done"
    assert worker.results.read_text() == "honest 0\n", "the number of things that failed"
    assert worker.attempt("early honest") == "done"
    assert worker.results.read_text() == "honest 0\n" * 2


def test_the_filter_and_the_rest_are_in_force_for_every_thread(worker):
    assert worker.attempt("nothing") == "done"
    for task in Path(f"/proc/{worker.process.pid}/task").iterdir():
        status = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines())
        assert (status["Seccomp"], status["NoNewPrivs"]) == ("2", "1")
        assert all(int(status[f"Cap{kind}"], 16) == 0 for kind in ("Inh", "Prm", "Eff", "Amb"))
        assert int(status["CapBnd"], 16) == 0 or os.geteuid() != 0


def test_descriptors_that_are_not_its_own_are_closed(tmp_path, native):
    """However they came to be inherited; ``3`` to ``9`` are open before the worker begins."""
    with (tmp_path / "secret").open("w+") as secret:
        results = tmp_path / "results"
        results.touch()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        kept = [os.dup(secret.fileno()) for _ in range(5)]
        command = [native.worker, "--control-fd", str(theirs.fileno()), "--driver", native.hostile_driver]
        command += ["--memory-mib", "64", "--thousandths", "20", "--name", "T", "--uuid", "GPU-0"]
        command += ["--mark-fd", str(kept[2])]
        given = [theirs.fileno(), *kept]
        with subprocess.Popen(command, pass_fds=given, stderr=subprocess.DEVNULL) as process:
            ours.recv(4096)
            here = {int(name) for name in os.listdir(f"/proc/{process.pid}/fd")}
            process.kill()
        for descriptor in kept:
            os.close(descriptor)
        ours.close()
        theirs.close()
    assert here & set(given) == {given[0], kept[2]}
