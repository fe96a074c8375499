"""``jupyter gpu`` in this process, as somebody whom a test's controller knows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpu_kernels.cli import main
from tests.pool.controller import ThreadedController, token

Run = Callable[..., int]


def command_line(controller: ThreadedController, monkeypatch: pytest.MonkeyPatch, *command: str) -> Run:
    """Runs ``jupyter gpu COMMAND`` with more arguments, as somebody, against the controller; the exit
    status.
    """
    monkeypatch.setenv("GPU_KERNELS_CONTROLLER", controller.url)

    def run(who: str, *arguments: str) -> int:
        monkeypatch.setenv("GPU_KERNELS_TOKEN", token(who))
        with pytest.raises(SystemExit) as exit_:
            main([*command, *arguments])
        return int(exit_.value.code or 0)

    return run
