"""Lease secrets: what proves that a client holds a lease.

A secret is HMAC-SHA256(key, lease id and epoch). It can therefore be said again at any time and is never
stored; agents get its SHA-256 only, so that whoever reads an agent's memory or traffic cannot open a lease.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from gpu_kernels.pool.service.authentication import InsecureFile, require_private

KEY_BYTES = 32


class Proofs:
    def __init__(self, key: bytes) -> None:
        self._key = key

    @classmethod
    def from_file(cls, path: Path) -> Proofs:
        """The key of ``path``, made at the first start (mode 0600). Raises ``InsecureFile``."""
        if not path.exists():
            _write_new_key(path)
        require_private(path)
        key = path.read_bytes()
        if len(key) != KEY_BYTES:
            raise InsecureFile(f"{path} is not a key of {KEY_BYTES} bytes; remove it, and all leases end.")
        return cls(key)

    @property
    def fingerprint(self) -> str:
        """Tells this key from others, and says nothing else of it."""
        return hmac.digest(self._key, b"which key", "sha256").hex()[:16]

    def secret(self, lease_id: str, epoch: int) -> bytes:
        """The 32 bytes that a client of the lease sends."""
        return hmac.digest(self._key, f"{lease_id}:{epoch}".encode(), "sha256")

    def digest(self, lease_id: str, epoch: int) -> str:
        """SHA-256 of the secret's 32 bytes in hex, by which an agent checks it."""
        return hashlib.sha256(self.secret(lease_id, epoch)).hexdigest()


def _write_new_key(path: Path) -> None:
    """Written whole or not at all: a crash in between must not leave a short key."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(secrets.token_bytes(KEY_BYTES))
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
