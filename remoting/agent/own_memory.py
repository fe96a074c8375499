"""How much of this machine's memory a worker may take for itself, beside its slice: its share, and no more is
ever promised to all workers together than the machine has to give."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpu_kernels.remoting.machine_memory import MachineMemory
from gpu_kernels.units import THOUSANDTHS

LEAST_MIB = 64
"""With less no program runs; a worker that could not have as much is not started."""
USUAL_LEAST_MIB = 384
"""What slices below ``USUAL_THOUSANDTHS`` get, too, where those have as much."""
USUAL_THOUSANDTHS = 20
MOST_MIB = 16384


@dataclass(frozen=True)
class OwnMemory:
    """All in MiB. ``total`` is for all workers together; ``fixed``, unless 0, is what each may take, whatever
    its slice and whoever else there is, because an admin has said so."""

    total_mib: int
    gpus: int
    fixed_mib: int = 0

    def usual_mib(self, thousandths: int) -> int:
        """Of a worker with so many thousandths of GPUs, while there is enough for all."""
        share = self._share(thousandths)
        least = min(self._share(USUAL_THOUSANDTHS), USUAL_LEAST_MIB)
        return min(max(share, least, LEAST_MIB), MOST_MIB)

    def _share(self, thousandths: int) -> int:
        return self.total_mib * thousandths // (THOUSANDTHS * self.gpus)

    def for_another(self, thousandths: int, taken_mib: Iterable[int]) -> int:
        """What a worker more may take beside those that may take ``taken_mib``. Raises ``ValueError``, with
        a text for the admin, where too little is left."""
        if self.fixed_mib:
            return self.fixed_mib
        left = self.total_mib - sum(taken_mib)
        if left < LEAST_MIB:
            raise ValueError(
                f"of the {self.total_mib} MiB of this machine's memory for workers {max(left, 0)} MiB are "
                f"left, and each needs {LEAST_MIB}: add memory, or set worker_memory_mib"
            )
        return min(self.usual_mib(thousandths), left)

    def text(self) -> str:
        """What the agent says of it at its start."""
        if self.fixed_mib:
            return f"each worker may take {self.fixed_mib} MiB of this machine's memory for itself"
        return (
            f"workers may take {self.total_mib} MiB of this machine's memory for themselves: "
            f"{self.usual_mib(USUAL_THOUSANDTHS)} MiB with 0.02 GPU, "
            f"{self.usual_mib(THOUSANDTHS)} MiB with a whole one"
        )


def own_memory(machine: MachineMemory, gpus: int, fixed_mib: int = 0, software_mib: int = 0) -> OwnMemory:
    """For a machine whose software GPUs, if it has any, promise so much of its memory."""
    return OwnMemory(machine.own_mib(software_mib), gpus, fixed_mib)
