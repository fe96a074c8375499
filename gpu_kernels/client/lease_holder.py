"""One lease from the request to its end: a state machine that sends nothing and waits for nothing.

    new ──acquire──► asking ──► queued ──► held ──► lost
                        └─────────┴─────────┴─────► over

What it wants sent are scripts (see ``requests``): ``acquire``, then ``tend`` or a keeper's batches while it
is held, and ``release``. A thread (``Reservation``, ``gpu_kernels.client.keeper``), a task of an event loop
(``AsyncReservation``) or a kernel's provisioner carries them out.

**Trust.** A renewal that began at time t and was answered with "ends in e seconds" lets its holder rely on
the lease until t + e, whenever the answer came: the controller counted e from a moment not before t. Once
that time is over without a newer renewal the lease may belong to somebody else. Times are the machine's
since its boot, sleep included: a laptop that was closed has lost its trust.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from msgspec.structs import replace

from gpu_kernels.client import calls
from gpu_kernels.client.lease_request import LeaseRequest
from gpu_kernels.client.requests import Pause, Script
from gpu_kernels.errors import AWAY, GPUKernelsError, LeaseLost, PoolError, PoolFull, Refused, TooMany
from gpu_kernels.renewals import RENEWALS_A_LIFE, Renewals
from gpu_kernels.resources.leases import Lease, Renewal, Why

LOOK_UP_S = 5.0
"""A long poll's length: so long it may take until somebody notices that he is not wanted."""
RETRY_S = 0.5
LONGEST_RETRY_S = 10.0
IN_LINE_S = 600.0
"""What a request without an end asks for: the controller takes off what is more than its own `max_wait`."""
SAY_AGAIN_S = 60.0
SETTLES_S = 5.0
"""How long a request may be refused for what is just being given back; agents confirm within a second."""
EXPLAIN_AGAIN_S = 15.0


class State(StrEnum):
    NEW = "new"
    ASKING = "asking"
    """The controller may know the request, or not."""
    QUEUED = "queued"
    HELD = "held"
    LOST = "lost"
    OVER = "over"
    """Refused, withdrawn or given back."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Why a lease is lost. ``state`` is the controller's word for it now. ``by_controller``: whether it said
    so; else only our trust is over, and it may still be in force.
    """

    state: str
    reason: str
    by_controller: bool

    @property
    def text(self) -> str:
        return self.reason or self.state


class Withdrawn(GPUKernelsError):
    """Nobody waits for this request any longer."""

    code = "withdrawn"


class NotGranted(PoolFull):
    """The request was queued and not granted; ``lease`` is how it stood at its end. ``told``: what the
    controller said that it waited for.
    """

    def __init__(self, lease: Lease, wait: float | None, told: str = "") -> None:
        self.lease, self.wait, self.told = lease, wait, told
        super().__init__(self._text(), retry_after=60.0)

    @property
    def taken_back(self) -> bool:
        """Whether it was granted or queued and somebody ended it, rather than that its time was over."""
        return not self.lease.queued and self.lease.state != "expired"

    def _text(self) -> str:
        size = self.lease.size
        if self.taken_back:
            why = self.lease.reason or self.lease.state
            return f"The {size} was taken back before it could be used: {why}"
        return f"{self.in_vain}Nothing is reserved. Try again in some minutes, or choose a smaller slice."

    @property
    def in_vain(self) -> str:
        """The lines that say what was waited for, how long, and where it stood."""
        place, told = ("", f"{self.told}\n") if self.told else (self.lease.place, "")
        return f"No slice of {self.lease.size} became free within {self.wait:g} seconds{place}.\n{told}"


def boot_time() -> float:
    """Seconds since the machine's boot, also those in which it slept."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Changes:
    """For ``on_moved``: calls ``tell`` each time that ``look`` finds another thing in the holder than before;
    None is nothing to tell.
    """

    def __init__(self, look: Callable[[LeaseHolder], object], tell: Callable[[LeaseHolder], object]) -> None:
        self._look, self._tell = look, tell
        self._found: object = None

    def __call__(self, holder: LeaseHolder) -> None:
        before, self._found = self._found, self._look(holder)
        if self._found is not None and self._found != before:
            self._tell(holder)


class LeaseHolder:
    """``wanted`` says whether anybody still wants the lease; it may not block. ``on_moved`` is called when
    more is known of the place in the queue, ``on_lost`` once when a lease that was held is lost; by whoever
    carries the scripts out, and neither may block.

    ``outlives_outages``: a controller that is away when it is asked first is asked again. ``by_trust``: the
    lease is lost when its trust is over; without it a lease that cannot be renewed counts as held until the
    controller says otherwise, since the GPU server knows better than a clock.
    """

    def __init__(
        self,
        request: LeaseRequest,
        *,
        outlives_outages: bool = False,
        by_trust: bool = False,
        wanted: Callable[[], bool] = lambda: True,
        on_moved: Callable[[LeaseHolder], object] = lambda holder: None,
        on_lost: Callable[[LeaseHolder], object] = lambda holder: None,
        clock: Callable[[], float] = boot_time,
    ) -> None:
        self.request = request
        self.state = State.NEW
        self.lease: Lease | None = None
        self.loss: Loss | None = None
        self.trouble: str | None = None
        """Why nothing is known of the place in the queue at present."""
        self.why = ""
        """What the controller says that it waits for, where ``explain`` is set."""
        self.explain = False
        """Set by whoever shows the place to somebody: then the controller is asked for the reason too."""
        self.wanted = wanted
        self.renewals = Renewals()
        self._outlives_outages, self._by_trust = outlives_outages, by_trust
        self.on_lost = on_lost
        self._on_moved, self._clock = on_moved, clock
        self._began = self._looked_at = clock()
        self._unanswered = False
        """Whether the controller may know more of the request than we do."""
        self._explained: tuple[int | None, float] | None = None
        self._away: PoolError | None = None
        self._losing = threading.Lock()

    @classmethod
    def of_granted(cls, request: LeaseRequest, lease: Lease) -> LeaseHolder:
        """Of a lease in force that an earlier process got, and that this one goes on holding."""
        holder = cls(request)
        holder._note(lease, holder._began)
        holder.state = State.HELD
        return holder

    # --- looking ----------------------------------------------------------------------------------------

    @property
    def trusted_until(self) -> float:
        """When its trust is over without another word."""
        return self.renewals.trusted_until

    @property
    def trusted_for(self) -> float:
        """Seconds for which the lease can be relied upon without another word; 0 once it is lost."""
        return 0.0 if self.loss is not None else max(0.0, self.trusted_until - self._clock())

    @property
    def position(self) -> int | None:
        return None if self.lease is None else self.lease.position

    @property
    def starts_in(self) -> float | None:
        """Seconds, counted down since the controller said so."""
        if self.lease is None or self.lease.starts_in is None:
            return None
        return max(0.0, self.lease.starts_in - (self._clock() - self._looked_at))

    def check(self) -> None:
        """Raises ``LeaseLost`` once the lease cannot be relied upon."""
        if self.trusted_for <= 0:
            raise self.lost_error()

    def lost_error(self) -> LeaseLost:
        assert self.lease is not None
        why = "It was not renewed in time." if self.loss is None else self.loss.text
        return LeaseLost(
            f"The lease of {self.lease.size} is lost: {why}\nAsk for another one to go on.",
            details={"lease": self.lease.id},
        )

    # --- acquiring --------------------------------------------------------------------------------------

    def acquire(self) -> Script[Lease]:
        """Ask, and stand in the queue until it is held.

        Raises the refusal, ``NotGranted``, ``Withdrawn`` when nobody wants it any longer, that the controller
        is away, and ``LeaseLost``. Whatever is raised, also by who carries it out: ``release`` is to be
        carried out then.
        """
        while True:
            lease = yield from self._ask()
            lease = yield from self._stand_in_queue(lease)
            if not self.wanted():
                raise self._withdrawn()
            if lease.in_force and (yield from self._is_fresh(lease)):
                self.state = State.HELD
                return lease
            if self.loss is not None:
                if self._by_trust:
                    raise self.lost_error()
                lease = replace(lease, state=self.loss.state, reason=self.loss.reason)
            if not self._is_endless or lease.state != "expired":
                raise NotGranted(lease, self.request.wait)
            # It was not asked for in time, since the controller or this machine was away: a new request.
            self.request, self.loss = self.request.anew(), None

    def _ask(self) -> Script[Lease]:
        """The first answer that is not "away". Asking again is safe: the key makes it the same request."""
        pause = RETRY_S
        while True:
            if not self.wanted():
                raise self._withdrawn()
            self.state, began, self._unanswered = State.ASKING, self._clock(), True
            try:
                lease: Lease = yield self.request.call(IN_LINE_S if self._is_endless else self._left())
            except PoolError as error:
                self._unanswered = isinstance(error, AWAY) and not error.never_sent
                if isinstance(error, AWAY) and self._outlives_outages and self._left() > 0:
                    yield self._be_away(error, pause)
                    pause = min(2 * pause, LONGEST_RETRY_S)
                elif self._settles(error):
                    yield Pause(RETRY_S)
                else:
                    raise
            else:
                self._note(lease, began)
                return lease

    def _stand_in_queue(self, lease: Lease) -> Script[Lease]:
        """The lease once it is queued no longer."""
        said = self._clock()
        while lease.queued:
            if not self.wanted():
                raise self._withdrawn()
            if self._left() <= 0:
                if self._away is not None:
                    raise self._away
                raise NotGranted(lease, self.request.wait, (yield from self._told(lease)))
            lease = yield from self._look_up(lease)
            if self._must_say_again(lease, said):
                lease, said = (yield from self._ask()), self._clock()
        return lease

    def _look_up(self, lease: Lease) -> Script[Lease]:
        yield from self._explain(lease)
        began = self._clock()
        try:
            found: Lease = yield calls.get(lease.id, wait=min(LOOK_UP_S, self._left()))
        except (*AWAY, TooMany) as error:
            if isinstance(error, TooMany) and not self._is_endless:
                raise
            yield self._be_away(error, RETRY_S)
            return lease
        self._note(found, began)
        return found

    def _must_say_again(self, lease: Lease, said: float) -> bool:
        """A request that another holder has taken over (a reloaded page) is that one's to ask for."""
        due = self._is_endless and self._clock() - said >= SAY_AGAIN_S
        return due and lease.queued and lease.holder == self.request.holder

    def _is_fresh(self, lease: Lease) -> Script[bool]:
        """A grant that came during a long poll may be over by now: then a renewal tells."""
        if self.trusted_for >= lease.ttl * (RENEWALS_A_LIFE - 1) / RENEWALS_A_LIFE:
            return True
        while True:
            try:
                yield from self.renew()
            except PoolError:
                if self._by_trust:
                    raise
            # The answer to a renewal may have come as late: who relies on trust alone asks again.
            if not self._by_trust or self.loss is not None or self.trusted_for > 0:
                return self.loss is None

    def _explain(self, lease: Lease) -> Script[None]:
        """What it waits for, in a line, if somebody is shown it; not too often, since the controller compares
        a lot for it.
        """
        if not self.explain:
            return
        now = self._clock()
        if self._explained is not None:
            position, at = self._explained
            if position == lease.position and now - at < EXPLAIN_AGAIN_S:
                return
        self._explained = lease.position, now
        self.why = yield from self._told(lease)
        self._on_moved(self)

    def _told(self, lease: Lease) -> Script[str]:
        """What the controller says that the request waits for; nothing where it does not say."""
        try:
            told: Why = yield calls.why(lease.id)
            return told.text
        except PoolError:
            return ""

    @property
    def _is_endless(self) -> bool:
        return self.request.wait is None

    def _left(self) -> float:
        """Seconds that the request may still wait."""
        wait = self.request.wait
        return float("inf") if wait is None else max(0.0, self._began + wait - self._clock())

    def _settles(self, error: PoolError) -> bool:
        """A second change of size within a while finds the first one's slice still ending: it would be
        refused for what is free in a moment.
        """
        ending = isinstance(error, Refused) and bool(error.details.get("ending"))
        return ending and self._is_endless and self._clock() - self._began < SETTLES_S

    def _be_away(self, error: PoolError, pause: float) -> Pause:
        self._away, self.trouble = error, str(error).splitlines()[0]
        self._on_moved(self)
        return Pause(min(pause, self._left()))

    def _withdrawn(self) -> Withdrawn:
        return Withdrawn("The request was withdrawn.")

    def _note(self, lease: Lease, began: float) -> None:
        """What the controller answered to a call that began then."""
        before, self.lease, self._unanswered = self.lease, lease, False
        self._looked_at, self.trouble, self._away = self._clock(), None, None
        if lease.queued:
            self.state = State.QUEUED
        elif lease.in_force:
            self._trust(began, lease.expires_in or 0.0)
        moved = before is None or (before.position, before.starts_in) != (lease.position, lease.starts_in)
        if moved and (before is None or lease.queued):
            self._on_moved(self)

    # --- holding ----------------------------------------------------------------------------------------

    @property
    def due_in(self) -> float:
        """Seconds until it wants to be renewed, or its trust is over."""
        due = min(self.renewals.due, self.trusted_until) if self._by_trust else self.renewals.due
        return max(0.0, due - self._clock())

    def expires(self) -> bool:
        """Whether its trust is over and nobody else can tell: it is lost then."""
        if not self._by_trust or self._clock() < self.trusted_until:
            return False
        assert self.lease is not None
        why = f"It could not be renewed for {self.lease.ttl:g} s, so that it may be over."
        self._lose(Loss("expired", why, by_controller=False))
        return True

    def tries(self) -> float:
        """A renewal begins: when, for ``renewed``. Until that is called it counts as failed."""
        assert self.lease is not None
        began = self._clock()
        self.renewals.begin(began, self.lease.ttl)
        return began

    def renewed(self, began: float, answer: Renewal) -> None:
        """The answer to a renewal that began then, perhaps of many leases."""
        assert self.lease is not None
        for gone in answer.lost:
            if gone.id == self.lease.id:
                self._lose(Loss(gone.state, gone.reason or "", by_controller=True))
        if (left := answer.left.get(self.lease.id)) is not None:
            self._trust(began, left)

    def tend(self) -> Script[bool]:
        """For who holds one lease alone: what is due now. False once there is nothing more to be done."""
        if self.expires():
            return False
        if self.due_in <= 0:
            try:
                yield from self.renew()
            except PoolError:
                return self.loss is None  # the next try is due soon
        return self.loss is None

    def renew(self) -> Script[None]:
        """Renew it now, by itself. Raises why that failed."""
        assert self.lease is not None
        began = self.tries()
        self.renewed(began, (yield calls.renew([(self.lease.id, self.lease.epoch)])))

    def _trust(self, began: float, expires_in: float) -> None:
        assert self.lease is not None
        self.renewals.answered(began, self.lease.ttl, expires_in)

    def _lose(self, loss: Loss) -> None:
        """The lease can no longer be relied upon. Two threads may hear of it at once."""
        with self._losing:
            if self.loss is not None or self.state is State.OVER:
                return
            self.loss, was_held = loss, self.state is State.HELD
            if was_held:
                self.state = State.LOST
        if was_held:
            self.on_lost(self)

    # --- giving back ------------------------------------------------------------------------------------

    def release(self, everything: bool = False) -> Script[None]:
        """Give back what was got, and also what may have been got without our knowing; that is found by its
        holder, where nothing else is the holder's: ``everything`` of his may go.

        Raises why that failed; then it expires, since it is renewed no longer.
        """
        self.state, lease = State.OVER, self.lease
        if self._unanswered and (everything or self.request.holds_nothing_else):
            yield from calls.release_holder(self.request.holder)
        elif self.loss is not None and self.loss.by_controller:
            return
        elif lease is not None and (lease.queued or lease.in_force):
            yield calls.release(lease.id, self.request.holder)
