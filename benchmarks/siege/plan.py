"""Who attacks when, how hard, and for how long: the whole of a siege before it begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

ATTACKS = ("idle", "half", "members", "tokens", "secrets", "readers", "lanes", "loads", "bombs")
CALM = 0.05
"""The parts of the time before the first attack and after the last, in which nobody attacks."""
TOGETHER = 0.3
"""The part of the time in which all attack together, where there is more than one attack."""


@dataclass(frozen=True)
class Strength:
    """How much of each thing the attacker has at once; rates are a second."""

    idle_connections: int = 2200
    half_requests: int = 1200
    own_connections: int = 600
    opens_a_second: int = 300
    floods_a_second: int = 400
    deaf_readers: int = 120
    idle_lanes: int = 1000
    loaders: int = 4
    load_mib: int = 60
    body_mib: int = 15

    @classmethod
    def least(cls) -> Strength:
        """Each attack at its smallest, to see that it is one."""
        return cls(20, 20, 20, 100, 20, 8, 10, 1, 1, 1)


@dataclass(frozen=True)
class Phase:
    """These attacks run from ``start`` to ``end``, in seconds of the siege."""

    attacks: tuple[str, ...]
    start: float
    end: float

    @property
    def name(self) -> str:
        return " and ".join(self.attacks) if len(self.attacks) < 2 else "all together"


@dataclass(frozen=True)
class Plan:
    """Raises ``ValueError`` for an attack that there is not."""

    seconds: float = 600.0
    leases: int = 50
    lease_ttl: float = 60.0
    report_every: float = 10.0
    attacks: Sequence[str] = ATTACKS
    strength: Strength = field(default_factory=Strength)

    def __post_init__(self) -> None:
        for attack in self.attacks:
            if attack not in ATTACKS:
                raise ValueError(f"there is no attack {attack!r}; there are {', '.join(ATTACKS)}")

    def phases(self) -> list[Phase]:
        """Each attack alone, then all together."""
        first, last = self.seconds * CALM, self.seconds * (1 - CALM)
        several = len(self.attacks) > 1
        together = self.seconds * TOGETHER if several else 0.0
        each = (last - together - first) / len(self.attacks)
        phases = [
            Phase((attack,), first + number * each, first + (number + 1) * each)
            for number, attack in enumerate(self.attacks)
        ]
        return [*phases, Phase(tuple(self.attacks), last - together, last)] if several else phases
