"""What ``jupyter gpu run`` hands to the process that it becomes: in a file in memory, for its token."""

from __future__ import annotations

import marshal
import os


class Given:
    """``program`` is the command's file, ``signals`` are those that were blocked before, ``urls`` the
    controllers' with the one that answered last first. ``certificates`` is the file of those that sign
    theirs, None without TLS."""

    def __init__(
        self,
        *,
        program: str,
        command: list[str],
        environment: dict[str, str],
        signals: list[int],
        urls: list[str],
        token: str,
        certificates: str | None,
        timeout: float,
        lease: str,
        epoch: int,
        holder: str,
        ttl: float,
        trusted_until: float,
        due: float,
    ) -> None:
        self.program = program
        self.command = command
        self.environment = environment
        self.signals = signals
        self.urls = urls
        self.token = token
        self.certificates = certificates
        self.timeout = timeout
        self.lease = lease
        self.epoch = epoch
        self.holder = holder
        self.ttl = ttl
        self.trusted_until = trusted_until
        self.due = due

    def written(self) -> int:
        """The descriptor of a file with it, which outlives an exec."""
        descriptor = os.memfd_create("gpu-kernels run", 0)
        os.write(descriptor, marshal.dumps(vars(self)))
        return descriptor

    @classmethod
    def read(cls, descriptor: int) -> Given:
        """Closes the descriptor."""
        try:
            size = os.fstat(descriptor).st_size
            return cls(**marshal.loads(os.pread(descriptor, size, 0)))  # noqa: S302 - our own, of this moment
        finally:
            os.close(descriptor)
