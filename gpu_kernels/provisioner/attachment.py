"""A kernel and its slice, seen from the Jupyter server: what it asked for, and how that stands.

What may happen in which state is in ``lifecycle``; this is what carries it out: threads, calls, and who is
told. Everything here may be called from any thread; what asks the controller says that it blocks. The lock is
never held while somebody is asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from gpu_kernels import units
from gpu_kernels.client import Lease
from gpu_kernels.client.lease_holder import LeaseHolder
from gpu_kernels.client.lease_request import LeaseRequest
from gpu_kernels.errors import InvalidSize, PoolError
from gpu_kernels.provisioner import leasing, texts
from gpu_kernels.provisioner.asking import Asking
from gpu_kernels.provisioner.leasing import HeldLease, Life
from gpu_kernels.provisioner.lifecycle import Asked, Do, Effect, Standing, Transition
from gpu_kernels.resources.lab import Place, State

if TYPE_CHECKING:
    from gpu_kernels.provisioner.snapshot import Use

WITHDRAWN_WITHIN_S = 5.0


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
        self.use: Use | None = None
        """What was last heard of the slice's use; whoever looks keeps it here."""
        self._on_change = changed
        self._changed = threading.Condition()
        self._changes = 0
        self._watching: list[Callable[[], object]] = []
        self._standing = Standing()
        self._numbers = itertools.count()
        self._requests: dict[int, Asking] = {}
        """Those whose threads may still run, or are to be started, by their numbers in the standing."""
        self._leases: dict[int, HeldLease] = {}
        """What is held, by the number of the request that got it."""

    # --- looking ----------------------------------------------------------------------------------------

    def view(self) -> View:
        with self._changed:
            return self._view()

    def _view(self) -> View:
        now = self._standing
        place = None if now.wanted is None else self._place(now.wanted)
        size = now.wish.size if now.wish is not None else ""
        course = now.course or (now.wish.course if now.wish is not None else None) or ""
        lost = now.loss is not None
        if now.held is not None:
            lease = now.held.lease
            text = texts.attached(lease)
            return View("attached", lease.size, lease.course, lease, place, text, None, now.declined)
        if now.wanted is not None and place is not None:
            waiting_for = self._requests[now.wanted.number].lease
            return View("waiting", place.size, course, waiting_for, place, place.text, None, now.declined)
        if now.refusal is not None:
            return View("refused", size, course, None, None, now.text, now.refusal, lost=lost)
        return View("released", size, course, None, None, now.text, None, now.declined, lost)

    def _place(self, asked: Asked) -> Place:
        holder, size = self._requests[asked.number].holder, asked.request.size
        text = texts.waiting(size, holder.position, holder.starts_in, holder.why, holder.trouble)
        since = round(time.monotonic() - asked.since, 1)
        return Place(size, holder.position, holder.starts_in, since, text)

    @property
    def asking(self) -> Asking | None:
        """The request that is on its way or in the line."""
        with self._changed:
            wanted = self._standing.wanted
            return None if wanted is None else self._requests[wanted.number]

    @property
    def asks(self) -> bool:
        """Whether a request is on its way or in the line."""
        with self._changed:
            return self._standing.wanted is not None

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

    def be_for(self, wish: LeaseRequest) -> None:
        """What is asked for where nothing else is said; nothing is asked for by this."""
        with self._changed:
            self._standing = replace(self._standing, wish=wish)

    def ask(self, wish: LeaseRequest, patience: float | None = None, *, if_idle: bool = False) -> None:
        """Stand in the line for ``wish``, in place of what was asked for before, which stays if this is
        refused; ``if_idle``: unless there is a slice or a request by now. Does not block.

        Raises ``PoolUnavailable`` or ``Unauthenticated`` where this process knows no pool.
        """
        client = leasing.client_of_this_process()
        number = next(self._numbers)

        def event(transition: Transition) -> None:
            # Who waits beside a slice of his own does not wait for others of his course: that may be what
            # stands in the way.
            for_course = patience is None and transition.now.held is None
            request = replace(wish, wait=patience, wait_for_course=for_course)
            transition.ask(number, request, time.monotonic(), if_idle=if_idle)
            wanted = transition.now.wanted
            if wanted is not None and wanted.number == number:
                self._requests[number] = Asking(
                    client,
                    request,
                    self.life,
                    ended=lambda _, error: self._over(number, error),
                    moved=lambda: self._moved(number),
                )

        self._happen(event)

    def check(self) -> None:
        """Find out now whether the slice was taken back. Blocks for a call."""
        held = self._held()
        if held is not None:
            held.still_in_force()

    def want(self) -> None:
        """See to it that the kernel has its slice, or stands in the line for it. Blocks for a call.

        A lease in force is asked for, since it may have been taken back a moment ago.
        """
        held = self._held()
        with self._changed:
            asks, wish = self._standing.wanted is not None, self._standing.wish
        if wish is None:
            return
        if held is not None:
            if held.still_in_force():
                held.keep()  # the keeper forgets what a kernel held that was dead for a while
                return
            self._lost(held)
        if not asks:
            self._ask_or_refuse(wish.anew(), if_idle=True)

    def attach(self, size: str) -> str:
        """Ask for a slice of another size; what the kernel has it keeps until that is granted. The size as
        the pool writes it.

        Raises ``InvalidSize``.
        """
        exact = str(units.parse_size(size))
        with self._changed:
            now = self._standing
        wish, held, wanted = now.wish, now.held, now.wanted
        if self._keeps_size and (wish is None or exact != str(units.parse_size(wish.size))):
            raise InvalidSize(texts.KEEPS_SIZE)
        if wish is None or (wanted is not None and wanted.request.size == exact):
            return exact
        if held is not None and held.lease.size == exact:
            self.keep()
            self.want()
        else:
            self._ask_or_refuse(wish.anew(exact))
        return exact

    def keep(self) -> None:
        """Leave the line for another size, and stay with what there is. Blocks for a call."""
        self._happen(Transition.keep)

    def release(self, text: str | None = None) -> None:
        """Give the slice back, or leave the line; the next CUDA call asks anew. Blocks for a call."""
        self._happen(lambda transition: transition.release(text))

    def _ask_or_refuse(self, wish: LeaseRequest, *, if_idle: bool = False) -> None:
        try:
            self.ask(wish, if_idle=if_idle)
        except PoolError as error:
            refusal = error
            self._happen(lambda transition: transition.refuse(wish, refusal))

    # --- the kernel's life ------------------------------------------------------------------------------

    def restarting(self) -> None:
        """The kernel is about to be restarted: what it has and waits for stays, and what it lost is asked
        for again. What the user gave back stays given back. Blocks for a call.
        """
        self.life.starting()
        with self._changed:
            given_back = self._standing.given_back_by_user
        if not given_back:
            self.want()

    def resume(self, wish: LeaseRequest, lease_id: str) -> None:
        """Hold a lease that an earlier process of the same user took, if it still is. Blocks for a call."""
        number = next(self._numbers)
        lease: Lease | None = None
        try:
            client = leasing.client_of_this_process()
            lease = client.get(lease_id)
        except PoolError as error:
            leasing.log.warning("GPU lease %s cannot be taken up again: %s", lease_id, error.log_message)
        in_force = lease if lease is not None and lease.in_force else None

        def event(transition: Transition) -> None:
            if in_force is not None:
                held = HeldLease(client, LeaseHolder.of_granted(wish, in_force), self.life)
                self._leases[number] = held
            transition.resumed(number, wish, in_force)

        self._happen(event)

    def end(self) -> None:
        """The kernel is gone for good: nothing is left, and nothing is asked for any more. Blocks for a call.

        Never raises.
        """
        with self._changed:
            self.life.ended = True
            asked = list(self._requests.values())
        self._happen(Transition.end)
        end = time.monotonic() + WITHDRAWN_WITHIN_S
        for asking in asked:
            asking.finished(max(0.0, end - time.monotonic()))

    # --- what others tell -------------------------------------------------------------------------------

    def _moved(self, number: int) -> None:
        """Called by a request's thread when more is known of its place."""
        with self._changed:
            asking = self._requests.get(number)
            lease = None if asking is None else asking.lease
        if lease is None:
            self._note_change(self.view())
        else:
            answered = lease
            self._happen(lambda transition: transition.heard(number, answered))

    def _over(self, number: int, error: Exception | None) -> None:
        """Called by a request's thread when it is over."""
        with self._changed:
            lease = self._requests[number].lease
        if error is not None:
            failure = error
            self._happen(lambda transition: transition.failed(number, failure))
        else:
            assert lease is not None
            granted = lease
            self._happen(lambda transition: transition.granted(number, granted))
        with self._changed:
            del self._requests[number]

    def _lost(self, held: HeldLease) -> None:
        """Called by the keeper, or who asked: the controller has ended the lease."""
        text = texts.lost(held.lease.size, held.gone or "")

        def event(transition: Transition) -> None:
            for number in [number for number, each in self._leases.items() if each is held]:
                del self._leases[number]
                transition.lost(number, text)

        self._happen(event)

    # --- carrying out -----------------------------------------------------------------------------------

    def _happen(self, event: Callable[[Transition], object]) -> None:
        """What the event makes of the standing, and all that follows from it. Blocks for a call where
        something is given back.
        """
        with self._changed:
            transition = Transition(self._standing)
            event(transition)
            changed = transition.now is not self._standing
            self._standing = transition.now
            later = [act for effect in transition.effects if (act := self._begin(effect)) is not None]
            view = self._view()
        try:
            if changed:
                self._note_change(view)  # first: who waits for it need not wait for the calls too
        finally:
            for act in later:
                act()

    def _begin(self, effect: Effect) -> Callable[[], object] | None:
        """The part of an effect that asks nobody; the rest of it, for when the lock is not held."""
        number = effect.number
        asking = self._requests.get(number)
        if effect.do is Do.START and asking is not None:
            try:
                asking.start()  # before it is to be seen: whoever withdraws it waits for its thread
            except RuntimeError as error:
                return partial(self._over, number, error)
        elif effect.do is Do.LEAVE and asking is not None:
            asking.withdraw()
            if not asking.started:
                del self._requests[number]
            return asking.give_back  # now: its thread may be in a long poll
        elif effect.do is Do.HOLD:
            if number not in self._leases and asking is not None:
                self._leases[number] = HeldLease(asking.client, asking.holder, self.life)
            held = self._leases[number]
            held.on_lost = self._lost
            held.keep()
        elif effect.do is Do.GIVE_BACK:
            if (held_no_longer := self._leases.pop(number, None)) is not None:
                return held_no_longer.release
            return None if asking is None else asking.give_back
        return None

    def _held(self) -> HeldLease | None:
        with self._changed:
            held = self._standing.held
            return None if held is None else self._leases.get(held.number)

    def _note_change(self, view: View) -> None:
        """``view``: how it stood right after the change."""
        with self._changed:
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
        asking = self.asking
        if asking is not None:
            asking.holder.explain = True

    def public(self) -> Mapping[str, Any] | None:
        """What may be written down of its lease."""
        held = self._held()
        return None if held is None else held.public()
