"""``jupyter gpu run``'s small processes: what a call brings, or why nothing; and no command too many."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import json
import os
import signal
import socketserver
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpu_kernels.runner import PROGRAM, processes
from gpu_kernels.runner.given import Given

# Root may do what others may not: an account that nothing else runs under, which may read this Python.
READS = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
UNPRIVILEGED = () if os.geteuid() else ("setpriv", "--reuid=61234", "--clear-groups", *READS)
ASKS = """
import os, sys
from gpu_kernels.runner.asking import renewal
from gpu_kernels.runner import PROGRAM
from gpu_kernels.runner.given import Given
what = Given.read(int(sys.argv[1]))
call = renewal(what)
os.waitpid(call.pid, 0)
print(repr((call.answer(), what.urls)))
"""
RENEWED = {"renewed": [{"id": "other", "expires_in": 1.0}, {"id": "f00", "expires_in": 60.0}], "lost": []}


def given(urls: list[str], *, timeout: float = 60.0, certificates: Path | None = None) -> Given:
    return Given(
        program="/bin/true",
        command=["true"],
        environment={},
        signals=[],
        urls=urls,
        token="the-token",
        certificates=certificates and str(certificates),
        timeout=timeout,
        lease="f00",
        epoch=3,
        holder="run-1",
        ttl=60.0,
        trusted_until=0.0,
        due=0.0,
    )


def asked(what: Given) -> tuple[dict[str, object] | None, str]:
    descriptor = what.written()
    done = subprocess.run(
        [sys.executable, "-c", ASKS, str(descriptor)],
        pass_fds=[descriptor],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    answer, what.urls = eval(done.stdout, {})
    return answer


def run(what: Given, *before: str, **options) -> subprocess.CompletedProcess[str]:
    """The runner with its keeper and the command, until they have ended."""
    descriptor = what.written()
    return subprocess.run(
        [*before, sys.executable, "-I", "-S", PROGRAM, str(descriptor)],
        pass_fds=[descriptor],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        **options,
    )


@contextlib.contextmanager
def controller(
    answer: Callable[[], bytes | Iterator[bytes]], context: ssl.SSLContext | None = None
) -> Iterator[tuple[str, list[bytes]]]:
    """What answers with these bytes: its URL, and what it was sent."""
    seen: list[bytes] = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += self.rfile.readline()
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            seen.append(head + self.rfile.read(length))
            for piece in [said] if isinstance(said := answer(), bytes) else said:
                self.wfile.write(piece)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

        def get_request(self):
            connection, peer = super().get_request()
            return (context.wrap_socket(connection, server_side=True) if context else connection), peer

        def handle_error(self, request, client_address) -> None:
            pass

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        scheme = "https" if context else "http"
        yield f"{scheme}://127.0.0.1:{server.server_address[1]}/services/gpu", seen
        server.shutdown()


def told(body: object, status: int = 200) -> Callable[[], bytes]:
    return lambda: f"HTTP/1.1 {status} So\r\nX: y\r\n\r\n{json.dumps(body)}".encode()


def test_a_renewal_says_who_asks_for_which_lease_and_reads_what_is_left():
    with controller(told(RENEWED)) as (url, seen):
        assert asked(given([url])) == ({"left": 60.0}, "")
    (request,) = seen
    head, _, body = request.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /services/gpu/api/v1/leases/renew HTTP/1.0\r\nHost: 127.0.0.1:")
    assert b"\r\nAuthorization: token the-token\r\n" in head
    assert json.loads(body) == {"leases": [{"id": "f00", "epoch": 3}]}


def test_a_lease_that_is_lost_is_told_with_a_reason_of_bounded_length():
    lost = {"renewed": [], "lost": [{"id": "f00", "state": "revoked", "reason": "r" * 100_000}]}
    with controller(told(lost)) as (url, _):
        assert asked(given([url])) == ({"lost": "r" * 1024}, "")
    lost["lost"][0]["reason"] = "ü" * 100_000
    with controller(told(lost)) as (url, _):
        assert asked(given([url])) == ({"lost": "ü" * 512}, "")
    lost["lost"][0]["reason"] = None
    with controller(told(lost)) as (url, _):
        assert asked(given([url])) == ({"lost": "revoked"}, "")


def test_the_active_one_of_several_controllers_is_found():
    standby = told({"error": {"code": "not_active", "message": "not active"}}, 503)
    with controller(standby) as (first, _), controller(told(RENEWED)) as (second, _):
        assert asked(given(["http://127.0.0.1:9", first, second])) == ({"left": 60.0}, "")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (told({"error": {"message": "the token has expired"}}, 403), "the token has expired"),
        (told({"error": {"message": "gone \ud800 " + "語" * 9999}}, 403), "gone ? 語語"),
        (lambda: b"HTTP/1.1 502 Bad Gateway\r\n\r\n<html>", "The GPU pool does not answer (status 502"),
        (lambda: b"nonsense\r\n", "is no pool controller"),
        (lambda: b"", "is no pool controller"),
        (told({"renewed": [{"id": "f00"}], "lost": []}), "is no pool controller of this version"),
    ],
)
def test_what_is_no_answer_is_told(answer, why):
    with controller(answer) as (url, _):
        found, said = asked(given([url]))
    assert found is None
    assert why in said


def test_a_controller_that_never_answers_is_given_up():
    waits = threading.Event()
    with controller(lambda: bytes(waits.wait(60))) as (url, _):
        assert asked(given([url], timeout=0.5)) == (None, "it did not answer in time")
        waits.set()


def trickling() -> Iterator[bytes]:
    for _ in range(400):
        time.sleep(0.05)
        yield b"H"


def test_controllers_that_are_silent_leave_the_others_their_share_and_are_asked_last_from_then_on():
    waits = threading.Event()

    def silent() -> bytes:
        return bytes(waits.wait(60))

    with (
        controller(silent) as (first, _),
        controller(trickling) as (second, _),
        controller(told(RENEWED)) as (third, _),
    ):
        what = given([first, second, third], timeout=6)
        assert asked(what) == ({"left": 60.0}, "")
        assert what.urls == [third, first, second]
        waits.set()


def test_a_controller_that_has_had_too_many_requests_is_asked_again_when_it_says():
    limited = told({"error": {"message": "too many requests", "retry_after": 0.2}}, 429)
    answers = iter([limited] * 5 + [told(RENEWED)])
    with controller(lambda: next(answers)()) as (url, seen):
        assert asked(given([url])) == ({"left": 60.0}, "")
        assert len(seen) == 6
    later = told({"error": {"message": "too many requests", "retry_after": 600}}, 429)
    with controller(later) as (url, seen):
        assert asked(given([url])) == (None, "too many requests")
        assert len(seen) == 1


def shell(text: str) -> Given:
    what = given([])
    what.program, what.command, what.environment = "/bin/sh", ["sh", "-c", text], {"PATH": os.environ["PATH"]}
    what.due = time.clock_gettime(time.CLOCK_BOOTTIME) + 3600
    return what


def test_a_command_outlives_a_renewal_for_which_there_is_no_process_and_its_slice_is_given_back():
    what = shell("prlimit --pid $PPID --nproc=1; sleep 2; echo survived")
    what.due -= 3599
    with controller(told({})) as (url, seen):
        what.urls = [url]
        done = run(what, *UNPRIVILEGED)
    assert (done.returncode, done.stdout) == (0, "survived\n")
    assert done.stderr.count("the lease cannot be renewed, which is tried again: ") == 1
    assert [request.split()[1].rpartition(b"/")[2] for request in seen] == [b"release"]


@pytest.mark.parametrize("most", [1, 2])
def test_a_command_for_which_there_is_no_process_gives_its_slice_back(most):
    if most > 1 and os.geteuid():
        pytest.skip("as root alone this has an account that nothing else runs under")
    what = shell("echo ran")
    with controller(told({})) as (url, seen):
        what.urls = [url]
        done = run(what, *UNPRIVILEGED, "prlimit", f"--nproc={most}")
    assert (done.returncode, done.stdout) == (126, "")
    assert done.stderr == "jupyter gpu run: sh: Resource temporarily unavailable\n"
    assert [request.split()[1].rpartition(b"/")[2] for request in seen] == [b"release"]


def test_the_command_cannot_read_the_memory_of_those_who_hold_its_slice():
    """The user's token is in there."""
    tries = (
        "for file in environ mem; do cat < /proc/$pid/$file > /dev/null && echo $pid has shown $file; done"
    )
    above = "$(grep PPid /proc/$PPID/status | cut -f2)"
    what = shell(f"for pid in $$ $PPID {above}; do {tries}; done 2> /dev/null; true")
    with controller(told({})) as (url, _):
        what.urls = [url]
        done = run(what, *UNPRIVILEGED)
    assert [line.partition(" ")[2] for line in done.stdout.splitlines()] == ["has shown environ"]


def test_what_is_ended_is_looked_for_anew_each_time(monkeypatch):
    """The number of what has ended may be another program's a moment later."""
    rounds = iter([[11, 12], [12], []])
    seen: list[int] = []
    monkeypatch.setattr(processes, "_descendants", lambda pid: next(rounds))
    monkeypatch.setattr(processes, "_ended", lambda: [(10, 0)])
    monkeypatch.setattr(processes, "_kill", lambda pid, number: seen.append(pid) or True)
    keeper = processes.Keeper(given([]), os.getppid(), None)
    keeper._command = 10
    keeper._end_all()
    assert sorted(seen) == [10, 11, 12, 12]


def test_a_controller_with_tls_is_trusted_by_its_signer_alone(tmp_path):
    certificate = signed_by_itself(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with controller(told(RENEWED), context) as (url, seen):
        assert asked(given([url], certificates=certificate)) == ({"left": 60.0}, "")
        found, said = asked(given([url]))
        assert (found, len(seen)) == (None, 1)
        assert "CERTIFICATE_VERIFY_FAILED" in said


def test_a_signal_that_came_before_the_command_refuses_it_and_gives_the_slice_back(tmp_path):
    """As a Ctrl-C just when the slice was granted: nobody but the terminal would send it to the command."""
    what = given([])
    what.program, what.command = "/bin/sh", ["sh", "-c", f"touch {tmp_path / 'ran'}"]
    with controller(told({})) as (url, seen):
        what.urls = [url]
        done = run(what, preexec_fn=interrupted)
        assert (done.returncode, done.stderr) == (128 + signal.SIGINT, "")
    assert not (tmp_path / "ran").exists()
    assert [request.split()[1] for request in seen] == [b"/services/gpu/api/v1/leases/f00/release"]


def test_a_runner_that_is_killed_while_it_renews_gives_the_slice_back_all_the_same(tmp_path):
    waits, asked = threading.Event(), threading.Event()

    def slowly() -> bytes:
        if asked.is_set():
            return told({})()
        asked.set()
        waits.wait(60)
        return b""

    what = given([])
    what.program, what.command = "/bin/sleep", ["sleep", "600"]
    with controller(slowly) as (url, seen):
        what.urls = [url]
        descriptor = what.written()
        runner = subprocess.Popen(
            [sys.executable, "-I", "-S", PROGRAM, str(descriptor)],
            pass_fds=[descriptor],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert asked.wait(60)
        runner.kill()
        assert runner.communicate(timeout=60)[1] == ""  # which the keeper has open until it ends
        waits.set()
    assert [request.split()[1].rpartition(b"/")[2] for request in seen] == [b"renew", b"release"]


def interrupted() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    os.kill(os.getpid(), signal.SIGINT)


def signed_by_itself(folder: Path) -> Path:
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "controller")])
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file = folder / "controller.pem"
    file.write_bytes(secret + made.public_bytes(pem))
    return file
