"""A call to the controller in a process of its own, which goes when it is answered: what it imports is no
burden afterwards, and whatever it waits for holds up nobody.
"""

from __future__ import annotations

import marshal
import os
import time

from gpu_kernels.retries import BETWEEN_ROUNDS, GATEWAY_STATUSES, RATE_LIMITED
from gpu_kernels.runner.given import Given
from gpu_kernels.runner.signals import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

Answer = tuple[dict[str, object] | None, str]
"""What the controller told, or None and why there is nothing."""
LONGEST_ANSWER = 4096
"""A pipe takes so much in one piece."""
LONGEST_TEXT = 1024
LONGEST_BODY = 1 << 20
TOO_LATE = "it did not answer in time"


class Call:
    """One call under way: ``pid`` is its process, and ``answer`` what came of it when that has ended. Raises
    ``OSError`` where there can be no such process."""

    def __init__(self, given: Given, path: str, body: dict[str, object]) -> None:
        self._given = given
        self._reads, writes = os.pipe()
        try:
            self.pid = os.fork()
        except OSError:
            os.close(self._reads)
            os.close(writes)
            raise
        if self.pid == 0:
            try:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
                signal.setitimer(
                    signal.ITIMER_REAL, given.timeout + 1
                )  # looking up a name has no end of its own
                os.write(writes, marshal.dumps(_asked(given, path, body)))
            finally:
                os._exit(0)
        os.close(writes)

    def answer(self) -> Answer:
        """Once, when the process has ended. Whichever controller answered is asked first from now on."""
        said = os.read(self._reads, LONGEST_ANSWER)
        os.close(self._reads)
        try:
            told, why, place = marshal.loads(said)  # noqa: S302 - of our own child
        except (EOFError, ValueError, TypeError):
            return None, TOO_LATE
        self._given.urls.insert(0, self._given.urls.pop(place))
        return told, why

    def give_up(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._reads)


def renewal(given: Given) -> Call:
    return Call(given, "/leases/renew", {"leases": [{"id": given.lease, "epoch": given.epoch}]})


def release(given: Given) -> Call:
    return Call(given, *_release(given))


def released(given: Given) -> Answer:
    """As ``release``, in this very process."""
    return _asked(given, *_release(given))[:2]


def _release(given: Given) -> tuple[str, dict[str, object]]:
    return f"/leases/{given.lease}/release", {"holder": given.holder}


class _Away(Exception):
    """Another controller, or a later try, may do better: after ``again`` seconds, where it says so."""

    def __init__(self, why: str, again: float | None = None) -> None:
        super().__init__(why)
        self.again = again


def _asked(given: Given, path: str, body: dict[str, object]) -> tuple[dict[str, object] | None, str, int]:
    """Ask each controller in turn until one answers, within the time for all of them: what it told, why that
    is nothing, and its place among the URLs. Who is silent takes its share of the time and no more."""
    end, pauses = time.monotonic() + given.timeout, list(BETWEEN_ROUNDS)
    turns, why = list(enumerate(given.urls)), TOO_LATE
    while True:
        pause = None
        for number, (place, url) in enumerate(turns):
            now = time.monotonic()
            try:
                until = now + (end - now) / (len(turns) - number)
                return *_answer(given, url, path, body, until), place
            except _Away as away:
                why, pause = _short(str(away)), away.again
            if pause is not None:
                turns.insert(0, turns.pop(number))
                break
        if pause is None and pauses:
            pause = pauses.pop(0)
        if pause is None or time.monotonic() + pause >= end:
            return None, why, 0
        time.sleep(pause)


def _answer(given: Given, url: str, path: str, body: dict[str, object], until: float) -> Answer:
    """Raises ``_Away``."""
    import json

    try:
        status, text = _posted(given, url, path, json.dumps(body).encode(), until)
    except TimeoutError:
        raise _Away(TOO_LATE) from None
    except OSError as error:
        raise _Away(f"The GPU pool does not answer ({error}).") from error
    except (ValueError, IndexError) as error:
        raise _Away(f"What answered at {url} is no pool controller.") from error
    try:
        told = json.loads(text)
    except ValueError:
        told = None
    if status == RATE_LIMITED:
        raise _Away(_message(told, status), _again_after(told))
    if not isinstance(told, dict):
        raise _Away(f"The GPU pool does not answer (status {status} from {url}).")
    if status in GATEWAY_STATUSES:
        raise _Away(_message(told, status))
    if not 200 <= status < 300:
        return None, _message(told, status)
    try:
        return _of_lease(told, given.lease), ""
    except (LookupError, TypeError, ValueError) as error:
        raise _Away(f"What answered at {url} is no pool controller of this version.") from error


def _of_lease(told: dict[str, object], lease: str) -> dict[str, object]:
    """What a renewal's answer says of one lease: ``left`` in seconds, or ``lost`` and why."""
    renewed, lost = told.get("renewed"), told.get("lost")
    for each in renewed if isinstance(renewed, list) else ():
        if isinstance(each, dict) and each.get("id") == lease:
            return {"left": float(each["expires_in"])}
    for each in lost if isinstance(lost, list) else ():
        if isinstance(each, dict) and each.get("id") == lease:
            return {"lost": _short(str(each.get("reason") or each.get("state")))}
    return {}


def _error(told: object) -> dict[str, object]:
    error = told.get("error") if isinstance(told, dict) else None
    return error if isinstance(error, dict) else {}


def _message(told: object, status: int) -> str:
    return _short(str(_error(told).get("message") or f"the GPU pool answered with HTTP {status}"))


def _again_after(told: object) -> float | None:
    """When to ask again after too many requests, None where that is not said."""
    after = _error(told).get("retry_after")
    return max(BETWEEN_ROUNDS[0], after) if isinstance(after, int | float) else None


def _short(text: str) -> str:
    return text.encode(errors="replace")[:LONGEST_TEXT].decode(errors="ignore")


def _posted(given: Given, url: str, path: str, body: bytes, until: float) -> tuple[int, bytes]:
    """The status and the body of one answer, by then. Raises ``OSError``, ``ValueError`` or ``IndexError``.

    In HTTP 1.0, so that the answer ends with the connection and comes in one piece. ``http.client`` would
    take ten times as long to be imported as all of this takes."""
    secure = url.startswith("https://")
    place, _, prefix = url.partition("://")[2].partition("/")
    name, port = _name_and_port(place, 443 if secure else 80)
    head = (
        f"POST /{prefix}{'/' if prefix else ''}api/v1{path} HTTP/1.0\r\nHost: {place}\r\n"
        f"Authorization: token {given.token}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    with _connected(name, port, until) as connection:
        if secure:
            import ssl

            context = ssl.create_default_context(cafile=given.certificates)
            connection = context.wrap_socket(connection, server_hostname=name)
        with connection:
            connection.settimeout(_left(until))
            connection.sendall(head.encode() + body)
            found, _, text = _received(connection, until).partition(b"\r\n\r\n")
            return int(found.split(None, 2)[1]), text


def _connected(name: str, port: int, until: float) -> socket.socket:
    """To the first of its addresses that takes it: each has its share of the time."""
    import socket

    addresses = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    for number, (family, kind, protocol, _, address) in enumerate(addresses):
        connection = socket.socket(family, kind, protocol)
        try:
            connection.settimeout(_left(until) / (len(addresses) - number))
            connection.connect(address)
        except OSError:
            connection.close()
            if number + 1 == len(addresses):
                raise
        else:
            connection.settimeout(_left(until))
            return connection
    raise OSError(f"{name} has no address")


def _received(connection: socket.socket, until: float) -> bytes:
    """All that comes before the other side ends it."""
    said = b""
    while len(said) < LONGEST_BODY:
        connection.settimeout(_left(until))
        piece = connection.recv(65536)
        if not piece:
            break
        said += piece
    return said


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError(TOO_LATE)
    return left


def _name_and_port(place: str, usual: int) -> tuple[str, int]:
    place = place.rpartition("@")[2]
    name, colon, port = place.rpartition(":")
    if not colon or port.endswith("]"):
        return place.strip("[]"), usual
    return name.strip("[]"), int(port)
