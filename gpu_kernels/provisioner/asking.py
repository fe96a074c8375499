"""One request of a kernel for a slice, from the first call until it is granted, refused or withdrawn; a
thread each carries out what its ``LeaseHolder`` wants to have sent.

A request without an end keeps its place while the kernel lives, and outlives a controller that is away. One
that has a ``wait`` is refused when that is over.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from gpu_kernels.client import Lease, PoolClient
from gpu_kernels.client.lease_holder import RETRY_S, LeaseHolder, NotGranted, Withdrawn
from gpu_kernels.client.lease_request import LeaseRequest
from gpu_kernels.errors import GPUKernelsError
from gpu_kernels.provisioner import texts
from gpu_kernels.provisioner.leasing import Life, NoSlice, give_back, log

THREAD_NAME = "gpu-lease-line"


class Asking:
    """``ended`` is called once, in the request's thread: with None if the lease is held, else with the
    error. ``moved`` is called when what is known of the place in the line has changed. ``after``: the request
    of the same slot that this one is to be in place of, so it must not reach the controller before that.
    """

    def __init__(
        self,
        client: PoolClient,
        request: LeaseRequest,
        life: Life,
        *,
        ended: Callable[[Asking, Exception | None], object],
        moved: Callable[[], object],
        after: Asking | None = None,
    ) -> None:
        self.client = client
        self.since = time.monotonic()
        self.answered = threading.Event()
        """Whether the controller has said anything to it, or it is over."""
        self.holder = LeaseHolder(request, outlives_outages=True, wanted=self._wanted, on_moved=self._note)
        self._after = after
        self._life = life
        self._ended, self._moved = ended, moved
        self._withdrawn = threading.Event()
        self._thread = threading.Thread(target=self._run, name=THREAD_NAME, daemon=True)

    @property
    def request(self) -> LeaseRequest:
        return self.holder.request

    @property
    def lease(self) -> Lease | None:
        return self.holder.lease

    def start(self) -> None:
        self._thread.start()

    def withdraw(self) -> None:
        """Leave the line. Returns at once; what is granted meanwhile is given back by the thread."""
        self._withdrawn.set()

    def finished(self, timeout: float | None = None) -> bool:
        """Whether the thread has ended, within ``timeout`` seconds; nothing is asked for then."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        failure: Exception | None = None
        try:
            self._wait_for_its_turn()
            self.client.run(self.holder.acquire(), pause=self._withdrawn.wait)
        except Withdrawn as error:
            failure = error if self._withdrawn.is_set() else Withdrawn("The kernel has died.")
        except NotGranted as error:
            failure = NoSlice(texts.not_granted(error))
        except GPUKernelsError as error:
            failure = error
        except Exception as error:
            log.exception("Asking for a GPU slice failed")
            failure = error
        if failure is not None:
            give_back(self.client, self.holder)
        self.answered.set()
        self._ended(self, failure)

    def _wait_for_its_turn(self) -> None:
        while self._after is not None:
            if not self._wanted():
                raise Withdrawn("The request was withdrawn.")
            if self._after.answered.wait(RETRY_S):
                # What was withdrawn before its own turn had asked nothing: then it is the turn of what that
                # waited for, which may be on its way still. Its thread writes this no more once it is over.
                self._after = self._after._after

    def _wanted(self) -> bool:
        if self._withdrawn.is_set():
            return False
        if self._life.lasts():
            return True
        log.info("Kernel %s has died for good; it waits for a GPU no longer.", self.request.holder)
        return False

    def _note(self, holder: LeaseHolder) -> None:
        if holder.lease is not None:
            self.answered.set()
        self._moved()
