"""The Hello that opens a connection of the data plane, and the answers to it.

The layout is in docs/design.md, "Data plane". The agent reads it from hostile bytes; ``%gpu`` writes it for
its status query. The client libraries' half is remoting/native/wire/hello.cc.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass, field

HELLO_BYTES = 128
MAGIC = b"GPUKHELO"
VERSION = 1
STATUS_QUERY, SLICE_FILE, PASSAGE = 1, 2, 4
"""Flags: what is wanted instead of a lane; one of them at most."""
SECRET_AT = slice(80, 112)
MAX_ANSWER_TEXT = 4096

ANSWER_HEAD = struct.Struct("<II")
_LAYOUT = struct.Struct("<8sHHI16sQ40s32s16s")
assert _LAYOUT.size == HELLO_BYTES


class Status(enum.IntEnum):
    """What an answer says. An unknown lease and a wrong secret are one status with one text, so that lease
    ids cannot be probed."""

    OK = 0
    MALFORMED = 1
    WRONG_VERSION = 2
    UNKNOWN_LEASE = 3
    WRONG_SECRET = 4
    OLD_EPOCH = 5
    LEASE_ENDED = 6
    NO_WORKER = 7
    TOO_MANY = 8


class Refusal(Exception):
    """A connection is refused. ``text`` is for the user, ``log_text`` for the operator."""

    def __init__(self, status: Status, text: str, log_text: str | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.log_text = log_text or text


@dataclass(frozen=True, slots=True)
class Hello:
    """A well-formed Hello; nothing in it has been believed yet."""

    flags: int
    lane: int
    session: bytes
    epoch: int
    lease_id: str
    secret: bytes = field(repr=False)

    @property
    def is_status_query(self) -> bool:
        return self.flags == STATUS_QUERY

    @property
    def wants_slice_file(self) -> bool:
        return self.flags == SLICE_FILE

    @property
    def wants_passage(self) -> bool:
        return self.flags == PASSAGE

    def pack(self) -> bytes:
        """The 128 bytes. ``lease_id`` is ASCII of at most 40 characters."""
        lease_id = self.lease_id.encode("ascii")
        return _LAYOUT.pack(
            MAGIC, VERSION, self.flags, self.lane, self.session, self.epoch, lease_id, self.secret, bytes(16)
        )


def begins_like_a_hello(data: bytes | bytearray) -> bool:
    """Whether these first bytes can still become a Hello."""
    return MAGIC.startswith(bytes(data[: len(MAGIC)]))


def parse_hello(data: bytes | bytearray) -> Hello:
    """Read exactly 128 bytes. Raises ``Refusal`` (malformed or wrong version)."""
    if len(data) != HELLO_BYTES or not begins_like_a_hello(data):
        raise Refusal(Status.MALFORMED, "These are not the bytes of a GPU connection.")
    _, version, flags, lane, session, epoch, lease_field, secret, zero = _LAYOUT.unpack(data)
    if version != VERSION:
        raise Refusal(
            Status.WRONG_VERSION,
            f"The client speaks version {version} of the GPU protocol and this server version {VERSION}: "
            "install the same release of gpu-kernels on both.",
        )
    lease_id = lease_field.rstrip(b"\0")
    known = flags in (0, STATUS_QUERY, SLICE_FILE, PASSAGE)
    if any(zero) or not known or not lease_id or any(not 0x20 < byte < 0x7F for byte in lease_id):
        raise Refusal(Status.MALFORMED, "The GPU connection's first message is malformed.")
    return Hello(flags, lane, session, epoch, lease_id.decode("ascii"), secret)


def without_secret(data: bytes | bytearray) -> bytes:
    """The same bytes for the worker, with the secret zeroed."""
    zeroed = bytearray(data)
    zeroed[SECRET_AT] = bytes(32)
    return bytes(zeroed)


def answer(status: Status, text: str = "") -> bytes:
    """The bytes of an answer; a text beyond the limit is cut at a character's end."""
    encoded = text.encode()[:MAX_ANSWER_TEXT].decode(errors="ignore").encode()
    return ANSWER_HEAD.pack(status, len(encoded)) + encoded
