"""A store between whose statements the controller dies, or the disk fails.

It passes everything on to a real store, row by row, and counts: ``begin``, each row that is written, and the
moments before and after a commit are *statements*. A fault strikes at the statement it was set for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

from gpu_kernels.errors import LedgerUnavailable, OutcomeUnknown
from gpu_kernels.pool.ledger.state.rows import Change
from gpu_kernels.pool.ledger.stores import Leading, Loaded, Store


class Fault(StrEnum):
    DIES = "controller dies"
    """The process ends here: nobody is answered, and what was not committed is gone."""
    DISK_FULL = "disk is full"
    """The statement fails; a commit that fails has not happened."""
    NO_ANSWER = "commit without an answer"
    """The commit's outcome is unknown; it was made where it struck after it, and not where before."""


class Died(BaseException):
    """The controller's process has ended here."""


class FaultyStore:
    """See the module. ``strike`` sets a fault; ``dead`` says that it has killed this controller."""

    def __init__(self, store: Store) -> None:
        self.inner = store
        self.dead = False
        self.struck = 0
        self._fault: Fault | None = None
        self._left = 0

    def strike(self, fault: Fault, statements: int) -> None:
        """Let the fault strike after so many more statements."""
        self._fault, self._left = fault, statements

    def heal(self) -> None:
        self._fault = None

    @contextmanager
    def spared(self) -> Iterator[None]:
        """Within, nothing strikes; what was set stays set."""
        fault, self._fault = self._fault, None
        try:
            yield
        finally:
            self._fault = fault

    def _statement(self, *, commits: bool = False) -> None:
        if self.dead:
            raise Died
        fault = self._fault
        if fault is None:
            return
        if self._left > 0:
            self._left -= 1
            return
        if fault is Fault.NO_ANSWER and not commits:
            return  # it waits for the next commit
        self._fault = None
        self.struck += 1
        if fault is Fault.DIES:
            self.dead = True
            raise Died
        if fault is Fault.NO_ANSWER:
            raise OutcomeUnknown("The connection broke in the middle of a commit.")
        raise LedgerUnavailable("The disk is full.")

    def open(self) -> None:
        self.inner.open()

    def lead(self, holder: str, address: str, *, alone: bool = False) -> Leading:
        return self.inner.lead(holder, address, alone=alone)

    def begin(self, *, writes: bool = True) -> int:
        if writes:
            self._statement()
        elif self.dead:
            raise Died
        return self.inner.begin(writes=writes)

    def load(self, ended_since: int) -> Loaded:
        return self.inner.load(ended_since)

    def write(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self._statement()
            self.inner.write([change])

    def renew_term(self) -> None:
        self._statement()
        self.inner.renew_term()

    def commit(self) -> None:
        self._statement(commits=True)
        self.inner.commit()
        try:
            self._statement(commits=True)
        except LedgerUnavailable as error:
            if not isinstance(error, OutcomeUnknown):
                self.strike(Fault.DISK_FULL, 0)  # what is committed is no failure: the next one fails
                return
            raise

    def rollback(self) -> None:
        """A dead process rolls nothing back: its connection ends, and the database does that."""
        self.inner.rollback()

    def close(self) -> None:
        self.inner.close()

    def prune(self, before: int, most_events: int, batch: int) -> bool:
        self._statement()
        return self.inner.prune(before, most_events, batch)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)
