"""Asks the attach point of this process's kernel: how its slice stands, to wait, to change it.

The other side is ``gpu_kernels.provisioner.attach_point``; what is said is in docs/design/lab.md.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Generator, Mapping
from typing import Any

from gpu_kernels.remoting.environment import ATTACH

ANSWERS_WITHIN_S = 30.0
"""More than a call to the controller takes; a line that moves is told of each second."""
LONGEST_ANSWER = 65536


class NoAttachPoint(Exception):
    """Nobody answers, or there is nobody to ask; the text is for the user."""


def address(environ: Mapping[str, str] | None = None) -> str | None:
    """Where to ask; None in a process that no Jupyter server gave its slice to."""
    return (os.environ if environ is None else environ).get(ATTACH) or None


def converse(at: str, **request: Any) -> Generator[dict[str, Any], None, None]:
    """The answers to a request, as they come. Hanging up (closing the iterator) changes nothing there.

    Raises ``NoAttachPoint``.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(ANSWERS_WITHIN_S)
        try:
            connection.connect(at.removeprefix("unix://"))
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile("rb") as lines:
                while line := lines.readline(LONGEST_ANSWER):
                    yield _read(line)
        except OSError as error:
            raise NoAttachPoint(
                f"The Jupyter server that looks after this kernel's slice does not answer ({error})."
            ) from error


def ask(at: str, **request: Any) -> dict[str, Any]:
    """The last answer to a request. Raises ``NoAttachPoint``."""
    answers = list(converse(at, **request))
    if not answers:
        raise NoAttachPoint("The Jupyter server that looks after this kernel's slice hung up.")
    return answers[-1]


def _read(line: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(line)
    except ValueError:
        answer = None
    if not isinstance(answer, dict) or not isinstance(answer.get("state"), str):
        raise NoAttachPoint(
            "What answers for this kernel's slice does not speak the protocol of this version."
        )
    return answer


def present(environ: Mapping[str, str] | None = None) -> tuple[dict[str, str], dict[str, Any] | None]:
    """This process's environment with the slice that the kernel has now, and how that stands: None where
    nobody can be asked, and the environment is all that is known.
    """
    env = dict(os.environ if environ is None else environ)
    at = address(env)
    if at is None:
        return env, None
    try:
        answer = ask(at, do="status")
    except NoAttachPoint:
        return env, None
    given = answer.get("environment")
    if answer["state"] == "attached" and isinstance(given, dict):
        env.update({str(name): str(value) for name, value in given.items()})
    else:
        env.pop("GPU_KERNELS_LEASE", None)
    return env, answer
