"""Whether everything that counts the same thing says the same; what differs must be 0."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from gpu_kernels.pool.ledger.state.rows import Gpu, Slice
from gpu_kernels.pool.ledger.state.states import HOLDING
from gpu_kernels.pool.ledger.transaction import Transaction

Sums = Mapping[int, tuple[int, int]]
"""MiB and thousandths by GPU id."""


def mismatch(tx: Transaction) -> int:
    """How many GPUs are counted otherwise than their leases, their open accounts, the store's own sums or the
    placement index say, and how many agents ran what holds no slice there, by their last reports.
    """
    return len(differences(tx))


def differences(tx: Transaction) -> list[str]:
    """What differs, in words for the log."""
    holding = {lease.id for lease in tx.book.leases.values() if lease.state in HOLDING}
    held = [part for part in tx.book.slices.values() if part.lease_id in holding]
    by_lease, by_account = _sums(held), _sums(s for s in tx.book.slices.values() if s.ended_at is None)
    placed = {gpu.id: (gpu.used_mib, gpu.used_thousandths) for gpu in tx.book.places.index.gpus()}
    named = (("leases", by_lease), ("accounts", by_account), ("store", tx.store.held()), ("index", placed))
    found = []
    for gpu in sorted(tx.book.gpus.values(), key=lambda gpu: gpu.id):
        counted = (gpu.used_mib, gpu.used_thousandths)
        for name, sums in named:
            said = sums.get(gpu.id, counted if sums is placed else (0, 0))
            if said != counted:
                found.append(_text(gpu, name, said))
                break
    for agent, leases in sorted(tx.strangers.items()):
        if leases:
            found.append(f"agent {agent} ran {len(leases)} that hold no slice there, such as {leases[0]}")
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
