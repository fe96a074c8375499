"""Starts the services of a lab, watches them, and stops them in an order that leaves nothing behind.

Start: hub (which starts proxy and controller), then the agent. Stop: the students' servers, so that their
kernels give their leases back; then, when the ledger says that nothing is held, the agent; then the hub with
the rest. The hub alone would stop the controller first, and every lease would have to expire.
"""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import httpx

from gpu_kernels import kernelspecs
from gpu_kernels.client import Lease, PoolClient
from gpu_kernels.errors import PoolError
from gpu_kernels.hub_config.lab import accounts, services
from gpu_kernels.hub_config.lab.processes import LabError, Process, kill_marked
from gpu_kernels.hub_config.lab.settings import Settings, SettingsError, proxy_command
from gpu_kernels.private_file import write_private
from gpu_kernels.resources.pool import PoolGpu
from gpu_kernels.spawner.ports import is_free

START_TIMEOUT = 120.0
SERVERS_AT_ONCE = 8
SERVERS_STOP_TIMEOUT = 90.0
LEASES_END_TIMEOUT = 30.0
SERVICE_STOP_TIMEOUT = 60.0
"""What is killed for being slow is told as a problem: so long takes only what hangs."""


class Lab:
    """One running lab; a context manager that starts it and, whatever happens, stops it.

    Not thread-safe; start it from the main thread (its processes end with the thread that started them).
    `hub_configuration`: another file for the hub, which loads the lab's own and adds to it.
    """

    def __init__(
        self,
        settings: Settings,
        say: Callable[[str], None] = lambda text: None,
        hub_configuration: Path = services.HUB_CONFIGURATION,
    ) -> None:
        self.settings = settings
        self._hub_configuration = hub_configuration
        self._say = say
        self._lock: IO[str] | None = None
        self.hub: Process | None = None
        self.agent: Process | None = None
        self.problems: list[str] = []
        """What the stop had to clean up by force; empty if everything ended by itself."""
        self.stopping = False
        """The stop has begun; who interrupts it leaves something behind."""

    def __enter__(self) -> Lab:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Returns when a student could log in. Raises SettingsError or LabError with a text for people."""
        settings = self.settings
        self.stopping = False
        proxy_command()
        settings.check_folder()
        if settings.lock.exists():  # of another lab that runs, this is told before that its ports are taken
            self._take_lock()
        settings.check_ports_free()
        settings.make_folders()
        if self._lock is None:
            self._take_lock()
        settings.save()
        kernelspecs.install(prefix=services.jupyter_prefix(settings))
        self._say("starting JupyterHub, its proxy and the pool controller")
        self.start_hub()
        self._say("starting the agent of the GPU server")
        self.start_agent()

    def start_hub(self) -> None:
        settings = self.settings
        self.hub = Process(
            "JupyterHub",
            services.hub_command(self._hub_configuration),
            settings.logs / "hub.log",
            services.environment(settings),
            settings.state,
        )
        for what, url in (
            ("it answered", f"http://{settings.address}:{settings.hub_port}/hub/health"),
            ("it answered through its proxy", f"{settings.url}/hub/health"),
            # Its versions: for health it wants a token.
            ("the controller answered", f"{settings.controller_url}/api"),
        ):
            self.hub.wait_until(lambda url=url: answers(url), START_TIMEOUT, what)  # type: ignore[misc]

    def start_agent(self) -> None:
        settings = self.settings
        self._bring_agent_token()
        self.agent = Process(
            "the agent",
            services.agent_command(),
            settings.logs / "agent.log",
            services.environment(settings),
            settings.state,
        )
        self.agent.wait_until(self._gpu_is_offered, START_TIMEOUT, "its GPU was registered")

    def _bring_agent_token(self) -> None:
        """A token of its own for the GPU server, by the controller; one of an earlier start is taken back."""
        with self.pool as pool:
            for token in pool.agent_tokens():
                if token.agent == services.AGENT:
                    pool.remove_agent_token(token.id)
            made = pool.add_agent_token(services.AGENT)
        write_private(services.agent_token_file(self.settings), made.token)

    def check_alive(self) -> None:
        """Raises LabError if a service that should run has ended."""
        for process in (self.hub, self.agent):
            if process is not None and not process.is_alive():
                raise LabError(f"{process.name} has ended.\n{process.log_tail()}")

    def stop(self) -> None:
        """Stops everything, by force where it must, and never raises. Harmless when nothing runs."""
        self.stopping = True
        if self.hub is not None and self.hub.is_alive():
            self._attempt("stop the servers", self.stop_servers)
            self._attempt("see all leases end", self.wait_for_leases)
        if self.agent is not None:
            self.agent.stop(SERVICE_STOP_TIMEOUT)
        if self.hub is not None:
            self.hub.stop(SERVICE_STOP_TIMEOUT)
        if self._lock is not None:
            self._sweep()
            self._lock.close()
        self.hub = self.agent = self._lock = None

    def abandon(self) -> None:
        """Kills everything at once; leases that are in force end when they expire."""
        for process in (self.agent, self.hub):
            if process is not None:
                process.kill()
        kill_marked(self.settings.marker)

    def hub_api(self, method: str, path: str, **options: Any) -> httpx.Response:
        """A call of the hub's REST API as the runner. Raises httpx errors for what is not a success."""
        response = httpx.request(
            method,
            f"http://{self.settings.address}:{self.settings.hub_port}/hub/api{path}",
            headers={"Authorization": f"token {self.runner_token}"},
            timeout=30,
            trust_env=False,
            **options,
        )
        return response.raise_for_status()

    @property
    def pool(self) -> PoolClient:
        """The controller's API as an admin of the pool."""
        return PoolClient(self.settings.controller_url, self.runner_token)

    @property
    def runner_token(self) -> str:
        return accounts.token(self.settings.secrets, services.RUNNER_SERVICE)

    def leases(self) -> list[Lease]:
        """All leases that hold or want a slice now."""
        with self.pool as pool:
            return pool.list(everyone=True)

    def gpus(self) -> list[PoolGpu]:
        """The pool's GPUs with what is allocatable and used."""
        with self.pool as pool:
            return list(pool.pool().gpus)

    def running_servers(self) -> list[tuple[str, str]]:
        """(user, server name) of every server that the hub has started or is starting."""
        users = self.hub_api("GET", "/users", params={"state": "active"}).json()
        return [(user["name"], server) for user in users for server in user.get("servers", {})]

    def _take_lock(self) -> None:
        with self.settings.keeping_state():
            lock = self.settings.lock.open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise SettingsError(
                f"Another lab runs with its state in {self.settings.state}. Stop it first (Ctrl-C where it "
                "runs), or choose another folder: --state other-folder (make up STATE=other-folder)"
            ) from None
        self._lock = lock

    def _gpu_is_offered(self) -> bool:
        with contextlib.suppress(PoolError):
            return bool(self.gpus())
        return False

    def stop_servers(self) -> None:
        """Stops every student's server through the hub, and waits until they have ended."""
        with ThreadPoolExecutor(SERVERS_AT_ONCE) as threads:
            list(threads.map(self._stop_server, self.running_servers()))
        wait(lambda: not self.running_servers(), SERVERS_STOP_TIMEOUT, "servers still run")

    def _stop_server(self, which: tuple[str, str]) -> None:
        user, server = which
        try:
            self.hub_api("DELETE", f"/users/{user}/servers/{server}" if server else f"/users/{user}/server")
        except httpx.HTTPStatusError as refused:
            if refused.response.status_code not in (400, 404):  # it has ended since; else the wait says so
                raise

    def wait_for_leases(self) -> None:
        """Waits until nothing is held any longer. Raises LabError if that takes too long."""
        wait(lambda: not self.leases(), LEASES_END_TIMEOUT, "leases are still in force")

    def _attempt(self, what: str, action: Callable[[], None]) -> None:
        try:
            action()
        except (httpx.HTTPError, PoolError, LabError) as error:
            self.problems.append(f"could not {what}: {error}")

    def _sweep(self) -> None:
        for leftover in kill_marked(self.settings.marker):
            self.problems.append(f"had to be ended: {leftover}")
        for what, port in self.settings.ports().items():
            if not is_free(self.settings.address, port):
                self.problems.append(f"port {port} ({what}) is still taken")


def answers(url: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(url, timeout=2, trust_env=False).is_success
    return False


def wait(ready: Callable[[], bool], timeout: float, otherwise: str) -> None:
    """Polls until `ready` holds; raises LabError that says `otherwise` after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not ready():
        if time.monotonic() > deadline:
            raise LabError(f"{otherwise} after {timeout:.0f} s")
        time.sleep(0.1)
