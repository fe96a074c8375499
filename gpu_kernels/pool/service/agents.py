"""The agents' part of the API: registration and reports."""

from __future__ import annotations

import re
import time

from gpu_kernels.errors import InvalidRequest
from gpu_kernels.pool.ledger import agents, reading
from gpu_kernels.pool.ledger.agents import Alive, OfferedGpu
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.service.base import Handler
from gpu_kernels.pool.service.identity import ADMIN_POOL, AGENT
from gpu_kernels.pool.service.validation import Fields
from gpu_kernels.pool.service.waiting import agent_topic
from gpu_kernels.units import MAX_MIB, valid_class

MOST_GPUS = 64
MOST_LEASES = 20_000
BIG = 2**62
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
ADDRESS = re.compile(r"tcp://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}|unix:///[^\s]+")


class AgentHandler(Handler):
    def agent_name(self, name: str) -> str:
        self.require(AGENT)
        if not NAME.fullmatch(name):
            raise InvalidRequest(
                f"An agent's name has up to 64 letters, digits, '.', '_', '-'; not {name[:70]!r}."
            )
        return name


class Agents(Handler):
    """``/agents``"""

    async def get(self) -> None:
        self.require(ADMIN_POOL)
        self.answer({"agents": await self.service.desk.read(reading.agents)})


class OneAgent(AgentHandler):
    """``/agents/NAME``"""

    async def put(self, name: str) -> None:
        name = self.agent_name(name)
        body = self.fields()
        boot_id = body.text("boot_id", 64)
        address = body.text("address", 255)
        version = body.text("version", 64)
        gpus = [_offered(item) for item in body.list_of_fields("gpus", MOST_GPUS)]
        body.number("fences_after", 0, 1e6, default=0)
        body.finish()
        if not ADDRESS.fullmatch(address):
            raise InvalidRequest(f"'address' must be tcp://HOST:PORT or unix:///PATH, not {address[:80]!r}.")
        if len({gpu.uuid for gpu in gpus}) != len(gpus):
            raise InvalidRequest("Two of the GPUs have the same 'uuid'.")
        owner, may_take_over = self.identity.name, self.identity.may(ADMIN_POOL)

        def register(tx: Transaction) -> int:
            agent = agents.register(
                tx,
                name,
                owner=owner,
                may_take_over=may_take_over,
                boot_id=boot_id,
                address=address,
                version=version,
                gpus=gpus,
            )
            return agent.target_seq

        target_seq = await self.service.desk.write(register)
        self.answer({"name": name, "target_seq": target_seq, "report_within": self.report_within()})

    def report_within(self) -> float:
        """Seconds of silence that an agent should stay well below."""
        return self.service.desk.ledger.timing.agent_ttl / 3000


def _offered(item: Fields) -> OfferedGpu:
    gpu = OfferedGpu(
        uuid=item.text("uuid", 96),
        index=item.integer("index", 0, 1023),
        gpu_class=item.text("gpu_class", 32),
        device=item.text("device", 16),
        name=item.text("name", 128),
        total_mib=item.integer("total_mib", 1, MAX_MIB),
        allocatable_mib=item.integer("allocatable_mib", 1, MAX_MIB),
    )
    item.finish()
    if not valid_class(gpu.gpu_class):
        raise InvalidRequest(f"A GPU class cannot be called {gpu.gpu_class!r}: a size could not name it.")
    if gpu.device not in ("software", "nvidia"):
        raise InvalidRequest(f"'device' is 'software' or 'nvidia', not {gpu.device!r}.")
    if gpu.allocatable_mib > gpu.total_mib:
        raise InvalidRequest(
            f"GPU {gpu.uuid}: 'allocatable_mib' ({gpu.allocatable_mib}) is more than "
            f"'total_mib' ({gpu.total_mib})."
        )
    return gpu


class Report(AgentHandler):
    """``/agents/NAME/report``"""

    async def post(self, name: str) -> None:
        name = self.agent_name(name)
        body = self.fields()
        boot_id = body.text("boot_id", 64)
        target_seq = body.integer("target_seq", 0, BIG)
        most = self.service.desk.ledger.timing.agent_ttl / 3000
        seconds = min(body.number("wait", 0, 1e6, default=0), most)
        alive = {item.id: item for item in map(_alive, body.list_of_fields("leases", MOST_LEASES))}
        body.passed_over("incarnation", "full", "epoch", "outside")
        body.finish()
        owner = self.identity.name
        end = time.monotonic() + seconds

        def take(tx: Transaction) -> tuple[int, list[reading.Target]]:
            agents.report(tx, name, owner=owner, boot_id=boot_id, done_seq=target_seq, alive=alive)
            tx.session.flush()
            return reading.agent_target(tx, name)

        with self.service.bells.at(agent_topic(name), f"Agent {name} of {owner}") as bell:
            newest, targets = await self.service.desk.write(take)
            if seconds > 0:
                self.linger_at(bell)
            while newest == target_seq and (left := end - time.monotonic()) > 0:
                if not await self.lingered(bell, left):
                    break
                newest, targets = await self.service.desk.read(lambda tx: reading.agent_target(tx, name))
        self.answer({"target_seq": newest, "leases": [self._target(target) for target in targets]})

    def _target(self, target: reading.Target) -> dict[str, object]:
        return {
            "id": target.id,
            "epoch": target.epoch,
            "secret_sha256": self.service.proofs.digest(target.id, target.epoch),
            "expires_in": target.expires_in,
            "slices": target.slices,
        }


def _alive(item: Fields) -> Alive:
    alive = Alive(
        id=item.text("id", 64),
        epoch=item.integer("epoch", 0, BIG),
        state=item.text("state", 32, default="active"),
        used_mib=item.integer("used_mib", 0, BIG, default=0),
        peak_mib=item.integer("peak_mib", 0, BIG, default=0),
        sessions=item.integer("sessions", 0, BIG, default=0),
        launches=item.integer("launches", 0, BIG, default=0),
    )
    item.finish()
    return alive
