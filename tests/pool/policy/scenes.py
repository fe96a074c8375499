"""A pool of values for the tests of the policy: GPUs, accounts, leases, and time that passes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from gpu_kernels.pool.policy.agenda import Agenda
from gpu_kernels.pool.policy.agenda_model import FOREVER, Stay
from gpu_kernels.pool.policy.fairness import Policy, Shares
from gpu_kernels.pool.policy.model import Ask, Gpu, Placement, Server
from gpu_kernels.pool.policy.placement import Index
from gpu_kernels.pool.policy.queue import Decision, decide
from gpu_kernels.pool.policy.quota import Limits, Tree
from gpu_kernels.pool.policy.scene import Held, Patience, Rules, Scene, Settings, no_rules
from gpu_kernels.units import parse_size

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
START = 1_800_000_000_000
LIFE = 4 * HOUR


@dataclass
class Pool:
    """A pool that is decided on by the policy alone: leases end when they say so, and nothing fails."""

    now: int = START
    index: Index = field(default_factory=Index)
    tree: Tree = field(default_factory=Tree)
    shares: Shares = field(default_factory=Shares)
    servers: dict[str, Server] = field(default_factory=dict)
    agenda: Agenda = field(default_factory=Agenda)
    waiting: dict[str, Ask] = field(default_factory=dict)
    leases: dict[str, tuple[Ask, Placement, int]] = field(default_factory=dict)
    patience: Patience = field(default_factory=Patience)
    rules: Rules = no_rules
    asked: int = 0

    @classmethod
    def of(
        cls,
        gpus: Iterable[Gpu],
        courses: Mapping[str, int | None] | Collection[str] = ("ml101", "cv202"),
        *,
        policy: Policy | None = None,
        **fields: object,
    ) -> Pool:
        """Courses with their hard limits by name (None: no limit), all below one institution."""
        pool = cls(shares=Shares(policy or Policy()), **fields)  # type: ignore[arg-type]
        for gpu in gpus:
            pool.index.put(gpu)
            pool.shares.capacity[gpu.gpu_class] = pool.shares.capacity.get(gpu.gpu_class, 0) + 1000
        pool.tree.put_account("university", "institution")
        pool.shares.put_account("university", None)
        for gpu_class, thousandths in pool.shares.capacity.items():
            pool.tree.set_capacity(gpu_class, thousandths)
        limits = courses if isinstance(courses, Mapping) else dict.fromkeys(courses)
        for name, limit in limits.items():
            pool.add_course(name, limit)
        return pool

    def add_course(
        self, name: str, limit: int | None = None, *, parent: str = "university", weight: float = 1.0
    ) -> None:
        self.tree.put_account(name, "course", parent)
        for gpu_class in self.shares.capacity:
            self.tree.put_quota(name, gpu_class, Limits(hard_limit=limit))
        self.shares.put_account(name, parent, weight)

    def scene(self) -> Scene:
        return Scene(
            now=self.now,
            index=self.index,
            tree=self.tree,
            shares=self.shares,
            servers=self.servers,
            agenda=self.agenda,
            stays=self.stays,
            held=self.held,
            rules=self.rules,
            settings=Settings(patience=self.patience),
        )

    def stays(self, gpu_id: int) -> list[Stay]:
        return [
            Stay(part, until)
            for _, placement, until in self.leases.values()
            for gpu, part in placement.parts
            if gpu.id == gpu_id
        ]

    def held(self) -> list[Held]:
        return [
            Held(
                lease=ask.id,
                user=ask.user,
                course=ask.course,
                gpu_class=placement.gpu_class,
                counted=placement.thousandths,
                parts=tuple((gpu.id, part) for gpu, part in placement.parts),
                until=until,
            )
            for ask, placement, until in self.leases.values()
        ]

    def ask(self, size: str = "0.1 V100", course: str = "ml101", user: str = "ada", **fields: object) -> Ask:
        """A request that waits from now on."""
        self.asked += 1
        ask = Ask(
            id=f"r{self.asked}",
            course=course,
            size=parse_size(size),
            turn=(self.asked, f"r{self.asked}"),
            user=user,
            life=LIFE,
            asked_at=self.now,
        )
        self.waiting[ask.id] = replace(ask, **fields)  # type: ignore[arg-type]
        return self.waiting[ask.id]

    def decide(self) -> Decision:
        """One pass, and what follows from it."""
        decision = decide(list(self.waiting.values()), self.scene())
        for ask_id, placement in decision.granted.items():
            self.grant(self.waiting.pop(ask_id), placement)
        for ask_id, ask in self.waiting.items():
            promised = ask_id in decision.promises
            since = (ask.promised_at or self.now) if promised else None
            self.waiting[ask_id] = replace(ask, promised_at=since)
        return decision

    def grant(self, ask: Ask, placement: Placement) -> None:
        for use in self.shares.settle(
            ask.course, ask.user, placement.gpu_class, self.now, granted=placement.thousandths
        ):
            self.shares.put(use)
        self.shares.hold(ask.course, ask.user, placement.gpu_class, placement.thousandths)
        self.tree.add_use(ask.course, placement.gpu_class, placement.thousandths)
        self.index.take(placement)
        self.leases[ask.id] = (ask, placement, placement.preempt_at or self.now + ask.life)

    def end(self, lease: str) -> None:
        ask, placement, _ = self.leases.pop(lease)
        for use in self.shares.settle(ask.course, ask.user, placement.gpu_class, self.now):
            self.shares.put(use)
        self.shares.hold(ask.course, ask.user, placement.gpu_class, -placement.thousandths)
        self.tree.add_use(ask.course, placement.gpu_class, -placement.thousandths)
        self.index.give_back(placement)

    def pass_time(self, until: int) -> None:
        """Leases end at the end of their lives, one after the other; the queue is looked at each time."""
        while due := sorted((u, name) for name, (_, _, u) in self.leases.items() if u <= until):
            self.now = max(self.now, due[0][0])
            for at, name in due:
                if at <= self.now:
                    self.end(name)
            self.decide()
        self.now = max(self.now, until)

    def check(self) -> None:
        """Nothing is oversubscribed, in GPUs and in quotas."""
        used: dict[int, tuple[int, int]] = defaultdict(lambda: (0, 0))
        for _, placement, _ in self.leases.values():
            for gpu, part in placement.parts:
                mib, thousandths = used[gpu.id]
                used[gpu.id] = (mib + part.mib, thousandths + part.thousandths)
        for gpu in self.index.gpus():
            assert (gpu.used_mib, gpu.used_thousandths) == used[gpu.id]
            assert gpu.used_mib <= gpu.allocatable_mib
            assert gpu.used_thousandths <= 1000


def gpus(
    servers: int = 1, each: int = 1, gpu_class: str = "V100", mib: int = 32_000, first: int = 1
) -> list[Gpu]:
    """GPUs by server: ``server1`` has the first ones."""
    return [
        Gpu(first + server * each + index, f"server{server + first}", index, gpu_class, mib)
        for server in range(servers)
        for index in range(each)
    ]


__all__ = ["DAY", "FOREVER", "HOUR", "LIFE", "MINUTE", "START", "Pool", "gpus"]
