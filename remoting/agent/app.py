"""``jupyter gpu agent``: the agent's command line and configuration file."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import socket
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import pynvml  # noqa: F401 - asked for here, where who starts an agent is told which extra brings it
from traitlets import Bool, Dict, Enum, Float, Integer, List, Unicode, default
from traitlets.config import Application, Config

import gpu_kernels
from gpu_kernels.client import CONTROLLER_VARIABLE, TOKEN_VARIABLES, AsyncPoolClient
from gpu_kernels.errors import GPUKernelsError
from gpu_kernels.limits.descriptors import raise_soft_limit
from gpu_kernels.limits.logs import limit_rate
from gpu_kernels.private_file import readable_by_others
from gpu_kernels.remoting.agent.accounts import UNUSED_UIDS
from gpu_kernels.remoting.agent.contexts import NotMeasured, measured_contexts, with_contexts
from gpu_kernels.remoting.agent.gpus import (
    CLASS_PATTERNS,
    Inventory,
    NoGpu,
    nvidia_driver,
    nvml_gpus,
    software_gpus,
)
from gpu_kernels.remoting.agent.listeners import CannotListen
from gpu_kernels.remoting.agent.promises import NoMemoryLeft, promise
from gpu_kernels.remoting.agent.protections import Protection, keep, protect_this_process
from gpu_kernels.remoting.agent.server import Agent
from gpu_kernels.remoting.agent.settings import Limits, Settings, WorkerSettings
from gpu_kernels.remoting.machine_memory import machine_memory, told_mib
from gpu_kernels.remoting.paths import native_build
from gpu_kernels.units import valid_class

FAILED = 1
LEAST_SOFTWARE_MIB = 16


class AgentApp(Application):
    """Serves this machine's GPUs to the pool: registers them, and runs a worker for each lease."""

    name = "jupyter-gpu-agent"
    version = gpu_kernels.__version__
    description = """Serves this machine's GPUs to the pool.

    Registers them with the controller and runs a worker for each lease. Where NVML finds no GPU, it offers
    a software GPU, labelled as such.
    """
    examples = """
    export GPU_KERNELS_CONTROLLER=http://10.0.0.1:8010 GPU_KERNELS_TOKEN=...
    jupyter gpu agent --listen tcp://10.0.0.7:7720
    jupyter gpu agent --device software --software-class V100 --software-memory-mib 32768
    """
    raise_config_file_errors = True

    agent_name = Unicode(
        help="This agent's name in the pool (letters, digits, '.', '_', '-'). Default: the host's name. Two "
        "agents must not share one: the later takes the place of the earlier, whose leases end."
    ).tag(config=True)
    controller = Unicode(
        help="URL of the pool controller. Default: the environment's GPU_KERNELS_CONTROLLER. The token comes "
        "from GPU_KERNELS_TOKEN or --token-file, never from the command line, which every account can read."
    ).tag(config=True)
    token_file = Unicode(
        help="File that holds the agent's token (scope custom:gpu:agent). Default: none; GPU_KERNELS_TOKEN."
    ).tag(config=True)
    listen = List(
        Unicode(),
        default_value=["tcp://127.0.0.1:0"],
        help="Addresses of the data port: tcp://HOST:PORT or unix:///PATH. Port 0 is any free port, the last "
        "run's if possible. Default: loopback. The data port does not encrypt: listen on a network that only "
        "the Jupyter hosts share.",
    ).tag(config=True)
    advertise = Unicode(
        help="Address that clients are told. Default: the first of 'listen', as it really is. Needed where "
        "that is 0.0.0.0 or behind a translation of addresses."
    ).tag(config=True)
    state_dir = Unicode(
        help="Folder for what must outlive a restart (epochs, port). Default: gpu-kernels/agent-NAME in "
        "XDG_STATE_HOME. One agent a folder."
    ).tag(config=True)
    device = Enum(
        ["auto", "nvidia", "software"],
        default_value="auto",
        help="Which GPUs to serve: NVIDIA's, software GPUs, or (auto, the default) software only where NVML "
        "finds none. 'nvidia' fails rather than offer a software GPU in a real one's place.",
    ).tag(config=True)
    class_patterns: List[Any] = List(
        help="Pairs [regular expression, GPU class] over NVML's device names, tried before the built-in "
        "ones; the class may use the expression's groups. Default: none."
    ).tag(config=True)
    software_class = Unicode(
        "V100",
        help="GPU class that a software GPU stands for. Default: V100. It is always shown as software.",
    ).tag(config=True)
    software_memory_mib = Integer(
        32768,
        min=LEAST_SOFTWARE_MIB,
        help="Memory of each software GPU, in MiB. Default: 32768. It is the host's memory, taken when used. "
        "What the host cannot promise of it is not offered, which a warning at the start tells.",
    ).tag(config=True)
    machine_memory_mib = Integer(
        min=0,
        help="This agent's part of the machine's memory, in MiB: what software GPUs offer, workers and a "
        "reserve come out of it. Default: the environment's GPU_KERNELS_MACHINE_MEMORY_MIB, or 0: what "
        "the machine has (in a container, its cgroup), less what other agents offer of it. Where it is set "
        "for one agent of a machine, set it for each.",
    ).tag(config=True)
    software_count = Integer(
        1,
        min=1,
        max=64,
        help="How many software GPUs. Default: 1. All share the host's cores and memory.",
    ).tag(config=True)
    software_threads = Integer(
        0,
        min=0,
        help="Cores that one lease's software GPU uses. Default: 0, all. Fewer: slower, but more even.",
    ).tag(config=True)
    report_every = Float(
        10.0,
        min=0.2,
        help="Seconds between reports when nothing changes. Default: 10. Changes are reported at once; "
        "longer means less load and older figures of use.",
    ).tag(config=True)
    fences_after = Float(
        600.0,
        min=0,
        help="Seconds without an acknowledged report after which this agent stops everything by itself, and "
        "the controller may give its slices to others. Default: 600. Shorter frees a lost server's slices "
        "sooner; longer outlives longer outages of the controller. 0: never, and slices stay taken until "
        "this server speaks. Choose 0 where machines are paused with their clocks.",
    ).tag(config=True)
    worker = Unicode(
        help="The worker program. Default: bin/gpu-worker of the native build. Choose another to debug."
    ).tag(config=True)
    nvidia_driver = Unicode(help="The genuine libcuda.so.1. Default: where distributions put it.").tag(
        config=True
    )
    worker_uids = Unicode(
        UNUSED_UIDS,
        help="Range of account numbers, FIRST-LAST, of which an agent that is root gives each worker one of "
        f"its own. Default: {UNUSED_UIDS}, which belong to nobody. A client that breaks out of its worker "
        "then reads nothing of the agent's, and signals no other worker. Choose another range where these "
        "numbers are in use, or do not exist (a container); have more than there can be leases.",
    ).tag(config=True)
    worker_user = Unicode(
        help="One account that all workers run under, in place of 'worker_uids'; needs root. Default: none. "
        "It keeps workers away from the agent's token, but not from each other."
    ).tag(config=True)
    workers_as_root = Bool(
        False,
        help="Whether an agent that is root leaves its workers root's, in place of 'worker_uids'. Default: "
        "no. With it, whoever breaks out of a worker may have this machine and the agent's token.",
    ).tag(config=True)
    worker_cgroups = Unicode(
        "auto",
        help="Where workers get a cgroup each, by which all of a worker is killed and its memory bounded: "
        "'auto' (the default), in the agent's own, where it is delegated (Delegate=yes in its systemd unit); "
        "'off'; or a folder of the cgroup v2 tree that is this agent's alone.",
    ).tag(config=True)
    worker_seccomp = Enum(
        ["required", "optional", "off"],
        default_value="required",
        help="Whether a worker's system calls are filtered: no other program or process, no new connection, "
        "no signal to another worker. Default: required, and a worker that cannot be filtered serves nobody. "
        "'optional' serves without a filter on a kernel that has none, and says so in the log; 'off' is for "
        "a debugger in the worker.",
    ).tag(config=True)
    worker_libraries = List(
        Unicode(),
        help="Folders of this server with NVIDIA's maths libraries (libcublas.so.13), for programs on its "
        "NVIDIA GPUs that call them: those of NVIDIA's wheels, for example. What is in none of these the "
        "system's loader looks for.",
    ).tag(config=True)
    worker_memory_mib = Integer(
        0,
        min=0,
        max=1 << 22,
        help="Memory of this machine, in MiB, that one lease's worker may take for itself: connections, "
        "handles, loaded programs, graphs and work that waits. Default: 0, the slice's share of seven "
        "eighths of the machine's memory, so that all workers together never may have more; the log tells "
        "it at each start. A software GPU's slice is not counted. At the limit the greediest program "
        "of the lease is refused more. At least 64; a number holds for each worker, whatever its slice "
        "and however many there are.",
    ).tag(config=True)
    context_mib = Integer(
        -1,
        min=-1,
        max=1 << 20,
        help="Memory of an NVIDIA GPU, in MiB, that CUDA takes for a worker before its program asks for any. "
        "It is of the slice, so that slices fit the GPU with all that they take. Default: -1, measured on "
        "each GPU when the agent starts. Name it where two processes cannot use a GPU at once; too little "
        "lets slices take more than they were given.",
    ).tag(config=True)
    worker_rlimits = Dict(
        default_value={"CORE": 0, "NOFILE": 4096},
        help="Resource limits of a worker, as in {'NOFILE': 4096}. Default: no core dumps (they would hold "
        "users' data), 4096 descriptors (one a lane).",
    ).tag(config=True)
    keep_environment = List(
        Unicode(),
        default_value=["TZ", "TMPDIR"],
        help="Variables of the agent's environment that workers get; all others are taken away. "
        "Default: TZ, TMPDIR. Never name one that holds a secret.",
    ).tag(config=True)
    pending_limit = Integer(
        512,
        min=1,
        help="Connections that may be on their way to a worker at once. Default: 512. More stands a bigger "
        "rush, at a descriptor each.",
    ).tag(config=True)
    pending_of_a_peer = Integer(
        128,
        min=1,
        help="Of these, how many may be unproved of one address or local account, or be of one lease. "
        "Default: 128, as all kernels of a Jupyter host are one peer. The oldest unproved one gives way.",
    ).tag(config=True)
    config_file = Unicode(help="Configuration file (Python or JSON). Default: none.").tag(config=True)
    aliases = {  # noqa: RUF012 - traitlets' way
        "name": "AgentApp.agent_name",
        "controller": "AgentApp.controller",
        "token-file": "AgentApp.token_file",
        "listen": "AgentApp.listen",
        "advertise": "AgentApp.advertise",
        "state-dir": "AgentApp.state_dir",
        "device": "AgentApp.device",
        "software-class": "AgentApp.software_class",
        "software-memory-mib": "AgentApp.software_memory_mib",
        "machine-memory-mib": "AgentApp.machine_memory_mib",
        "software-count": "AgentApp.software_count",
        "software-threads": "AgentApp.software_threads",
        "context-mib": "AgentApp.context_mib",
        "worker-memory-mib": "AgentApp.worker_memory_mib",
        "worker-uids": "AgentApp.worker_uids",
        "worker-user": "AgentApp.worker_user",
        "worker-cgroups": "AgentApp.worker_cgroups",
        "worker-seccomp": "AgentApp.worker_seccomp",
        "keep-environment": "AgentApp.keep_environment",
        "report-every": "AgentApp.report_every",
        "fences-after": "AgentApp.fences_after",
        "config": "AgentApp.config_file",
        "log-level": "AgentApp.log_level",
    }

    @default("agent_name")
    def _default_agent_name(self) -> str:
        return re.sub(r"[^A-Za-z0-9._-]+", "-", socket.gethostname())[:64].strip("-._") or "gpu-server"

    @default("controller")
    def _default_controller(self) -> str:
        return os.environ.get(CONTROLLER_VARIABLE, "")

    @default("machine_memory_mib")
    def _default_machine_memory_mib(self) -> int:
        return told_mib(os.environ)

    @default("state_dir")
    def _default_state_dir(self) -> str:
        base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
        return str(Path(base) / "gpu-kernels" / f"agent-{self.agent_name}")

    @default("worker")
    def _default_worker(self) -> str:
        return str(native_build().worker)

    @default("nvidia_driver")
    def _default_nvidia_driver(self) -> str:
        return nvidia_driver()

    @default("log_level")
    def _default_log_level(self) -> int:
        return logging.INFO

    @default("log_format")
    def _default_log_format(self) -> str:
        return "[%(levelname)1.1s %(asctime)s.%(msecs)03d agent] %(message)s"

    def initialize(self, argv: list[str] | None = None) -> None:
        super().initialize(argv)
        if self.extra_args:
            raise BadSettings(f"not understood: {' '.join(self.extra_args)}; see --help")
        if self.config_file:
            path = Path(self.config_file)
            if not path.is_file():
                raise BadSettings(f"there is no configuration file {path}")
            from_command_line = deepcopy(self.cli_config)
            self.load_config_file(path.name, path=str(path.parent.absolute()))
            self.update_config(Config(from_command_line))

    def start(self) -> None:
        """Serve until SIGTERM or SIGINT. Exits with 1, and the reason on standard error, if it cannot."""
        if "GPU_KERNELS_LEASE" in os.environ:
            raise BadSettings("an agent cannot run inside a GPU kernel: it would serve that kernel's slice")
        limit_rate([*self.log.handlers, *filter(None, [logging.lastResort])])
        before, now = raise_soft_limit()
        if now != before:
            # Workers keep what the agent was started with, where nothing else is said.
            self.worker_rlimits = {"NOFILE": before, **self.worker_rlimits}
        try:
            asyncio.run(self._serve())
        except (BadSettings, CannotListen, NoGpu, GPUKernelsError, OSError, ValueError) as error:
            self.log.critical("%s", getattr(error, "log_message", error))
            sys.exit(FAILED)

    async def _serve(self) -> None:
        pool = (
            AsyncPoolClient(self.controller, self._token()) if self.controller else self._from_environment()
        )
        protect_this_process()
        agent = Agent(self.settings(), self._inventory(), pool, self.log)
        self._tell_protections(agent.protections())
        self.log.info("%s", agent.own_memory_text())
        serving = asyncio.ensure_future(agent.run())
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, serving.cancel)
        try:
            await serving
        except asyncio.CancelledError:
            self.log.info("ended")
        finally:
            await pool.aclose()

    def _tell_protections(self, found: list[Protection]) -> None:
        """What is not in force is told at each start: nobody would see it otherwise before it is needed."""
        for each in found:
            if each.in_force:
                self.log.info("%s: %s", each.name, each.detail)
            else:
                self.log.warning("%s: %s. %s", each.name, each.detail, each.advice)
        keep(found, Path(self.state_dir).absolute())

    def settings(self) -> Settings:
        """What the options say. Raises ``BadSettings``."""
        if not self.listen:
            raise BadSettings("'listen' names no address")
        if 0 < self.worker_memory_mib < 64:
            raise BadSettings(
                f"worker_memory_mib is {self.worker_memory_mib}, and no program runs with less than 64; "
                "0 is the slice's share"
            )
        if 0 < self.fences_after < 3 * self.report_every:
            raise BadSettings(
                f"'fences_after' ({self.fences_after:g} s) must be 0, or at least three times 'report_every' "
                f"({self.report_every:g} s): one lost report would stop every kernel"
            )
        return Settings(
            name=self.agent_name,
            state=Path(self.state_dir).absolute(),
            listen=tuple(self.listen),
            advertised=self.advertise or None,
            workers=WorkerSettings(
                native=native_build(),
                program=Path(self.worker).absolute(),
                nvidia_driver=self.nvidia_driver,
                user=self.worker_user or None,
                uids=self._uids(),
                cgroups=self.worker_cgroups,
                takes_orphans=True,
                rlimits=self.worker_rlimits,
                kept_variables=tuple(self.keep_environment),
                software_threads=self.software_threads or None,
                memory_mib=self.worker_memory_mib,
                machine=machine_memory(self.machine_memory_mib),
                seccomp=self.worker_seccomp,
                libraries=tuple(self.worker_libraries),
            ),
            limits=Limits(pending=self.pending_limit, pending_of_a_peer=self.pending_of_a_peer),
            report_every_s=self.report_every,
            fences_after_s=self.fences_after,
        )

    def _uids(self) -> str | None:
        """The range of accounts for workers, where this agent may give them any."""
        if os.geteuid() != 0 or self.worker_user or self.workers_as_root:
            return None
        if not self.worker_uids:
            raise BadSettings(
                "an agent that is root needs 'worker_uids' or 'worker_user'; to leave workers root's, with "
                "all that root may do, set 'workers_as_root'"
            )
        return self.worker_uids

    def _inventory(self) -> Inventory:
        if self.device != "software":
            try:
                return self._measured(nvml_gpus([*map(_pattern, self.class_patterns), *CLASS_PATTERNS]))
            except NoGpu as error:
                if self.device == "nvidia":
                    raise
                self.log.info("%s; offering a software GPU", error)
        if not valid_class(self.software_class):
            raise BadSettings(f"a GPU class cannot be called {self.software_class!r}")
        asked, count = self.software_memory_mib, self.software_count
        try:
            self._promise = promise(machine_memory(self.machine_memory_mib), asked, count, LEAST_SOFTWARE_MIB)
        except NoMemoryLeft as error:
            raise BadSettings(str(error)) from None
        self.log.log(logging.WARNING if self._promise.reduced else logging.INFO, "%s", self._promise.text)
        return software_gpus(
            *(self.agent_name, self.software_class, asked, count, self.version, self._promise.each_mib)
        )

    def _measured(self, inventory: Inventory) -> Inventory:
        """With what a context takes of each GPU. Raises ``BadSettings`` where that cannot be found out."""
        uuids = [gpu.uuid for gpu in inventory.gpus]
        if self.context_mib >= 0:
            return with_contexts(inventory, [self.context_mib] * len(uuids))
        env = {"PATH": "/usr/bin:/bin", "CUDA_VISIBLE_DEVICES": ",".join(uuids), "CUDA_CACHE_DISABLE": "1"}
        try:
            sizes = measured_contexts(Path(self.worker).absolute(), self.nvidia_driver, uuids, env)
        except NotMeasured as error:
            raise BadSettings(
                f"{error}; --context-mib says what it takes where it cannot be measured"
            ) from None
        self.log.info("a context takes %s MiB of each slice", " or ".join(map(str, sorted(set(sizes)))))
        return with_contexts(inventory, sizes)

    def _token(self) -> str:
        if self.token_file:
            path = Path(self.token_file)
            if readable_by_others(path):
                self.log.warning(
                    "other accounts may read the token in %s, and register as this GPU server with it. "
                    "Run: chmod 600 %s",
                    *(path, path),
                )
            return path.read_text().strip()
        return next((os.environ[name] for name in TOKEN_VARIABLES if os.environ.get(name)), "")

    def _from_environment(self) -> AsyncPoolClient:
        return AsyncPoolClient.from_environment()


class BadSettings(Exception):
    """The agent cannot start as it was told; the text is for who runs it."""


def _pattern(pair: Any) -> tuple[str, str]:
    try:
        pattern, gpu_class = pair
        re.compile(pattern)
    except (TypeError, ValueError, re.error) as error:
        raise BadSettings(f"{pair!r} is no pair [regular expression, GPU class]: {error}") from None
    return str(pattern), str(gpu_class)


def main(argv: list[str] | None = None) -> None:
    """Entry point of ``jupyter gpu agent`` and ``python -m gpu_kernels.remoting.agent``."""
    logging.getLogger("httpx").setLevel(logging.WARNING)
    app = AgentApp()
    try:
        app.initialize(argv)
        app.start()
    except BadSettings as error:
        sys.exit(f"jupyter gpu agent: {error}")
