"""Who may log in to a demo lab, and the secrets it makes for itself at its first start."""

from __future__ import annotations

import dataclasses
import json
import secrets
from pathlib import Path

from gpu_kernels.private_file import write_private

COURSE = "ml101"
INSTRUCTORS = f"{COURSE}-instructors"
ADMINS = "gpu-admins"

STUDENTS = ("ana", "ben")
INSTRUCTOR = "iris"
ADMIN = "adam"
GUEST = "gus"
"""In no course: may start a server, and is refused GPUs with a reason."""

OTHER_COURSE = "ds200"
"""Ben is in two courses, and chooses one when he starts a server."""

COURSES = (COURSE, OTHER_COURSE)

GROUPS = {
    COURSE: [*STUDENTS, INSTRUCTOR],
    OTHER_COURSE: ["ben"],
    INSTRUCTORS: [INSTRUCTOR],
    ADMINS: [ADMIN],
}

ROLES = {
    "ana": f"student of {COURSE}",
    "ben": f"student of {COURSE} and {OTHER_COURSE}",
    INSTRUCTOR: f"instructor of {COURSE}",
    ADMIN: "admin",
    GUEST: "in no course",
}

_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"


@dataclasses.dataclass(frozen=True)
class Login:
    name: str
    password: str
    role: str


def logins(folder: Path) -> dict[str, Login]:
    """The demo's logins by name; made at the first call, the same ever after.

    The passwords are random, because other people may have accounts on this machine, and who
    logs in runs code as the person who started the lab.
    """
    path = folder / "logins.json"
    if not path.exists():
        made = {name: "".join(secrets.choice(_ALPHABET) for _ in range(10)) for name in ROLES}
        write_private(path, json.dumps(made, indent=2) + "\n")
    passwords: dict[str, str] = json.loads(path.read_text())
    return {name: Login(name, passwords[name], role) for name, role in ROLES.items()}


def token(folder: Path, name: str) -> str:
    """The secret called `name` of this lab: 64 hex digits in a file that only its owner reads."""
    path = token_file(folder, name)
    if not path.exists():
        write_private(path, secrets.token_hex(32))
    return path.read_text().strip()


def token_file(folder: Path, name: str) -> Path:
    return folder / f"{name}.token"
