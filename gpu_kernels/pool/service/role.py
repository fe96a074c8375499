"""Active or on standby: one of the controllers of a store decides, the others wait to take over.

The store's term row is what keeps two of them apart (see ``stores.term``). What stands here only says when to
try, and what to do on a change. A controller is on standby until it has the term; then it loads the book,
gives every living lease a whole time to live, and answers. Deposed, it answers ``not_active`` from that
moment on and is on standby again.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
from collections.abc import Mapping
from pathlib import Path

from gpu_kernels.errors import GPUKernelsError, NotActive
from gpu_kernels.pool.ledger.stores.sql import SqlStore
from gpu_kernels.pool.service.desk import Desk
from gpu_kernels.pool.service.waiting import Bells

log = logging.getLogger("gpu_kernels.pool")

LOOKS = 3
"""In each time to live of a term: how often the active one renews it, and a standby looks at it."""
LONGEST_PAUSE = 1.0
"""Seconds between two looks of a standby."""


class StateLock:
    """The lock of a state folder, by which a controller knows that the one before it is dead.

    It is held from the taking of a term until the end of the process, or of the term; its text is the term's
    incarnation. So whoever gets it and reads the incarnation that the store names knows that nobody decides
    by that term any more, and need not wait for the term's end. It is no more than that: who decides, the
    store says.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "lock"
        self._file: int | None = None

    def hold(self) -> bool:
        """Whether this process holds it, now or already."""
        if self._file is None:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(file)
                return False
            self._file = file
        return True

    def read(self) -> str:
        """The incarnation of the last term of this folder's controllers; empty for none. For its holder."""
        assert self._file is not None
        return os.pread(self._file, 100, 0).decode(errors="replace").strip()

    def write(self, incarnation: str) -> None:
        assert self._file is not None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, incarnation.encode(), 0)

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


class Role:
    """What this controller is now. ``courses`` are those of a new ledger."""

    def __init__(
        self,
        desk: Desk,
        store: SqlStore,
        lock: StateLock,
        bells: Bells,
        *,
        courses: Mapping[str, Mapping[str, int]],
        term_ttl: float,
    ) -> None:
        self._desk = desk
        self._store = store
        self._lock = lock
        self._bells = bells
        self._courses = courses
        self._interval = term_ttl / LOOKS
        self._trouble = ""
        self.active = False

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            pause = self._interval if self.active else min(self._interval, LONGEST_PAUSE)
            await asyncio.sleep(pause)
            try:
                await self.once()
                self._trouble = ""
            except GPUKernelsError as error:
                if error.log_message != self._trouble:
                    log.error("the term cannot be taken or renewed: %s", error.log_message)
                self._trouble = error.log_message
            except Exception:
                log.exception("a look at the term failed")

    async def once(self) -> None:
        """Renew the term, or take it if that may be. Raises what is wrong with the store."""
        if not self.active:
            await self._take()
            return
        try:
            await self._desk.write(lambda tx: None)
        except NotActive as error:
            self._step_down(error)
        else:
            self._mark()

    async def _take(self) -> None:
        alone = await asyncio.to_thread(self._alone)
        try:
            await self._desk.lead(self._courses, alone=alone)
        except NotActive:
            self._lock.release()
            return
        except BaseException:
            self._lock.release()
            raise
        self.active = True
        self._mark()
        log.info("this controller is the active one")

    def _alone(self) -> bool:
        """Whether whoever had the last term is dead: this process holds the lock that it held. Where nobody
        had one, another controller of the new ledger may be about to take it.
        """
        leader, _ = self._store.leader()
        if leader is None:
            return not self._store.knows_terms() and self._lock.hold()
        return self._lock.hold() and leader.incarnation == self._lock.read()

    def _mark(self) -> None:
        """Hold the lock for this term, as soon as whoever had it before has let it go."""
        if self._lock.hold():
            self._lock.write(self._desk.ledger.incarnation)

    def _step_down(self, why: NotActive) -> None:
        log.warning("this controller is on standby: %s", why.log_message)
        self.active = False
        self._lock.release()
        self._bells.ring_all()
