"""Workers that hold more of a GPU than their slice, by what the driver says of their processes.

A worker's own account bounds what it asks its driver for. What the driver makes of that (the pieces that
memory is cut into, the code of kernels) and a worker that somebody has broken into are seen from outside
alone. So each is compared with what NVML shows of its process, and one that twice in a row has more than its
slice and ``tolerance_mib`` is ended: others were promised what it holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpu_kernels.remoting.agent.gpus import MIB
from gpu_kernels.remoting.agent.grants import Grant
from gpu_kernels.remoting.agent.outside import Held

LEAST_TOLERANCE_MIB = 64
TOLERANCE_SHARE = 16
LOOKS = 2


def tolerance_mib(slice_mib: int) -> int:
    """What a driver may round up to: it hands out memory in pieces of 2 MiB, and pools in larger ones."""
    return max(LEAST_TOLERANCE_MIB, slice_mib // TOLERANCE_SHARE)


@dataclass(frozen=True, slots=True)
class Overdraft:
    """A process and its lease; ``text`` is for the lease's user, ``log`` for who runs the server."""

    pid: int
    lease_id: str
    text: str
    log: str


class Overdrafts:
    """Remembers from look to look. Belongs to the event loop's thread."""

    def __init__(self) -> None:
        self._before: dict[tuple[int, str], int] = {}
        """By process and GPU: at how many looks in a row it had too much."""
        self.ended = 0

    def look(self, held: Held, workers: Iterable[tuple[int, Grant]]) -> list[Overdraft]:
        """Who is to be ended, of these processes and their grants."""
        now: dict[tuple[int, str], int] = {}
        found: list[Overdraft] = []
        for pid, grant in workers:
            for part in grant.slices:
                mib = held.get(part.gpu, {}).get(pid, 0) // MIB
                if mib <= part.mib + tolerance_mib(part.mib):
                    continue
                now[pid, part.gpu] = self._before.get((pid, part.gpu), 0) + 1
                if now[pid, part.gpu] >= LOOKS:
                    found.append(_overdraft(pid, grant, part.gpu, mib, part.mib))
        self._before = now
        self.ended += len({overdraft.pid for overdraft in found})
        return found


def _overdraft(pid: int, grant: Grant, gpu: str, mib: int, slice_mib: int) -> Overdraft:
    text = (
        f"Your program was ended: it held {mib} MiB of the GPU, and your slice is {slice_mib} MiB.\n"
        "Restart the kernel; free what you do not need, or ask for a larger slice."
    )
    log = (
        f"worker {pid} of lease {grant.lease_id} holds {mib} MiB of GPU {gpu} and has a slice of "
        f"{slice_mib} MiB (tolerated: {tolerance_mib(slice_mib)} MiB more): it is ended"
    )
    return Overdraft(pid, grant.lease_id, text, log)
