"""A kernel and its slice, seen from the Jupyter server: what it asked for, and how that stands.

The states and what may happen in each are in docs/design/lab.md. Everything here may be called from any
thread; what asks the controller says that it blocks. The lock is never held while somebody is asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from gpu_kernels import units
from gpu_kernels.client import Lease
from gpu_kernels.client.lease_holder import LeaseHolder, Withdrawn
from gpu_kernels.client.lease_request import LeaseRequest
from gpu_kernels.errors import GPUKernelsError, InvalidSize, PoolError
from gpu_kernels.provisioner import leasing, texts
from gpu_kernels.provisioner.asking import Asking
from gpu_kernels.provisioner.leasing import HeldLease, Life

if TYPE_CHECKING:
    from gpu_kernels.provisioner.snapshot import Use

State = Literal["attached", "waiting", "released", "refused"]
WITHDRAWN_WITHIN_S = 5.0


@dataclass(frozen=True)
class Place:
    """How a request stands in the line: seconds and a number from 1, None where nobody knows."""

    size: str
    position: int | None
    starts_in: float | None
    since: float
    text: str

    def json(self) -> dict[str, Any]:
        return {
            "size": self.size,
            "position": self.position,
            "starts_in": self.starts_in,
            "since": round(self.since, 1),
            "text": self.text,
        }


@dataclass(frozen=True)
class View:
    """How an attachment stands at one moment. ``place`` is there while it waits, also for another size than
    it has; ``error`` is why it is refused; ``declined`` is told of another size that was; ``lost`` is whether
    the last slice was taken back, rather than given back.
    """

    state: State
    size: str
    course: str
    lease: Lease | None
    place: Place | None
    text: str
    error: Exception | None = None
    declined: str | None = None
    lost: bool = False


class Attachment:
    """One for each kernel of ours. ``changed`` is called after each change, with nothing held, and how it
    stood then: who waits may have changed it again. ``keeps_size``: no other size is asked for later.
    """

    def __init__(
        self,
        kernel_id: str,
        alive: Callable[[], bool],
        changed: Callable[[Attachment, View], object] | None = None,
        keeps_size: bool = False,
    ) -> None:
        self.kernel_id = kernel_id
        self._keeps_size = keeps_size
        self.life = Life(alive)
        self.wish: LeaseRequest | None = None
        self.use: Use | None = None
        """What was last heard of the slice's use; whoever looks keeps it here."""
        self._on_change = changed
        self._changed = threading.Condition()
        self._changes = 0
        self._watching: list[Callable[[], object]] = []
        self._held: HeldLease | None = None
        self._asking: Asking | None = None
        self._newest: Asking | None = None
        """The last one that was started; it may still be on its way though it was given up."""
        self._earlier: list[Asking] = []
        """What the request on its way is in place of: which stand until the controller has answered."""
        self._left: list[Asking] = []
        """Of these, what the controller has ended while its answer to the newest was still on its way."""
        self._refusal: Exception | None = None
        self._own: LeaseRequest | None = None
        """For what it was granted last, or is started for: what is asked for where nothing else is said."""
        self._declined: str | None = None
        self._loss: str | None = None
        self._text = texts.NOT_ASKED
        self._course: str | None = None
        self._given_back_by_user = False
        self._ended = False

    # --- looking ----------------------------------------------------------------------------------------

    def view(self) -> View:
        with self._changed:
            return self._view()

    def _view(self) -> View:
        held, asking, error, lost = self._held, self._asking, self._refusal, self._loss is not None
        place = None if asking is None else _place(asking)
        size = self.wish.size if self.wish is not None else ""
        course = self._course or (self.wish.course if self.wish is not None else None) or ""
        if held is not None:
            lease, text = held.lease, texts.attached(held.lease)
            return View("attached", lease.size, lease.course, lease, place, text, None, self._declined)
        if place is not None:
            waiting_for = asking.lease if asking is not None else None
            return View("waiting", place.size, course, waiting_for, place, place.text, None, self._declined)
        if error is not None:
            return View("refused", size, course, None, None, self._text, error, lost=lost)
        return View("released", size, course, None, None, self._text, None, self._declined, lost)

    @property
    def asks(self) -> bool:
        """Whether a request is on its way or in the line."""
        with self._changed:
            return self._asking is not None

    @property
    def changes(self) -> int:
        """How often it has changed; see ``wait``."""
        with self._changed:
            return self._changes

    def wait(self, changes: int, seconds: float) -> int:
        """Blocks until it has changed more often than ``changes``, or ``seconds`` are over; how often now."""
        with self._changed:
            self._changed.wait_for(lambda: self._changes != changes, seconds)
            return self._changes

    async def settled(self, seconds: float) -> View:
        """When nothing is asked for any longer, or after so long.

        No thread waits meanwhile: an event loop's are few, and forty kernels that start patiently would leave
        none to whatever else their server does.
        """
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # its loop has ended: nobody waits there
                loop.call_soon_threadsafe(changed.set)

        with self._changed:
            self._watching.append(wake)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    while self.asks:
                        await changed.wait()
                        changed.clear()
            return self.view()
        finally:
            with self._changed:
                self._watching.remove(wake)

    # --- asking -----------------------------------------------------------------------------------------

    def ask(self, wish: LeaseRequest, patience: float | None = None, *, if_idle: bool = False) -> None:
        """Stand in the line for ``wish``, in place of what was asked for before, which stays if this is
        refused; ``if_idle``: unless there is a slice or a request by now. Does not block.

        Raises ``PoolUnavailable`` or ``Unauthenticated`` where this process knows no pool.
        """
        client = leasing.client_of_this_process()
        with self._changed:
            if self._ended or (if_idle and (self._held is not None or self._asking is not None)):
                return
            # Who waits beside a slice of his own does not wait for others of his course: that may be what
            # stands in the way.
            for_course = patience is None and self._held is None
            request = replace(wish, wait=patience, wait_for_course=for_course)
            asking = Asking(
                client, request, self.life, ended=self._asked, moved=self._moved, after=self._newest
            )
            asking.start()  # before it is to be seen: whoever withdraws it waits for its thread
            if self._asking is not None:
                self._earlier.append(self._asking)
            self._asking = self._newest = asking
            self.wish, self._refusal, self._declined = wish, None, None
            self._own, self._given_back_by_user = self._own or wish, False
        self._note_change()

    def check(self) -> None:
        """Find out now whether the slice was taken back. Blocks for a call."""
        with self._changed:
            held = self._held
        if held is not None:
            held.still_in_force()

    def want(self) -> None:
        """See to it that the kernel has its slice, or stands in the line for it. Blocks for a call.

        A lease in force is asked for, since it may have been taken back a moment ago.
        """
        with self._changed:
            held, asking, wish = self._held, self._asking, self.wish
        if wish is None or (held is not None and held.still_in_force()):
            return
        if asking is None:
            self._ask_or_refuse(wish.anew(), if_idle=True)

    def attach(self, size: str) -> str:
        """Ask for a slice of another size; what the kernel has it keeps until that is granted. The size as
        the pool writes it.

        Raises ``InvalidSize``.
        """
        exact = str(units.parse_size(size))
        with self._changed:
            held, asking, wish = self._held, self._asking, self.wish
        if self._keeps_size and (wish is None or exact != str(units.parse_size(wish.size))):
            raise InvalidSize(texts.KEEPS_SIZE)
        if wish is None or (asking is not None and asking.request.size == exact):
            return exact
        if held is not None and held.lease.size == exact:
            self.keep()
            self.want()
        else:
            self._ask_or_refuse(wish.anew(exact))
        return exact

    def keep(self) -> None:
        """Leave the line for another size, and stay with what there is. Blocks for a call."""
        with self._changed:
            held, asking = self._held, self._asking
            if held is None or asking is None or self.wish is None:
                return
            leaving = [*self._take_earlier(), asking]
            self._asking, self.wish = None, self._own_again()
        _leave(leaving)
        self._note_change()

    def release(self, text: str | None = None) -> None:
        """Give the slice back, or leave the line; the next CUDA call asks anew. Blocks for a call."""
        with self._changed:
            held, asking = self._held, self._asking
            leaving = [*self._take_earlier(), *([] if asking is None else [asking])]
            self._held = self._asking = self._refusal = self._declined = None
            self._given_back_by_user, self._loss = True, None
            if held is None and asking is None:
                self._text = texts.NOTHING_TO_GIVE_BACK
            else:
                size = (
                    held.lease.size if held is not None else asking.request.size if asking is not None else ""
                )
                self._text = text or texts.given_back(size, held=held is not None)
                self.wish = self._own_again()
        _leave(leaving)
        if held is not None:
            held.release()
        self._note_change()

    def _ask_or_refuse(self, wish: LeaseRequest, *, if_idle: bool = False) -> None:
        try:
            self.ask(wish, if_idle=if_idle)
        except PoolError as error:
            with self._changed:
                self._refuse(wish, error)
                view = self._view()
            self._note_change(view)

    # --- the kernel's life ------------------------------------------------------------------------------

    def restarting(self) -> None:
        """The kernel is about to be restarted: what it has and waits for stays, and what it lost is asked
        for again. What the user gave back stays given back. Blocks for a call.
        """
        self.life.starting()
        with self._changed:
            given_back = self._given_back_by_user
        if not given_back:
            self.want()

    def resume(self, wish: LeaseRequest, lease_id: str) -> None:
        """Hold a lease that an earlier process of the same user took, if it still is. Blocks for a call."""
        with self._changed:
            self.wish = self._own = wish
        try:
            client = leasing.client_of_this_process()
            lease = client.get(lease_id)
        except PoolError as error:
            leasing.log.warning("GPU lease %s cannot be taken up again: %s", lease_id, error.log_message)
            return
        if lease.in_force:
            held = HeldLease(client, LeaseHolder.of_granted(wish, lease), self.life, self._lost)
            held.keep()
            with self._changed:
                ended = self._ended
                self._held = None if ended else held
            if ended:
                held.release()
            self._note_change()

    def end(self) -> None:
        """The kernel is gone for good: nothing is left, and nothing is asked for any more. Blocks for a call.

        Never raises.
        """
        with self._changed:
            self._ended = True
            asked = [*self._earlier, *([] if self._asking is None else [self._asking])]
        self.release()
        end = time.monotonic() + WITHDRAWN_WITHIN_S
        for asking in asked:
            asking.finished(max(0.0, end - time.monotonic()))

    # --- what others tell -------------------------------------------------------------------------------

    def _moved(self) -> None:
        """Called by a request's thread when more is known of its place. What the newest is in place of has
        left the line by its first answer: the controller ended it then, and perhaps handed on its place.
        """
        left: list[Asking] = []
        with self._changed:
            asking = self._asking
            if asking is not None and asking.lease is not None:
                left = [*self._left, *self._take_earlier()]
                for before in left:
                    if before.lease is not None and before.lease.created_at == asking.lease.created_at:
                        asking.since = min(asking.since, before.since)
        for before in left:
            before.withdraw()
        self._note_change()

    def _asked(self, asking: Asking, error: Exception | None) -> None:
        """Called by a request's thread when it is over."""
        lease = asking.lease if error is None else None
        with self._changed:
            current = self._asking is asking
            expected = current or asking in self._earlier
            if current:
                self._asking = None
            elif expected:
                self._earlier.remove(asking)
                if lease is None:
                    self._left.append(asking)
            old = None
            if expected and lease is not None:
                old = self._hold(asking, lease)
            elif current and error is not None:
                self._refuse(asking.request, error)
            if self._asking is None:
                self._left = []
            view = self._view()
        if not expected and lease is not None:
            leasing.give_back(asking.client, asking.holder)
        if old is not None and lease is not None and old.lease.id != lease.id:
            old.release()
        self._note_change(view)

    def _hold(self, asking: Asking, lease: Lease) -> HeldLease | None:
        """The lease is the kernel's now; what it had before."""
        old, self._course, self._loss = self._held, lease.course, None
        self._own = asking.request
        if self._asking is None:
            self.wish = asking.request
        self._held = HeldLease(asking.client, asking.holder, self.life, self._lost)
        self._held.keep()
        return old

    def _take_earlier(self) -> list[Asking]:
        earlier, self._earlier, self._left = self._earlier, [], []
        return earlier

    def _own_again(self) -> LeaseRequest | None:
        return self.wish if self._own is None else self._own.anew()

    def _refuse(self, wish: LeaseRequest, error: Exception) -> None:
        """Another size than the kernel's own leaves all as it was, and any leaves the place of an earlier
        request.
        """
        if isinstance(error, Withdrawn):
            self._text = str(error)
            return
        text = str(error) if isinstance(error, GPUKernelsError) else texts.FAULT
        if self._earlier:
            self._asking = self._earlier.pop()
            self.wish = self._asking.request
            self._declined = texts.declined_in_line(text, self.wish.size)
            return
        if self._own is not None and self._own.size != wish.size:
            self.wish = self._own_again()
            kept = None if self._held is None else self._held.lease.size
            self._declined = texts.declined(text, kept, self._own.size)
            return
        self._text = text if self._loss is None else f"{self._loss}\n{text}"
        self._refusal = error

    def _lost(self, held: HeldLease) -> None:
        """Called by the keeper, or who asked: the controller has ended the lease."""
        with self._changed:
            if self._held is not held:
                return
            self._held = None
            self._loss = texts.lost(held.lease.size, held.gone or "")
            self._text = texts.taken_back(self._loss)
        self._note_change()

    def _note_change(self, view: View | None = None) -> None:
        """``view``: how it stood right after the change; None where nobody can have changed it since."""
        with self._changed:
            view = view or self._view()
            self._changes += 1
            self._changed.notify_all()
            watching = list(self._watching)
        for wake in watching:
            wake()
        if self._on_change is not None:
            self._on_change(self, view)

    # --- for the kernel's environment, and for others to show -------------------------------------------

    def explained(self) -> None:
        """Somebody is shown the line: the controller is asked for the reason too."""
        with self._changed:
            if self._asking is not None:
                self._asking.holder.explain = True

    def public(self) -> Mapping[str, Any] | None:
        """What may be written down of its lease."""
        with self._changed:
            return None if self._held is None else self._held.public()


def _place(asking: Asking) -> Place:
    holder, size = asking.holder, asking.request.size
    text = texts.waiting(size, holder.position, holder.starts_in, holder.why, holder.trouble)
    return Place(size, holder.position, holder.starts_in, time.monotonic() - asking.since, text)


def _leave(leaving: Iterable[Asking]) -> None:
    """Leave the line now: the threads may be in a long poll."""
    for asking in leaving:
        asking.withdraw()
        leasing.give_back(asking.client, asking.holder)
