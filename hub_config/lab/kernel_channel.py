"""A kernel's websocket, spoken as JupyterLab speaks it (`v1.kernel.websocket.jupyter.org`).

One binary frame holds one message: a little-endian u64 that counts the offsets, the offsets (u64 each), then
channel name, header, parent header, metadata, content and buffers, each from its offset to the next.
"""

from __future__ import annotations

import dataclasses
import json
import time
import uuid
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import websocket

PROTOCOL = "v1.kernel.websocket.jupyter.org"


@dataclasses.dataclass
class Message:
    channel: str
    kind: str
    parent: str
    content: dict[str, Any]


@dataclasses.dataclass
class CellResult:
    """What a notebook would show under a cell: printed text, results, and the error if it raised one."""

    text: str = ""
    error: str | None = None
    """The exception's name and message, as one line; None if the cell went well."""
    traceback: str = ""


def encode(channel: str, kind: str, content: dict[str, Any], session: str) -> tuple[str, bytes]:
    """The id of a new message, and the frame that carries it."""
    message_id = uuid.uuid4().hex
    header = {
        "msg_id": message_id,
        "msg_type": kind,
        "session": session,
        "username": "student",
        "date": datetime.now(UTC).isoformat(),
        "version": "5.4",
    }
    parts = [channel.encode(), *(json.dumps(part).encode() for part in (header, {}, {}, content))]
    offsets = [8 * (len(parts) + 2)]
    for part in parts:
        offsets.append(offsets[-1] + len(part))
    numbers = [len(offsets), *offsets]
    return message_id, b"".join([*(number.to_bytes(8, "little") for number in numbers), *parts])


def decode(frame: bytes) -> Message:
    """Raises ValueError for a frame that is not of this protocol."""
    count = int.from_bytes(frame[:8], "little")
    if not 6 <= count <= len(frame) // 8 - 1:
        raise ValueError(f"a frame of {len(frame)} bytes cannot have {count} offsets")
    offsets = [int.from_bytes(frame[8 * i : 8 * (i + 1)], "little") for i in range(1, count + 1)]
    parts = [frame[start:end] for start, end in pairwise(offsets)]
    header, parent, _, content = (json.loads(part) for part in parts[1:5])
    return Message(parts[0].decode(), header["msg_type"], parent.get("msg_id", ""), content)


class KernelChannel:
    """The open websocket of one kernel. Close it, or use it as a context manager."""

    def __init__(self, url: str, cookie: str, origin: str) -> None:
        self._session = uuid.uuid4().hex
        self._socket = websocket.create_connection(
            f"{url}?session_id={self._session}",
            timeout=60,
            subprotocols=[PROTOCOL],
            cookie=cookie,
            origin=origin,
            header={"Sec-Fetch-Mode": "websocket", "Sec-Fetch-Site": "same-origin"},
        )

    def __enter__(self) -> KernelChannel:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def kernel_info(self, timeout: float = 60) -> dict[str, Any]:
        """The kernel's first sign of life."""
        sent = self._send("shell", "kernel_info_request", {})
        deadline = time.monotonic() + timeout
        while True:
            message = self._receive(deadline)
            if message.kind == "kernel_info_reply" and message.parent == sent:
                return message.content

    def execute(self, code: str, timeout: float = 120) -> CellResult:
        """Runs one cell and returns when the kernel is idle again. Raises TimeoutError."""
        content = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": True,
        }
        sent = self._send("shell", "execute_request", content)
        result = CellResult()
        pending = {"reply", "idle"}
        deadline = time.monotonic() + timeout
        while pending:
            message = self._receive(deadline)
            if message.parent != sent:
                continue
            if message.kind == "execute_reply":
                pending.discard("reply")
            elif message.kind == "status" and message.content["execution_state"] == "idle":
                pending.discard("idle")
            else:
                _add_output(result, message)
        return result

    def _send(self, channel: str, kind: str, content: dict[str, Any]) -> str:
        message_id, frame = encode(channel, kind, content, self._session)
        self._socket.send_binary(frame)
        return message_id

    def _receive(self, deadline: float) -> Message:
        """The next message. Raises TimeoutError at the deadline, ConnectionError if the socket closes."""
        while (left := deadline - time.monotonic()) > 0:
            self._socket.settimeout(left)
            try:
                # Control frames are asked for too, so that the server's pings do not put off the deadline.
                opcode, frame = self._socket.recv_data(control_frame=True)
            except websocket.WebSocketTimeoutException:
                break
            except websocket.WebSocketConnectionClosedException as error:
                raise ConnectionError(str(error)) from None
            if opcode == websocket.ABNF.OPCODE_CLOSE:
                raise ConnectionError("the server closed the kernel's websocket")
            if opcode == websocket.ABNF.OPCODE_BINARY:
                return decode(frame)
        raise TimeoutError("the kernel did not answer in time")


def _add_output(result: CellResult, message: Message) -> None:
    content = message.content
    if message.kind == "stream":
        result.text += content["text"]
    elif message.kind in ("execute_result", "display_data"):
        result.text += content["data"].get("text/plain", "") + "\n"
    elif message.kind == "error":
        result.error = f"{content['ename']}: {content['evalue']}"
        result.traceback = "\n".join(content["traceback"])
