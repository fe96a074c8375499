"""One request for a slice, from the first call until it is granted, refused or withdrawn; a thread each.

A request without ``patience`` keeps its place while the kernel lives: the thread asks with a long poll, and
says again that it still waits before the time that the controller gives a request is over. It outlives a
controller that is away. One with ``patience`` is refused when that is over.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from gpu_kernels.client import Lease, PoolClient
from gpu_kernels.errors import GPUKernelsError, PoolError, Refused, TooMany
from gpu_kernels.provisioner import texts
from gpu_kernels.provisioner.leasing import AWAY, Life, NoSlice, Wish, give_back, log

LOOK_UP_S = 5.0
RETRY_S = 0.5
LONGEST_RETRY_S = 10.0
IN_LINE_S = 600.0
"""What a request without patience asks for: the controller takes off what is more than its own `max_wait`."""
SAY_AGAIN_S = 60.0
SETTLES_S = 5.0
"""How long a request may be refused for what is just being given back; agents confirm within a second."""
EXPLAIN_AGAIN_S = 15.0
THREAD_NAME = "gpu-lease-line"


class Withdrawn(GPUKernelsError):
    """Nobody waits for this request any longer."""

    code = "withdrawn"


class Asking:
    """``ended`` is called once, in the request's thread: with the lease if it is in force, else with the
    error. ``moved`` is called when what is known of the place in the line has changed. ``after``: the request
    of the same slot that this one is to be in place of, so it must not reach the controller before that.
    """

    def __init__(
        self,
        client: PoolClient,
        wish: Wish,
        life: Life,
        *,
        ended: Callable[[Asking, Lease | None, Exception | None], object],
        moved: Callable[[], object],
        patience: float | None = None,
        after: Asking | None = None,
    ) -> None:
        self.client = client
        self.wish = wish
        self.patience = patience
        self.for_course = False
        """Whether it waits also for others of its course; who waits beside a slice of his own does not, since
        that may be what stands in the way.
        """
        self.since = time.monotonic()
        self.lease: Lease | None = None
        self.looked_at = self.since
        self.trouble: str | None = None
        """Why nothing is known of the place at present."""
        self.why = ""
        self.answered = threading.Event()
        """Whether the controller has said anything to it, or it is over."""
        self._after = after
        self.explain = threading.Event()
        """Set by whoever shows the line to somebody: then the controller is asked for the reason too."""
        self._explained: tuple[int | None, float] | None = None
        self._life = life
        self._ended, self._moved = ended, moved
        self._withdrawn = threading.Event()
        self._thread = threading.Thread(target=self._run, name=THREAD_NAME, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def withdraw(self) -> None:
        """Leave the line. Returns at once; what is granted meanwhile is given back by the thread."""
        self._withdrawn.set()

    def finished(self, timeout: float | None = None) -> bool:
        """Whether the thread has ended, within ``timeout`` seconds; nothing is asked for then."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    @property
    def position(self) -> int | None:
        return None if self.lease is None else self.lease.position

    @property
    def starts_in(self) -> float | None:
        """Seconds, counted down since the controller said so."""
        if self.lease is None or self.lease.starts_in is None:
            return None
        return max(0.0, self.lease.starts_in - (time.monotonic() - self.looked_at))

    def _run(self) -> None:
        lease: Lease | None = None
        failure: Exception | None = None
        try:
            lease = self._stand_in_line()
        except GPUKernelsError as error:
            failure = error
        except Exception as error:
            log.exception("Asking for a GPU slice failed")
            failure = error
        if failure is not None and self.lease is not None and (self.lease.queued or self.lease.in_force):
            give_back(self.client, self.lease, self.wish.holder)
        self.answered.set()
        self._ended(self, lease, failure)

    def _stand_in_line(self) -> Lease:
        while self._after is not None:
            self._check_wanted()
            if self._after.answered.wait(RETRY_S):
                # What was withdrawn before its own turn had asked nothing: then it is the turn of what that
                # waited for, which may be on its way still. Its thread writes this no more once it is over.
                self._after = self._after._after
        while True:
            lease = self._ask()
            said = time.monotonic()
            while lease.queued:
                self._note(lease)
                self._check_patience(lease)
                lease = self._look_up(lease)
                if self._must_say_again(lease, said):
                    lease, said = self._ask(), time.monotonic()
            self.lease = lease
            if self._withdrawn.is_set():
                raise Withdrawn("The request was withdrawn.")
            if lease.in_force and self._still_in_force(lease):
                return lease
            if self.patience is not None and lease.state == "expired":
                raise _not_in_time(self.wish, lease, self.patience, "")  # by the controller's clock
            if self.patience is not None or not (lease.in_force or lease.state == "expired"):
                raise _taken_back(self.wish, lease)
            # It was not asked for in time, since the controller or this machine was away: a new request.
            self.wish = self.wish.anew()

    def _must_say_again(self, lease: Lease, said: float) -> bool:
        """A request that another kernel has taken over (a reloaded page) is that one's to ask for."""
        due = self.patience is None and time.monotonic() - said >= SAY_AGAIN_S
        return due and lease.queued and lease.holder == self.wish.holder

    def _still_in_force(self, lease: Lease) -> bool:
        """A grant that came during a long poll may be old by now; renewing it tells."""
        if time.monotonic() - self.looked_at < lease.ttl / 3:
            return True
        try:
            return lease.id in self.client.renew([(lease.id, lease.epoch)]).renewed
        except PoolError:
            return True  # nothing was taken back: the keeper finds out

    def _ask(self) -> Lease:
        """The first answer that is not "away". Asking again is safe: the key makes it the same request."""
        pause = RETRY_S
        while True:
            self._check_wanted()
            left = IN_LINE_S if self.patience is None else max(0.0, self._left())
            try:
                lease = self.client.ask(
                    self.wish.size,
                    key=self.wish.identity.key,
                    slot=self.wish.identity.slot,
                    holder=self.wish.holder,
                    course=self.wish.course,
                    wait=left,
                    labels=self.wish.labels,
                    wait_for_course=self.for_course,
                    preemptible=True,  # else GPUs would idle for hours before each class
                )
            except Refused as error:
                if not self._settles(error):
                    raise
                self._withdrawn.wait(RETRY_S)
            except AWAY as error:
                if self.patience is not None and self._left() <= 0:
                    raise
                self._be_away(error, pause)
                pause = min(2 * pause, LONGEST_RETRY_S)
            else:
                self._note(lease)
                return lease

    def _settles(self, error: Refused) -> bool:
        """A second change of size within a while finds the first one's slice still ending: it would be
        refused for what is free in a moment.
        """
        ending = bool(error.details.get("ending"))
        return ending and self.patience is None and time.monotonic() - self.since < SETTLES_S

    def _look_up(self, lease: Lease) -> Lease:
        self._explain(lease)
        left = LOOK_UP_S if self.patience is None else max(0.0, min(LOOK_UP_S, self._left()))
        try:
            return self.client.get(lease.id, wait=left)
        except (*AWAY, TooMany) as error:
            if isinstance(error, TooMany) and self.patience is not None:
                raise
            self._be_away(error, RETRY_S)
            return lease

    def _explain(self, lease: Lease) -> None:
        """What it waits for, in a line, if somebody is shown it; not too often, since the controller compares
        a lot for it.
        """
        now = time.monotonic()
        if not self.explain.is_set():
            return
        if self._explained is not None:
            position, at = self._explained
            if position == lease.position and now - at < EXPLAIN_AGAIN_S:
                return
        self._explained = lease.position, now
        self.why = self._told(lease)
        self._moved()

    def _check_wanted(self) -> None:
        if self._withdrawn.is_set():
            raise Withdrawn("The request was withdrawn.")
        if not self._life.lasts():
            log.info("Kernel %s has died for good; it waits for a GPU no longer.", self.wish.holder)
            raise Withdrawn("The kernel has died.")

    def _check_patience(self, lease: Lease) -> None:
        self._check_wanted()
        if self.patience is not None and self._left() <= 0:
            raise _not_in_time(self.wish, lease, self.patience, self._told(lease))

    def _told(self, lease: Lease) -> str:
        """What the controller says that the request waits for; nothing where it does not say."""
        try:
            return str(self.client.why(lease.id)["text"])
        except PoolError:
            return ""

    def _left(self) -> float:
        assert self.patience is not None
        return self.since + self.patience - time.monotonic()

    def _be_away(self, error: PoolError, pause: float) -> None:
        self.trouble = str(error).splitlines()[0]
        self._moved()
        left = pause if self.patience is None else min(pause, max(0.0, self._left()))
        self._withdrawn.wait(left)

    def _note(self, lease: Lease) -> None:
        before = self.lease
        self.lease, self.looked_at, self.trouble = lease, time.monotonic(), None
        self.answered.set()
        if before is None or before.position != lease.position or before.starts_in != lease.starts_in:
            self._moved()


def _taken_back(wish: Wish, lease: Lease) -> NoSlice:
    return NoSlice(texts.ended_before_start(wish.size, lease.state, lease.reason))


def _not_in_time(wish: Wish, lease: Lease, seconds: float, told: str) -> NoSlice:
    why = f"{told}\n" if told else ""
    return NoSlice(
        f"No slice of {wish.size} became free within {seconds:g} seconds{'' if told else lease.place}.\n"
        f"{why}"
        f"Nothing is reserved. Try again in some minutes, choose a smaller slice,\n{texts.WITHOUT_GPU}"
    )
