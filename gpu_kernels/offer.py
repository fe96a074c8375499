"""What this process's course offers: asked once a minute by a thread, and read from any thread at once.

The thread starts with the first look and is a convenience: what is not known yet, or cannot be learned, is
taken as "anything". The controller decides.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpu_kernels import units
from gpu_kernels.client import CONTROLLER_VARIABLE, PoolClient
from gpu_kernels.errors import GPUKernelsError, InvalidSize
from gpu_kernels.vocabulary.rules import of_class, on_offer

log = logging.getLogger("gpu_kernels")

REFRESH_S = 60.0
CALL_TIMEOUT_S = 5.0
COURSE_VARIABLE = "GPU_KERNELS_COURSE"


@dataclass(frozen=True)
class Offer:
    """``sizes`` is None where the course offers any size; ``usual`` are then the pool's own.

    ``most``: thousandths of a GPU class that the course may hold at once, None for a class that nothing
    limits; of a class that is not named it has no share. The whole is None where no one course is known.
    ``largest``: the rule `max_size`. ``memory``: MiB of a GPU by class.
    """

    course: str | None
    sizes: tuple[str, ...] | None
    usual: tuple[str, ...]
    most: Mapping[str, int | None] | None = None
    largest: Mapping[str, int] | None = None
    memory: Mapping[str, int] = field(default_factory=dict)

    def offers(self, size: str) -> bool:
        """Whether the course offers that size, however it is written. What is never granted there, since it
        is more than the course may hold at all or than one of its kernels may have, is not offered.
        """
        try:
            wanted = units.parse_size(size)
        except InvalidSize:
            return self.sizes is None
        if self.sizes is not None and not on_offer(wanted, map(units.parse_size, self.sizes)):
            return False
        if self.most is None:
            return True
        classes = list(self.most) if wanted.gpu_class is None else [wanted.gpu_class]
        return any(self._may_hold(wanted, c) for c in classes) and all(
            self._may_have(wanted, c) for c in classes
        )

    def _may_hold(self, size: units.Size, gpu_class: str) -> bool:
        assert self.most is not None
        most = self.most.get(gpu_class, 0)
        return most is None or self._share(size, gpu_class) <= most

    def _may_have(self, size: units.Size, gpu_class: str) -> bool:
        largest = of_class(self.largest, gpu_class)
        return largest is None or self._share(size, gpu_class) <= largest

    def _share(self, size: units.Size, gpu_class: str) -> int:
        """Thousandths; of a size in MiB as few as can be, where nobody knows the GPU's memory."""
        memory = self.memory.get(gpu_class, units.MAX_MIB)
        return units.slice_of(size, memory).thousandths * size.count

    def to_choose(self) -> tuple[str, ...]:
        """The sizes to show to who chooses one."""
        return tuple(size for size in (self.usual if self.sizes is None else self.sizes) if self.offers(size))


ANYTHING = Offer(None, None, ())


def ask(client: PoolClient, named: str | None) -> Offer:
    """The offer of the course ``named``, or of the only course that there is. Raises what is refused."""
    courses = [client.course(named)] if named else client.courses()
    course = courses[0] if len(courses) == 1 else None
    classes = client.pool().classes
    usual = tuple(size for gpu_class in classes for size in gpu_class.sizes)
    if course is None:
        return Offer(None, None, usual)
    rules = course.rules
    return Offer(
        course.name,
        sizes_of(rules),
        usual,
        most={gpu_class: standing.most for gpu_class, standing in course.quota.items()},
        largest=rules.get("max_size"),
        memory={each.gpu_class: each.allocatable_mib for each in classes},
    )


def sizes_of(rules: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The sizes that a course's rules name, as ``str(Size)`` writes them; None where they name none."""
    named: Sequence[str] | None = rules.get("sizes")
    if named is None:
        return None
    return tuple(dict.fromkeys(str(units.parse_size(size)) for size in named))


class Offers:
    """Keeps the offer of this process's course fresh."""

    def __init__(self, refresh_s: float = REFRESH_S) -> None:
        self.refresh_s = refresh_s
        self._offer = ANYTHING
        self._silent = False
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.asked = threading.Event()
        """Set once the controller has answered or failed to."""

    def now(self) -> Offer:
        """What is known now; never blocks."""
        with self._lock:
            known = self._offer
            if self._thread is None and os.environ.get(CONTROLLER_VARIABLE):
                self._thread = threading.Thread(target=self._keep_fresh, name="gpu-offer", daemon=True)
                self._thread.start()
            return known

    def _keep_fresh(self) -> None:
        while True:
            self.refresh()
            time.sleep(self.refresh_s)

    def refresh(self) -> None:
        """Ask once. Never raises: what was known stays, and an outage is logged once."""
        try:
            with PoolClient.from_environment(timeout=CALL_TIMEOUT_S) as client:
                offer = ask(client, os.environ.get(COURSE_VARIABLE) or None)
        except (GPUKernelsError, KeyError, TypeError) as error:
            if not self._silent:
                log.warning("What the course offers cannot be asked for: %s", error)
            self._silent = True
        else:
            self._offer, self._silent = offer, False
        self.asked.set()


OFFERS = Offers()
"""Those of this process."""


def forget() -> None:
    """After a fork: the thread is the parent's."""
    global OFFERS
    OFFERS = Offers()


os.register_at_fork(after_in_child=forget)
