"""Why a lease waits, for its owner and in full for admins; and the pool's state, to replay decisions from."""

from __future__ import annotations

from msgspec.structs import replace

from gpu_kernels.errors import TooMany, UnknownLease
from gpu_kernels.pool.ledger.queries import dump, explanation, leases
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.service.base import Handler
from gpu_kernels.pool.service.identity import ADMIN_POOL, USE
from gpu_kernels.pool.service.operations import operation
from gpu_kernels.pool.service.schemas import why as schemas
from gpu_kernels.resources import leases as resources


class Why(Handler):
    """``/leases/ID/why``"""

    @operation(
        "Why a lease waits",
        who="its owner, with `custom:gpu:use`; in full `custom:gpu:admin:pool`",
        answers={200: resources.Why},
        errors=[UnknownLease, TooMany],
    )
    async def get(self, lease_id: str) -> None:
        """What is short, how much, until when, and what helps, in a sentence; for admins also all that was
        compared: quotas from the institution to the course, shares, GPUs, and who goes before. It counts as
        a request for a lease (`max_requests`).
        """
        everything = self.identity.may(ADMIN_POOL)
        if not everything:
            self.require_somewhere(USE)
            self.service.pace.take(self.identity.name)

        def look(tx: Transaction) -> resources.Why:
            lease = (
                leases.find(tx, lease_id) if everything else leases.owned(tx, self.identity.name, lease_id)
            )
            if lease is None:
                raise UnknownLease(f"There is no lease {lease_id[:40]!r}.")
            if not everything:
                self.require(USE, course=lease.course, server=lease.server)
            told = explanation.explain(tx, lease)
            return told if everything else replace(told, full=None)

        self.answer(await self.service.desk.read(look))


class State(Handler):
    """``/state``"""

    @operation("Save the pool's state", scope=ADMIN_POOL, answers={200: schemas.State})
    async def get(self) -> None:
        """All that decides who is next. `python -m gpu_kernels.pool.replay FILE` replays the decision from it
        and says why. It names users, and holds no secrets.
        """
        self.service.reads.take(self.identity.name)
        self.answer(await self.service.desk.read(dump.dump))
