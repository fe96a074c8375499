"""Who comes when: made from a seed, and kept in the lab's state folder for the processes that must know."""

from __future__ import annotations

import json
import random
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

from gpu_kernels.hub_config.lab.accounts import Login
from gpu_kernels.hub_config.lab.settings import Settings

FILE = "load.json"
WATCHED_SERVERS = 5
"""Servers whose event loop is watched: to watch all would be a load of its own."""


@dataclass(frozen=True)
class Plan:
    """``arrivals`` are seconds after the start, one a student, in order; passwords are random."""

    arrivals: tuple[float, ...]
    passwords: tuple[str, ...]

    @classmethod
    def of(cls, students: int, within: float, seed: int) -> Plan:
        chance = random.Random(seed)
        arrivals = sorted(chance.uniform(0, within) for _ in range(students))
        return cls(tuple(arrivals), tuple(secrets.token_hex(8) for _ in range(students)))

    @classmethod
    def of_this_lab(cls, settings: Settings) -> Plan:
        """The one that the runner left in the state folder."""
        fields = json.loads((settings.state / FILE).read_text())
        return cls(tuple(fields["arrivals"]), tuple(fields["passwords"]))

    def save(self, settings: Settings) -> None:
        path = settings.state / FILE
        path.touch(mode=0o600)
        path.write_text(json.dumps(asdict(self)))

    def logins(self) -> list[Login]:
        return [
            Login(f"student{number:03}", password, "student")
            for number, password in enumerate(self.passwords)
        ]

    def watched(self) -> set[str]:
        """Names of the students whose servers are watched: spread over the whole time."""
        names = [login.name for login in self.logins()]
        return set(names[:: max(1, len(names) // WATCHED_SERVERS)][:WATCHED_SERVERS])


def folder_of_loops(settings: Settings) -> Path:
    """Where the processes of the lab write what held up their event loops."""
    return settings.state / "loops"
