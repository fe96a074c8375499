"""Whether everything that counts the same thing says the same; what differs must be 0."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from gpu_kernels.pool.ledger.rows import Gpu, Slice
from gpu_kernels.pool.ledger.states import HOLDING
from gpu_kernels.pool.ledger.transaction import Transaction

Sums = Mapping[int, tuple[int, int]]
"""MiB and thousandths by GPU id."""


def mismatch(tx: Transaction) -> int:
    """How many GPUs are counted otherwise than their leases or their open accounts say, and how many agents
    run what is not theirs to run.

    The ledger's own sums, those of the leases that hold slices, and those that the store makes of its open
    accounts.
    """
    return len(differences(tx))


def differences(tx: Transaction) -> list[str]:
    """What differs, in words for the log."""
    holding = {lease.id for lease in tx.book.leases.values() if lease.state in HOLDING}
    held = [part for part in tx.book.slices.values() if part.lease_id in holding]
    by_lease, by_account = _sums(held), _sums(s for s in tx.book.slices.values() if s.ended_at is None)
    stored = tx.store.held()
    found = []
    for gpu in sorted(tx.book.gpus.values(), key=lambda gpu: gpu.id):
        for name, sums in (("leases", by_lease), ("accounts", by_account), ("store", stored)):
            if sums.get(gpu.id, (0, 0)) != (gpu.used_mib, gpu.used_thousandths):
                found.append(_text(gpu, name, sums.get(gpu.id, (0, 0))))
                break
    return found


def _sums(parts: Iterable[Slice]) -> Sums:
    sums: dict[int, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for part in parts:
        mib, thousandths = sums[part.gpu_id]
        sums[part.gpu_id] = mib + part.mib, thousandths + part.thousandths
    return dict(sums)


def _text(gpu: Gpu, name: str, sums: tuple[int, int]) -> str:
    return (
        f"GPU {gpu.id} of {gpu.agent_name}: counted {gpu.used_mib} MiB and {gpu.used_thousandths} "
        f"thousandths; its {name} say {sums[0]} and {sums[1]}"
    )
