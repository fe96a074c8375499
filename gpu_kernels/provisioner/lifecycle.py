"""What a kernel has and asks for, and what each event makes of it: states, events and effects (pure).

An event is a function from one ``Standing`` to the next, which adds to ``effects`` what is to be done. It
holds, whatever comes in whatever order (tests/provisioner/test_lifecycle.py plays all of them):

1. A kernel has at most one slice. What was granted is held, or given back.
2. One request of the kernel is on its way to the controller at a time: none overtakes another.
3. What is asked for in place of something else leaves that standing until the controller has answered: a
   refusal loses nothing.
4. After its end nothing is held and nothing is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum

from gpu_kernels.client import Lease
from gpu_kernels.client.lease_holder import Withdrawn
from gpu_kernels.client.lease_request import LeaseRequest
from gpu_kernels.errors import GPUKernelsError
from gpu_kernels.provisioner import texts


class Do(Enum):
    START = "start"
    """Ask the controller for the request of this number."""
    LEAVE = "leave"
    """The request of this number is not wanted any longer: nothing of it may stay in the line."""
    HOLD = "hold"
    """Keep what the request of this number was granted."""
    GIVE_BACK = "give back"
    """Release what the request of this number was granted."""


@dataclass(frozen=True)
class Effect:
    do: Do
    number: int


@dataclass(frozen=True)
class Asked:
    """A request of the kernel's. ``created_at``: of its lease, once the controller has answered."""

    number: int
    request: LeaseRequest
    since: float
    started: bool = False
    created_at: str | None = None


@dataclass(frozen=True)
class Held:
    """The lease that the request of this number was granted."""

    number: int
    lease: Lease


@dataclass(frozen=True)
class Standing:
    """``line``: what is asked for, oldest first. The last is what is wanted now; those before it stand until
    the controller has answered to that. ``left``: of those, what the controller has ended meanwhile.
    ``on_its_way``: the number of the request that the controller has not answered to, wanted or not.
    """

    held: Held | None = None
    line: tuple[Asked, ...] = ()
    left: tuple[Asked, ...] = ()
    on_its_way: int | None = None
    wish: LeaseRequest | None = None
    own: LeaseRequest | None = None
    """For what it was granted last, or is started for: what is asked for where nothing else is said."""
    course: str | None = None
    refusal: Exception | None = None
    declined: str | None = None
    loss: str | None = None
    text: str = texts.NOT_ASKED
    given_back_by_user: bool = False
    ended: bool = False

    @property
    def wanted(self) -> Asked | None:
        return self.line[-1] if self.line else None

    @property
    def own_again(self) -> LeaseRequest | None:
        return self.wish if self.own is None else self.own.anew()


@dataclass
class Transition:
    """One event: ``now`` is the standing after it, ``effects`` are to be carried out in their order."""

    now: Standing
    effects: list[Effect] = field(default_factory=list)

    # --- what the kernel and its user want --------------------------------------------------------------

    def ask(self, number: int, request: LeaseRequest, at: float, *, if_idle: bool = False) -> None:
        """Ask for ``request``, in place of what is asked for by now; ``if_idle``: unless something is."""
        now = self.now
        if now.ended or (if_idle and (now.held is not None or now.line)):
            return
        self._become(
            line=(*now.line, Asked(number, request, at)),
            wish=request,
            own=now.own or request,
            refusal=None,
            declined=None,
            given_back_by_user=False,
        )
        self._send_next()

    def keep(self) -> None:
        """Leave the line for another size, and stay with what there is."""
        if self.now.held is not None and self.now.line:
            self._leave_line()
            self._become(wish=self.now.own_again)

    def release(self, text: str | None = None) -> None:
        """Give the slice back, or leave the line."""
        held, wanted = self.now.held, self.now.wanted
        self._leave_line()
        self._become(held=None, refusal=None, declined=None, loss=None, given_back_by_user=True)
        if held is not None:
            self._do(Do.GIVE_BACK, held.number)
        if held is None and wanted is None:
            self._become(text=texts.NOTHING_TO_GIVE_BACK)
        else:
            size = held.lease.size if held is not None else wanted.request.size if wanted is not None else ""
            text = text or texts.given_back(size, held=held is not None)
            self._become(text=text, wish=self.now.own_again)

    def end(self) -> None:
        """The kernel is gone for good."""
        self._become(ended=True)
        self.release()

    def refuse(self, request: LeaseRequest, error: Exception) -> None:
        """Another size than the kernel's own leaves all as it was, and any leaves the place of an earlier
        request.
        """
        now = self.now
        if isinstance(error, Withdrawn):
            self._become(text=str(error))
            return
        text = str(error) if isinstance(error, GPUKernelsError) else texts.FAULT
        if now.wanted is not None:
            wish = now.wanted.request
            self._become(wish=wish, declined=texts.declined_in_line(text, wish.size))
        elif now.own is not None and now.own.size != request.size:
            kept = None if now.held is None else now.held.lease.size
            self._become(wish=now.own_again, declined=texts.declined(text, kept, now.own.size))
        else:
            self._become(text=text if now.loss is None else f"{now.loss}\n{text}", refusal=error)

    # --- what the controller says -----------------------------------------------------------------------

    def heard(self, number: int, lease: Lease) -> None:
        """The controller has answered to a request. What the newest is in place of has left the line by that:
        the controller ended it then, and perhaps handed on its place.
        """
        line = tuple(
            replace(each, created_at=lease.created_at) if each.number == number else each
            for each in self.now.line
        )
        self._become(line=line)
        wanted = self.now.wanted
        if wanted is not None and wanted.number == number:
            before = (*self.now.left, *line[:-1])
            same = [each.since for each in before if each.created_at == wanted.created_at]
            self._become(line=(replace(wanted, since=min([wanted.since, *same])),), left=())
            for each in before:
                self._do(Do.LEAVE, each.number)
        self._answered(number)

    def granted(self, number: int, lease: Lease) -> None:
        self.heard(number, lease)
        asked = self._take(number)
        if asked is None:
            self._do(Do.GIVE_BACK, number)
        else:
            before = self.now.held
            if self.now.wanted is None:
                self._become(wish=asked.request)
            self._become(held=Held(number, lease), own=asked.request, course=lease.course, loss=None)
            self._do(Do.HOLD, number)
            if before is not None and before.lease.id != lease.id:
                self._do(Do.GIVE_BACK, before.number)

    def failed(self, number: int, error: Exception) -> None:
        """A request is over, and nothing was granted."""
        was_wanted = self.now.wanted is not None and self.now.wanted.number == number
        asked = self._take(number)
        if asked is not None and was_wanted:
            self.refuse(asked.request, error)
        elif asked is not None:
            self._become(left=(*self.now.left, asked))
        if not self.now.line:
            self._become(left=())
        self._answered(number)

    def lost(self, number: int, text: str) -> None:
        """The controller has ended what is held."""
        if self.now.held is not None and self.now.held.number == number:
            self._become(held=None, loss=text, text=texts.taken_back(text))

    def resumed(self, number: int, request: LeaseRequest, lease: Lease | None) -> None:
        """An earlier process had asked for it; ``lease`` if that is still in force."""
        self._become(wish=request, own=request)
        if lease is not None:
            if self.now.ended:
                self._do(Do.GIVE_BACK, number)
            else:
                self._become(held=Held(number, lease))
                self._do(Do.HOLD, number)

    # --- steps ------------------------------------------------------------------------------------------

    def _become(self, **changes: object) -> None:
        self.now = replace(self.now, **changes)  # type: ignore[arg-type]

    def _do(self, do: Do, number: int) -> None:
        self.effects.append(Effect(do, number))

    def _take(self, number: int) -> Asked | None:
        """The request of this number, out of the line; None where nobody wants it any longer."""
        asked = next((each for each in self.now.line if each.number == number), None)
        if asked is not None:
            self._become(line=tuple(each for each in self.now.line if each is not asked))
        return asked

    def _leave_line(self) -> None:
        for asked in self.now.line:
            self._do(Do.LEAVE, asked.number)
        self._become(line=(), left=())

    def _answered(self, number: int) -> None:
        if self.now.on_its_way == number:
            self._become(on_its_way=None)
        self._send_next()

    def _send_next(self) -> None:
        """The oldest that the controller has not been asked for, once it has answered to the one before."""
        if self.now.on_its_way is not None:
            return
        for index, asked in enumerate(self.now.line):
            if not asked.started:
                line = list(self.now.line)
                line[index] = replace(asked, started=True)
                self._become(line=tuple(line), on_its_way=asked.number)
                self._do(Do.START, asked.number)
                return
