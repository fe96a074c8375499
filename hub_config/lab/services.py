"""The commands and environments of the services that a lab consists of."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from gpu_kernels.hub_config.lab import accounts
from gpu_kernels.hub_config.lab.die_with_parent import YIELDING
from gpu_kernels.hub_config.lab.settings import (
    CONFIGURATION,
    MARKER_VARIABLE,
    SETTINGS_VARIABLE,
    Settings,
    python,
)
from gpu_kernels.remoting.environment import without_gpu
from gpu_kernels.remoting.machine_memory import VARIABLE as MACHINE_MEMORY
from gpu_kernels.remoting.paths import NATIVE_VARIABLE

AGENT = "lab"
"""The one GPU server's name, and that of the file with the token that the controller makes for it."""
RUNNER_SERVICE = "lab-runner"
PAGES_SERVICE = "gpu-lab"
PANEL_SERVICE = "gpu-panel"
HUB_CONFIGURATION = CONFIGURATION / "jupyterhub_config.py"


def dying_with_parent(command: list[str], *, yields: bool = False) -> list[str]:
    """The command, ending when the process that starts it ends.

    `yields`: it goes after hub, proxy and controller where processors are short. When a class begins dozens
    of servers start at once, and everybody waits for those three.
    """
    return [
        python(),
        "-m",
        "gpu_kernels.hub_config.lab.die_with_parent",
        *([YIELDING] if yields else []),
        *command,
    ]


def respawned(command: list[str]) -> list[str]:
    """The command, started again when it dies."""
    return [python(), "-m", "gpu_kernels.hub_config.lab.respawn", *command]


def hub_command(configuration: Path = HUB_CONFIGURATION) -> list[str]:
    return [python(), "-m", "jupyterhub", "--config", str(configuration)]


def environment(settings: Settings) -> dict[str, str]:
    """What the hub and the agent get: this process's environment, without what belongs to another Jupyter or
    to a slice, in which a lab may be started too.

    Servers inherit PATH from the hub, so that `jupyter gpu` works in their terminals.
    """
    kept = {name: value for name, value in without_gpu(os.environ).items() if not _belongs_elsewhere(name)}
    return {
        **kept,
        "PATH": f"{Path(python()).parent}:{kept.get('PATH', os.defpath)}",
        MARKER_VARIABLE: settings.marker,
        SETTINGS_VARIABLE: str(settings.file),
        "PYTHONUNBUFFERED": "1",
    }


def server_environment(settings: Settings) -> Mapping[str, str]:
    """What the hub adds to the environment of each single-user server."""
    return {
        MARKER_VARIABLE: settings.marker,
        "JUPYTER_PATH": str(jupyter_prefix(settings) / "share" / "jupyter"),
        "JUPYTER_CONFIG_PATH": str(CONFIGURATION / "server"),
    }


def jupyter_prefix(settings: Settings) -> Path:
    """Where the kernel specs of this lab are installed, apart from those of the machine."""
    return settings.state / "jupyter"


def server_command() -> list[str]:
    return [python(), "-m", "gpu_kernels.hub_config.singleuser"]


def controller_command() -> list[str]:
    return [python(), "-m", "gpu_kernels.pool", "--config", str(CONFIGURATION / "controller_config.py")]


def service_environment(settings: Settings) -> dict[str, str]:
    return {MARKER_VARIABLE: settings.marker, SETTINGS_VARIABLE: str(settings.file)}


def pages_command() -> list[str]:
    return [
        python(),
        "-m",
        "gpu_kernels.hub_config.pages",
        "--config",
        str(CONFIGURATION / "pages_config.py"),
    ]


def agent_token_file(settings: Settings) -> Path:
    return accounts.token_file(settings.secrets, f"gpu-server-{AGENT}")


def agent_command() -> list[str]:
    return [python(), "-m", "gpu_kernels.remoting.agent", "--config", str(CONFIGURATION / "agent_config.py")]


def _belongs_elsewhere(name: str) -> bool:
    """Whether a variable says whose kernel or server this is; a lab may be started from a notebook."""
    kept = (NATIVE_VARIABLE, MACHINE_MEMORY)
    return name.startswith(("JUPYTER", "JPY_", "GPU_KERNELS_", "CONFIGPROXY_")) and name not in kept
