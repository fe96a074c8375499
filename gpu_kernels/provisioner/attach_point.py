"""The Unix socket at which a kernel's processes ask for its slice, and change it.

The conversation is in docs/design/lab.md. A connection is one request; at most ``CONNECTIONS`` are served at
once, and whoever comes then waits in the socket's backlog. A request is at most ``MAX_REQUEST`` bytes and
must arrive within ``REQUEST_WITHIN_S``, an answer must be taken within ``ANSWER_WITHIN_S``. Only processes
of this user are answered.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from gpu_kernels.errors import InvalidSize
from gpu_kernels.provisioner import sockets, texts
from gpu_kernels.provisioner.attachment import Attachment, View
from gpu_kernels.provisioner.leasing import log
from gpu_kernels.remoting.environment import lease_variables

MAX_REQUEST = 4096
CONNECTIONS = 64
WAITERS = 48
"""Of these; so that somebody who would release is heard however many wait."""
REQUEST_WITHIN_S = 5.0
ANSWER_WITHIN_S = 10.0
TELL_EACH_S = 1.0
SECONDS = (int, float)


class Refused(Exception):
    """The request cannot be carried out; the text is for whoever asked."""


class AttachPoint:
    """Serves one attachment, in threads of its own, until it is closed."""

    def __init__(self, attachment: Attachment) -> None:
        self._attachment = attachment
        self._closing = threading.Event()
        self._places = threading.BoundedSemaphore(CONNECTIONS)
        self._waiters = threading.BoundedSemaphore(WAITERS)
        self._listening = sockets.Listening(attachment.kernel_id, CONNECTIONS)
        self._thread = threading.Thread(target=self._accept, name="gpu-attach-point", daemon=True)
        self._thread.start()

    @property
    def path(self) -> Path:
        return self._listening.path

    @property
    def address(self) -> str:
        return f"unix://{self.path}"

    def close(self) -> None:
        """No more is answered from now on; those who wait are hung up on."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._listening.close()

    def _accept(self) -> None:
        while not self._closing.is_set():
            self._places.acquire()
            try:
                connection, _ = self._listening.socket.accept()
            except OSError:
                self._places.release()
                if not self._closing.is_set():
                    time.sleep(0.1)  # out of file descriptors, perhaps: others must not be held up by us
                continue
            client = threading.Thread(
                target=self._serve, args=(connection,), name="gpu-attach-client", daemon=True
            )
            try:
                client.start()
            except RuntimeError:  # no more threads for this user now: whoever asks next may find one
                log.warning("The attach point of kernel %s got no thread", self._attachment.kernel_id)
                connection.close()
                self._places.release()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                if sockets.is_ours(connection):
                    connection.settimeout(REQUEST_WITHIN_S)
                    self._converse(connection)
        except OSError:
            pass  # it hung up; what it asked for stays as it is
        except Exception:
            log.exception("The attach point of kernel %s failed", self._attachment.kernel_id)
        finally:
            self._places.release()

    def _converse(self, connection: socket.socket) -> None:
        try:
            answers = self._answers(_read(connection))
            connection.settimeout(ANSWER_WITHIN_S)
            for answer in answers:
                connection.sendall(json.dumps(answer).encode() + b"\n")
        except (Refused, InvalidSize) as refusal:
            connection.sendall(json.dumps({"state": "refused", "text": str(refusal)}).encode() + b"\n")

    def _answers(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The answers to a request, the first of them when it is carried out."""
        attachment, do = self._attachment, request.get("do")
        if do == "status":
            yield answer_of(attachment.view())
        elif do == "check":
            attachment.check()
            yield answer_of(attachment.view())
        elif do == "release":
            attachment.release()
            yield answer_of(attachment.view())
        elif do == "keep":
            attachment.keep()
            yield answer_of(attachment.view())
        elif do == "wait":
            seconds = _seconds(request)
            attachment.want()
            yield from self._bounded_line(seconds, None)
        elif do == "attach":
            seconds, size = _seconds(request), request.get("size")
            if not isinstance(size, str):
                raise Refused("The request names no size, such as '0.05 V100'.")
            yield from self._bounded_line(seconds, attachment.attach(size))
        else:
            raise Refused("The request is none of status, check, wait, attach, release and keep.")

    def _bounded_line(self, seconds: float | None, wanted: str | None) -> Iterator[dict[str, Any]]:
        if not self._waiters.acquire(blocking=False):
            raise Refused(
                f"{WAITERS} processes of this kernel wait for its slice already, and no more may at once.\n"
                "This one does not wait; the kernel's place in the line stays.\n"
                "End processes that you do not need, or restart the kernel, which ends them all."
            )
        try:
            yield from self._line(seconds, wanted)
        finally:
            self._waiters.release()

    def _line(self, seconds: float | None, wanted: str | None) -> Iterator[dict[str, Any]]:
        """How the line moves, until it or ``seconds`` are over. ``wanted`` is the size of an ``attach``."""
        attachment = self._attachment
        end = None if seconds is None else time.monotonic() + seconds
        while not self._closing.is_set():
            changes = attachment.changes
            view = attachment.view()
            if view.place is None or _is_over(view, view.place.size, wanted):
                yield _outcome(view, wanted)
                return
            attachment.explained()
            yield {"state": "waiting", **asdict(view.place)}
            left = TELL_EACH_S if end is None else min(TELL_EACH_S, end - time.monotonic())
            if left <= 0:
                return
            attachment.wait(changes, left)


def _is_over(view: View, waits_for: str, wanted: str | None) -> bool:
    """Whether what this conversation waits for is not waited for any longer."""
    return view.state == "attached" if wanted is None else waits_for != wanted


def _outcome(view: View, wanted: str | None) -> dict[str, Any]:
    """Another size may have been refused, or given up elsewhere, and then all is as it was."""
    if wanted is not None and view.state != "refused" and view.size != wanted:
        kept = view.size if view.state == "attached" else None
        return {"state": "refused", "text": view.declined or texts.no_longer_wanted(wanted, kept)}
    return answer_of(view)


def answer_of(view: View) -> dict[str, Any]:
    """An attachment as the attach point tells it."""
    if view.state == "waiting" and view.place is not None:
        return {"state": "waiting", **asdict(view.place)}
    answer: dict[str, Any] = {
        "state": view.state,
        "size": view.size,
        "course": view.course,
        "text": view.text,
    }
    if view.state == "attached" and view.lease is not None:
        answer |= {"lease": view.lease.id, "environment": lease_variables(view.lease)}
        if view.place is not None:
            answer["wanted"] = asdict(view.place)
    return answer


def _read(connection: socket.socket) -> dict[str, Any]:
    """The request's line. Raises ``Refused`` for what is none, ``OSError`` for one that does not come."""
    end = time.monotonic() + REQUEST_WITHIN_S
    data = b""
    while b"\n" not in data:
        if len(data) >= MAX_REQUEST:
            raise Refused(f"The request is longer than {MAX_REQUEST} bytes.")
        connection.settimeout(max(0.01, end - time.monotonic()))
        if not (part := connection.recv(MAX_REQUEST + 1 - len(data))):
            raise Refused("The request ended before its line did.")
        data += part
    try:
        request = json.loads(data.partition(b"\n")[0])
    except (ValueError, RecursionError):
        raise Refused("The request is no line of JSON.") from None
    if not isinstance(request, dict):
        raise Refused("The request is no JSON object.")
    return request


def _seconds(request: dict[str, Any]) -> float | None:
    seconds = request.get("seconds")
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, SECONDS) or not 0 <= seconds < 1e9:
        raise Refused("'seconds' is no number from 0 to 1e9.")
    return float(seconds)
