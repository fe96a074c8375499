"""One request of a kernel for a slice, from the first call until it is granted, refused or withdrawn; a
thread each carries out what its ``LeaseHolder`` wants to have sent.

A request without an end keeps its place while the kernel lives, and outlives a controller that is away. One
that has a ``wait`` is refused when that is over.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from gpu_kernels.client import Lease, PoolClient
from gpu_kernels.client.lease_holder import LeaseHolder, NotGranted, Withdrawn
from gpu_kernels.client.lease_request import LeaseRequest
from gpu_kernels.errors import GPUKernelsError
from gpu_kernels.provisioner import texts
from gpu_kernels.provisioner.leasing import Life, NoSlice, give_back, log

THREAD_NAME = "gpu-lease-line"


class Asking:
    """``ended`` is called once, in the request's thread: with None if the lease is held, else with the
    error. ``moved`` is called when what is known of the place in the line has changed.
    """

    def __init__(
        self,
        client: PoolClient,
        request: LeaseRequest,
        life: Life,
        *,
        ended: Callable[[Asking, Exception | None], object],
        moved: Callable[[], object],
    ) -> None:
        self.client = client
        self.holder = LeaseHolder(
            request, outlives_outages=True, wanted=self._wanted, on_moved=lambda holder: moved()
        )
        self.started = False
        self._life = life
        self._ended = ended
        self._withdrawn = threading.Event()
        self._thread = threading.Thread(target=self._run, name=THREAD_NAME, daemon=True)

    @property
    def request(self) -> LeaseRequest:
        return self.holder.request

    @property
    def lease(self) -> Lease | None:
        return self.holder.lease

    def start(self) -> None:
        """Raises ``RuntimeError`` where no thread can be started."""
        self._thread.start()
        self.started = True

    def withdraw(self) -> None:
        """Leave the line. Returns at once; what is granted meanwhile is given back by the thread."""
        self._withdrawn.set()

    def finished(self, timeout: float | None = None) -> bool:
        """Whether the thread has ended, within ``timeout`` seconds; nothing is asked for then."""
        if self.started:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def give_back(self) -> None:
        """What it got or waits for. Never raises; blocks for a call."""
        give_back(self.client, self.holder, self._life)

    def _run(self) -> None:
        failure: Exception | None = None
        try:
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
        try:
            if failure is not None:
                self.give_back()
        except Exception:
            log.exception("A GPU slice could not be given back; it expires")
        finally:
            self._ended(self, failure)

    def _wanted(self) -> bool:
        if self._withdrawn.is_set():
            return False
        if self._life.lasts():
            return True
        log.info("Kernel %s has died for good; it waits for a GPU no longer.", self.request.holder)
        return False
