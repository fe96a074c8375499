"""One worker: its process, its control socket, and what it says about itself.

The process is a session and process group of its own, in a cell of its own (``cells.py``). It counts as
alive until it has been waited for, its group has been killed and its cell is empty; only then does ``ended``
hold. It is ready when it has first told its usage (``spoke``). Everything here belongs to the event loop's
thread: the death signal is tied to the thread that started the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import struct
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gpu_kernels.limits.logs import RateLimitedLogger
from gpu_kernels.remoting.agent.cells import BETWEEN_LOOKS_S, Cell
from gpu_kernels.remoting.agent.clock import clock
from gpu_kernels.remoting.agent.grants import Grant
from gpu_kernels.remoting.agent.side_threads import refuse_descriptors
from gpu_kernels.remoting.agent.slice_file import MOST_GIVEN, SliceFile

MAX_PACKET = 4096
PACKETS_A_SECOND = 100
STDERR_BYTES, STDERR_PAUSE_S = 16384, 0.05
"""A worker that writes more than this blocks on its own pipe, and slows nobody else."""
MAX_COUNT = 2**53
HAND_OVER_S = 5.0
IDLE_AFTER_S = 2.0
"""A worker speaks once a second while its figures change: silent for longer, it is idle."""


LIVE = struct.Struct("<8sQ")


class WorkerGone(Exception):
    """The worker cannot take a connection any more."""


@dataclass
class Usage:
    """What a worker last said of itself; memory in MiB, ``utilisation`` in percent of the slice's GPU."""

    used_mib: int = 0
    peak_mib: int = 0
    sessions: int = 0
    launches: int = 0
    busy_us: int = 0
    utilisation: int = 0
    said_at: float = 0.0

    def take(self, packet: Mapping[str, object], now: float) -> None:
        """Take a status packet in. What is not a sensible number is left as it was."""
        busy_before, said_before = self.busy_us, self.said_at
        for name in ("used_mib", "peak_mib", "sessions", "launches", "busy_us"):
            value = packet.get(name)
            if type(value) is int and 0 <= value <= MAX_COUNT:
                setattr(self, name, value)
        self.said_at = now
        if said_before and now > said_before:
            silent = now - said_before
            share = (self.busy_us - busy_before) / 1e6 / (silent if silent < IDLE_AFTER_S else 1.0)
            self.utilisation = round(min(1.0, max(0.0, share)) * 100)

    def utilisation_now(self, now: float) -> int:
        return self.utilisation if now - self.said_at < IDLE_AFTER_S else 0


class Worker:
    """A started process. ``on_end`` is called once, when nothing of it lives any more."""

    def __init__(
        self,
        grant: Grant,
        command: Callable[[int], Sequence[str]],
        env: Mapping[str, str],
        cell: Cell,
        confine: Callable[[], None],
        log: logging.Logger,
        on_end: Callable[[Worker], None],
        mark: int,
        slice_file: SliceFile | None = None,
    ) -> None:
        """Raises ``OSError`` if the program cannot be started. ``command`` gets the control descriptor;
        ``mark`` is a descriptor that it inherits and keeps while it lives. ``slice_file`` is this object's
        from then on: it is emptied and closed with the worker's end."""
        self.slice_file = slice_file
        self.grant = grant
        self.usage = Usage()
        self.spoke = asyncio.Event()
        self.ended = asyncio.Event()
        self.dying = False
        self._passages = 0
        self.last_fault: str | None = None
        self.cell = cell
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._log = RateLimitedLogger(log, f"worker of lease {grant.lease_id}")
        self._window_began, self._window_packets = 0.0, 0
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            ours.setblocking(False)
            refuse_descriptors(ours)
            self._process = subprocess.Popen(
                command(theirs.fileno()),
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
                pass_fds=(theirs.fileno(), mark, *([slice_file.descriptor] if slice_file else [])),
                cwd="/",
                preexec_fn=confine,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._control = ours
        self.pid: int = self._process.pid
        assert self._process.stderr is not None
        self._stderr_file = self._process.stderr
        self._stderr = self._stderr_file.fileno()
        os.set_blocking(self._stderr, False)
        self.exit_status: int | None = None
        self._pidfd = os.pidfd_open(self.pid)
        self._loop.add_reader(self._pidfd, self._exited)
        self._loop.add_reader(self._stderr, self._read_stderr)
        self._loop.add_reader(self._control, self._read_packet)

    async def hand_over(self, hello: bytes, connection: socket.socket) -> None:
        """Pass a connection on, with the Hello (its secret zeroed). Raises ``WorkerGone``."""
        deadline = self._loop.time() + HAND_OVER_S
        while not self.dying and not self.ended.is_set():
            try:
                socket.send_fds(self._control, [hello], [connection.fileno()], socket.MSG_NOSIGNAL)
                return
            except BlockingIOError:
                if self._loop.time() > deadline:
                    raise WorkerGone("it takes no more connections") from None
                await asyncio.sleep(0.02)
            except OSError as error:
                raise WorkerGone(str(error)) from error
        raise WorkerGone("it is ending")

    def may_have_passage(self) -> bool:
        """Whether one more client may pass it descriptors; counts it. Whose may not are copied for."""
        self._passages += 1
        return self._passages <= MOST_GIVEN

    def live_until(self, milliseconds: int) -> None:
        """Tell it when to end by itself (CLOCK_BOOTTIME). One that takes nothing in ends at the time that it
        was told before."""
        with contextlib.suppress(OSError):
            self._control.send(LIVE.pack(b"GPUKLIVE", milliseconds), socket.MSG_NOSIGNAL)

    def kill(self) -> None:
        """Kill it and all its children, at once; ``ended`` tells when that is done."""
        if self.ended.is_set():
            return
        self.dying = True
        if self.exit_status is None:
            self._kill_group()

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        self.cell.kill()

    def _exited(self) -> None:
        # The group outlives its leader; its number cannot be another's while the leader is not waited for.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self.exit_status = self._process.wait()
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self.cell.kill()
        self._see_it_gone()

    def _see_it_gone(self) -> None:
        """Its own process has ended. What else a worker that was taken over has started is killed first."""
        if not self.cell.emptied():
            self.dying = True
            self._loop.call_later(BETWEEN_LOOKS_S, self._see_it_gone)
            return
        self._read_stderr()
        self._loop.remove_reader(self._stderr)
        self._stderr_file.close()
        while self._read_packet():
            pass
        self._loop.remove_reader(self._control)
        self._control.close()
        if self.slice_file is None:
            self._finish()
        else:
            self._emptying = asyncio.ensure_future(self._empty(self.slice_file))

    async def _empty(self, file: SliceFile) -> None:
        """Clients may still map the file; its pages go back before the worker has ended."""
        self.slice_file = None
        try:
            await asyncio.to_thread(file.empty)
        except (OSError, ValueError) as error:
            self._log.line(logging.ERROR, f"its memory may stay taken while its clients live: {error}")
        finally:
            file.close()
            self._finish()

    def _finish(self) -> None:
        self.ended.set()
        self.spoke.set()  # nobody need wait for that any longer
        self._on_end(self)

    def _read_stderr(self) -> None:
        try:
            data = os.read(self._stderr, STDERR_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._loop.remove_reader(self._stderr)
            return
        for line in data.decode(errors="replace").splitlines():
            self._log.line(logging.INFO, line)
        if not self.ended.is_set():
            self._loop.remove_reader(self._stderr)
            self._loop.call_later(STDERR_PAUSE_S, self._listen_to_stderr)

    def _listen_to_stderr(self) -> None:
        if not self.ended.is_set():
            self._loop.add_reader(self._stderr, self._read_stderr)

    def _read_packet(self) -> bool:
        """Read one packet; whether there may be more."""
        try:
            data = self._control.recv(MAX_PACKET)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(self._control)
            if self.exit_status is None:
                self._kill_group()  # it has closed its end: nothing can be handed to it any more
            return False
        self._take_packet(data)
        return self._within_rate()

    def _within_rate(self) -> bool:
        """Whether to read on at once; a worker that says too much is heard again a second later."""
        now = self._loop.time()
        if now - self._window_began >= 1.0:
            self._window_began, self._window_packets = now, 0
        self._window_packets += 1
        if self._window_packets < PACKETS_A_SECOND:
            return True
        self._loop.remove_reader(self._control)
        self._loop.call_later(1.0, self._listen_again)
        return False

    def _listen_again(self) -> None:
        if not self.ended.is_set():
            self._loop.add_reader(self._control, self._read_packet)

    def _take_packet(self, data: bytes) -> None:
        try:
            packet = json.loads(data)
        except (ValueError, RecursionError):
            packet = None
        if not isinstance(packet, dict):
            self._log.line(logging.WARNING, f"{len(data)} bytes of status that are no JSON object")
            return
        if "fault" in packet:
            self.last_fault = str(packet["fault"])[:1000]
            self._log.line(logging.WARNING, f"fault: {self.last_fault}")
        else:
            self.usage.take(packet, clock())
            self.spoke.set()
