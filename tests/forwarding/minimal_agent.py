"""The agent's part on the data port, and nothing else of it: checks a Hello, starts the worker, hands over.

The tests of the forwarding runtime use it, so that they need no controller and can break things on purpose.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
import struct
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from gpu_kernels.remoting.agent.side_threads import SideThreads
from gpu_kernels.remoting.agent.slice_file import SliceFile
from gpu_kernels.remoting.agent.ticket_office import TicketOffice
from gpu_kernels.remoting.hello import PASSAGE, SLICE_FILE

HELLO = struct.Struct("<8sHHI16sQ40s32s16s")
OK, WRONG_SECRET = 0, 4


def uuid_of(device: int) -> str:
    return f"GPU-{device:02x}112233-4455-6677-8899-aabbccddeeff"


@dataclass
class MinimalAgent:
    """Listens on a unix socket in ``folder``. A context manager; ``worker`` is the running worker, if any."""

    folder: Path
    program: Path
    driver: Path
    mib: int = 64
    further_mib: tuple[int, ...] = ()  # of further slices, each on a GPU of its own
    environment: dict[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()  # more of the worker's command line
    lease: str = "L-test"
    epoch: int = 3
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    worker: subprocess.Popen[bytes] | None = None
    tcp: bool = False
    shares: bool = False  # the worker's memory with its clients, as a software GPU's does
    file: SliceFile | None = None  # of the running worker; a test may do with it what an agent does

    def __enter__(self) -> MinimalAgent:
        self._lock = threading.Lock()
        self._workers: list[subprocess.Popen[bytes]] = []
        self._listener = socket.socket(socket.AF_INET if self.tcp else socket.AF_UNIX)
        self._listener.bind(("127.0.0.1", 0) if self.tcp else str(self.folder / "agent"))
        self._listener.listen(64)
        self.log = self.folder / "worker.log"
        self.start_worker()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        self._control.close()
        for worker in self._workers:
            worker.kill()
            worker.wait()

    @property
    def address(self) -> str:
        if self.tcp:
            return f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        return f"unix://{self.folder / 'agent'}"

    def client_environment(self, library: Path) -> dict[str, str]:
        """What gpu_kernels.remoting.environment gives a process, over the present one."""
        return os.environ | {
            "GPU_KERNELS_AGENT": self.address,
            "GPU_KERNELS_LEASE": self.lease,
            "GPU_KERNELS_EPOCH": str(self.epoch),
            "GPU_KERNELS_SECRET": self.secret.hex(),
            "LD_LIBRARY_PATH": str(library),
        }

    def start_worker(self) -> None:
        """Called in the thread that outlives the worker: it dies with the thread that started it."""
        sizes = (self.mib, *self.further_mib)
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.file = SliceFile(sum(sizes)) if self.shares else None
        files = [self.file.descriptor] if self.file else []
        with self.log.open("ab") as log, theirs:
            self.worker = subprocess.Popen(
                [
                    self.program,
                    *("--control-fd", str(theirs.fileno()), "--driver", self.driver),
                    *("--memory-mib", ",".join(str(mib) for mib in sizes)),
                    *("--thousandths", ",".join("20" for _ in sizes)),
                    *("--name", "Test GPU", "--uuid", ",".join(uuid_of(i) for i in range(len(sizes)))),
                    *(part for file in files for part in ("--slice-file-fd", str(file))),
                    *self.options,
                ],
                pass_fds=[theirs.fileno(), *files],
                stderr=log,
                env=os.environ | self.environment,
            )
        self._workers.append(self.worker)

    def packets(self) -> list[dict[str, object]]:
        """The status packets that have come so far."""
        found = []
        while True:
            try:
                packet = self._control.recv(65536, socket.MSG_DONTWAIT)
            except OSError:
                return found
            if not packet:
                return found
            found.append(json.loads(packet))

    def hand_over(self, connection: socket.socket, hello: bytes) -> None:
        """Gives a connection to the worker as the agent does: the Hello without secret, and the socket."""
        socket.send_fds(self._control, [hello[:80] + bytes(32) + hello[112:]], [connection.fileno()])

    def lane(self, session: bytes, number: int = 0) -> socket.socket:
        """A connection that the worker serves, for tests that speak the protocol themselves."""
        ours, theirs = socket.socketpair()
        with theirs:
            self.hand_over(theirs, self.hello(session, number))
        ours.settimeout(60)
        return ours

    def hello(self, session: bytes, number: int) -> bytes:
        lease = self.lease.encode().ljust(40, b"\0")
        return HELLO.pack(b"GPUKHELO", 1, 0, number, session, self.epoch, lease, self.secret, bytes(16))

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                hello = connection.recv(HELLO.size, socket.MSG_WAITALL)
                if len(hello) == HELLO.size:
                    self._answer(connection, hello)

    async def _give_for_a_ticket(self, connection: socket.socket, descriptor: int) -> None:
        async with TicketOffice(descriptor, SideThreads()) as office:
            text = office.text.encode()
            connection.sendall(struct.pack("<II", OK, len(text)) + text)
            async with asyncio.timeout(60):
                await office.serve()

    def _give(self, connection: socket.socket, descriptor: int | None) -> None:
        if self.tcp and descriptor is not None:
            asyncio.run(self._give_for_a_ticket(connection, descriptor))
        else:
            files = [] if descriptor is None else [descriptor]
            socket.send_fds(connection, [struct.pack("<II", OK, 0)], files)

    def _answer(self, connection: socket.socket, hello: bytes) -> None:
        if HELLO.unpack(hello)[7] != self.secret:
            text = b"this lease is not known, or the secret is wrong"
            connection.sendall(struct.pack("<II", WRONG_SECRET, len(text)) + text)
            return
        if HELLO.unpack(hello)[2] == SLICE_FILE:
            self._give(connection, self.file.descriptor if self.file else None)
            return
        if HELLO.unpack(hello)[2] == PASSAGE and not self.shares:
            self._give(connection, None)
            return
        if HELLO.unpack(hello)[2] == PASSAGE:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with ours, theirs:
                self.hand_over(theirs, hello)
                self._give(connection, ours.fileno())
            return
        connection.sendall(struct.pack("<II", OK, 0))
        with self._lock:
            if self.worker is not None and self.worker.poll() is not None:
                self.start_worker()
            try:
                self.hand_over(connection, hello)
            except ConnectionError:  # it was ending, and has closed its end already
                assert self.worker is not None
                self.worker.wait()
                self.start_worker()
                self.hand_over(connection, hello)
