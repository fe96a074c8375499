"""The hub's log, as the lab's configuration makes it."""

from __future__ import annotations

import io

from jupyterhub.app import JupyterHub
from traitlets.config import Config

from gpu_kernels.hub_config.lab.log_rate import LOGGING


def test_a_flood_of_refused_tokens_leaves_a_bounded_log_and_hides_nothing_else() -> None:
    hub = JupyterHub(config=Config({"JupyterHub": {"logging_config": LOGGING}}))
    written = io.StringIO()
    for handler in hub.log.handlers:
        handler.setStream(written)
    for number in range(20_000):
        hub.log.warning("403 GET /hub/api/user (@192.0.2.1) %d ms", number)
    hub.log.warning("a course has no group")
    lines = written.getvalue().splitlines()
    assert "a course has no group" in lines[-1]
    assert 0 < len(lines) < 5000
