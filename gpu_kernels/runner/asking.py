"""A call to the controller in a process of its own, which goes when it is answered: what it imports is no
burden afterwards, and whatever it waits for holds up nobody.
"""

from __future__ import annotations

import marshal
import os
import time

from gpu_kernels.runner.given import Given
from gpu_kernels.runner.signals import signal

LONGEST_ANSWER = 4096
PAUSES_S = (0.0, 0.1, 0.4)
"""Before each round over all controllers (as ``client.exchange`` has them)."""
TOO_LATE = "it did not answer in time"


class Call:
    """One call under way: ``pid`` is its process, and ``answer`` what came of it when that has ended."""

    def __init__(self, given: Given, path: str, body: dict[str, object]) -> None:
        self._reads, writes = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
                signal.alarm(int(given.timeout) + 1)
                os.write(writes, _asked(given, path, body)[:LONGEST_ANSWER])
            finally:
                os._exit(0)
        os.close(writes)

    def answer(self) -> tuple[dict[str, object] | None, str]:
        """The answer, or None and why there is none. Once, when the process has ended."""
        said = os.read(self._reads, LONGEST_ANSWER)
        os.close(self._reads)
        try:
            found: tuple[dict[str, object] | None, str] = marshal.loads(said)  # noqa: S302 - of our own child
        except (EOFError, ValueError, TypeError):
            return None, TOO_LATE
        return found

    def give_up(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._reads)


def renewal(given: Given) -> Call:
    return Call(given, "/leases/renew", {"leases": [{"id": given.lease, "epoch": given.epoch}]})


def release(given: Given) -> Call:
    return Call(given, f"/leases/{given.lease}/release", {"holder": given.holder})


def _asked(given: Given, path: str, body: dict[str, object]) -> bytes:
    """Ask each controller in turn until one answers; what is kept of that fits a pipe."""
    import json

    why = TOO_LATE
    for pause in PAUSES_S:
        time.sleep(pause)
        for url in given.urls:
            try:
                status, text = _posted(given, url, path, json.dumps(body).encode())
            except OSError as error:
                why = f"The GPU pool does not answer ({error})."
                continue
            except (ValueError, IndexError):
                why = f"What answered at {url} is no pool controller."
                continue
            try:
                told = json.loads(text)
            except ValueError:
                told = None
            if not isinstance(told, dict):
                why = f"The GPU pool does not answer (status {status} from {url})."
            elif 200 <= status < 300:
                try:
                    return marshal.dumps((_of_lease(told, given.lease), ""))
                except (LookupError, TypeError, ValueError):
                    why = f"What answered at {url} is no pool controller of this version."
            elif status not in (502, 503, 504):
                return marshal.dumps((None, _message(told, status)))
            else:
                why = _message(told, status)
    return marshal.dumps((None, why))


def _of_lease(told: dict[str, object], lease: str) -> dict[str, object]:
    """What a renewal's answer says of one lease: ``left`` in seconds, or ``lost`` and why."""
    renewed, lost = told.get("renewed"), told.get("lost")
    for each in renewed if isinstance(renewed, list) else ():
        if isinstance(each, dict) and each.get("id") == lease:
            return {"left": float(each["expires_in"])}
    for each in lost if isinstance(lost, list) else ():
        if isinstance(each, dict) and each.get("id") == lease:
            return {"lost": str(each.get("reason") or each.get("state"))[:1024]}
    return {}


def _message(told: dict[str, object], status: int) -> str:
    error = told.get("error")
    message = error.get("message") if isinstance(error, dict) else None
    return str(message or f"the GPU pool answered with HTTP {status}")[:1024]


def _posted(given: Given, url: str, path: str, body: bytes) -> tuple[int, str]:
    """The status and the text of one answer. Raises ``OSError`` or ``ValueError``.

    In HTTP 1.0, so that the answer ends with the connection and comes in one piece. ``http.client`` would
    take ten times as long to be imported as all of this takes."""
    import socket

    secure = url.startswith("https://")
    place, _, prefix = url.partition("://")[2].partition("/")
    name, port = _name_and_port(place, 443 if secure else 80)
    head = (
        f"POST /{prefix}{'/' if prefix else ''}api/v1{path} HTTP/1.0\r\nHost: {place}\r\n"
        f"Authorization: token {given.token}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    with socket.create_connection((name, port), timeout=given.timeout) as connection:
        if secure:
            import ssl

            context = ssl.create_default_context(cafile=given.certificates)
            connection = context.wrap_socket(connection, server_hostname=name)
        connection.sendall(head.encode() + body)
        with connection.makefile("rb") as answer:
            status = int(answer.readline(1024).split()[1])
            while answer.readline(65536).strip():
                pass
            return status, answer.read(1 << 20).decode()


def _name_and_port(place: str, usual: int) -> tuple[str, int]:
    place = place.rpartition("@")[2]
    name, colon, port = place.rpartition(":")
    if not colon or port.endswith("]"):
        return place.strip("[]"), usual
    return name.strip("[]"), int(port)
