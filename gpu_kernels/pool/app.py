"""``python -m gpu_kernels.pool``: the pool controller, as a JupyterHub service or on its own."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tornado.netutil import bind_sockets
from traitlets.config import Config

from gpu_kernels import __version__
from gpu_kernels.errors import GPUKernelsError
from gpu_kernels.limits.acceptor import BACKLOG
from gpu_kernels.limits.descriptors import raise_soft_limit, shares
from gpu_kernels.limits.front import Front
from gpu_kernels.limits.logs import limit_rate
from gpu_kernels.limits.questions import Rates
from gpu_kernels.pool.ledger import ClockGuard, Ledger
from gpu_kernels.pool.ledger.stores.sql import SqlStore
from gpu_kernels.pool.memory import count_references
from gpu_kernels.pool.policy.addresses import Addresses
from gpu_kernels.pool.service.agent_tokens import IssuedTokens
from gpu_kernels.pool.service.application import make_application
from gpu_kernels.pool.service.authentication import Authenticator, HubTokens, TokenFile, TokenSource
from gpu_kernels.pool.service.base import Service
from gpu_kernels.pool.service.desk import Desk
from gpu_kernels.pool.service.groups import GroupReader, HubGroups
from gpu_kernels.pool.service.history import History
from gpu_kernels.pool.service.metrics import Metrics
from gpu_kernels.pool.service.pace import Pace
from gpu_kernels.pool.service.proofs import Proofs
from gpu_kernels.pool.service.role import Role, StateLock
from gpu_kernels.pool.service.sweeper import Sweeper
from gpu_kernels.pool.service.waiting import Bells
from gpu_kernels.pool.settings import PoolSettings
from gpu_kernels.vocabulary.roles import Patterns

MOST_BUFFERED = 16 * 1024 * 1024
"""Bodies beyond ``base.MAX_BODY`` are answered in the API's shape up to here; longer ones end the
connection.
"""


GROUP_READS = 12.0
"""A minute, for each user: each reads all groups of the hub, which are read every half minute anyway."""


class PoolController(PoolSettings):
    """Owns the ledger of who holds which slice of which GPU."""

    bells: Bells
    """Who waits at this controller, while it serves."""
    service: Service
    role: Role
    front: Front

    name = "gpu-pool"
    version = __version__
    description = __doc__ or ""

    aliases = {  # noqa: RUF012 - traitlets reads it
        "config": "PoolController.config_file",
        "address": "PoolController.address",
        "port": "PoolController.port",
        "state-dir": "PoolController.state_dir",
        "log-level": "Application.log_level",
    }

    def initialize(self, argv: Sequence[str] | None = None) -> None:
        self.parse_command_line(list(sys.argv[1:] if argv is None else argv))
        if self.config_file:
            command_line = Config(self.cli_config)
            self.load_config_file(str(Path(self.config_file).resolve()))
            self.update_config(command_line)
        limit_rate([*self.log.handlers, *filter(None, [logging.lastResort])])
        for name in ("gpu_kernels", "tornado", "asyncio"):
            logger = logging.getLogger(name)
            logger.handlers, logger.level = self.log.handlers, self.log.level
        if self.under_hub:
            self._listen_where_the_hub_says()

    def _listen_where_the_hub_says(self) -> None:
        url = urlsplit(os.environ.get("JUPYTERHUB_SERVICE_URL", ""))
        if url.hostname:
            self.address, self.port = url.hostname, url.port or self.port
        self.prefix = os.environ.get("JUPYTERHUB_SERVICE_PREFIX", self.prefix)

    def start(self) -> None:
        """Serve until SIGTERM or SIGINT. What cannot start says why and exits with 1."""
        try:
            Path(self.state_dir).mkdir(mode=0o700, parents=True, exist_ok=True)
            asyncio.run(self._serve())
        except (GPUKernelsError, OSError, ValueError) as error:
            why = error.log_message if isinstance(error, GPUKernelsError) else error
            self.log.critical("The pool controller cannot run: %s", why)
            self.exit(1)

    async def _serve(self) -> None:
        async with self.serving() as url:
            count_references()
            self._announce(url)
            await _told_to_stop()
            self.log.info("stopping")

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Serve as configured, at the URL given, until the context ends. The state folder must exist."""
        self.check_times()
        state = Path(self.state_dir)
        async with AsyncExitStack() as stack:
            timing = self.timing()
            clock_guard = ClockGuard(self.sweep_interval * 1000, timing.lease_ttl)
            sockets = bind_sockets(self.port, self.address, backlog=BACKLOG)
            for listening in sockets:
                stack.callback(listening.close)
            url = f"http://{self.address}:{sockets[0].getsockname()[1]}{self.prefix.rstrip('/')}"
            proofs = Proofs.from_file(state / "lease-secret.key")
            store = SqlStore(
                self.database_url,
                term_ttl=int(self.term_ttl * 1000),
                key_print="" if self.other_key else proofs.fingerprint,
            )
            ledger = Ledger(
                store,
                timing,
                clock_guard=clock_guard,
                caps=self.caps(),
                holder=self.holder(),
                address=self.public_url or url,
                site=self.site(),
            )
            lock = StateLock(state)
            stack.callback(lock.release)
            self.bells = bells = Bells()
            desk = Desk(ledger, bells)
            stack.callback(desk.close)
            self.role = role = Role(
                desk, store, lock, bells, courses=self.first_courses(), term_ttl=self.term_ttl
            )
            await role.once()
            history = History(ledger.store)
            stack.callback(history.close)
            self.service = service = Service(
                desk=desk,
                history=history,
                bells=bells,
                authenticator=Authenticator(
                    IssuedTokens(desk, self._token_source()),
                    self.token_cache,
                    outage_seconds=self.hub_outage if self.under_hub else 0.0,
                    patterns=Patterns.of(self.course_groups),
                    rates=Rates(self.unknown_tokens, 2 * self.unknown_tokens),
                ),
                groups=self._group_reader(desk),
                proofs=proofs,
                metrics=Metrics(),
                pace=Pace(self.max_requests),
                reads=Pace(self.max_reads),
                group_reads=Pace(GROUP_READS),
                addresses=Addresses.of(self.agent_networks),
                max_wait=self.max_wait,
                sizes={name: tuple(numbers) for name, numbers in self.sizes.items()},
                check_answers=self.check_answers,
                local_trusted=self.metrics_without_token,
            )
            self.front = server = Front(
                make_application(service, self.prefix),
                shares=shares(raise_soft_limit()[1]),
                times=self.times(),
                of_owner=self.connections_of_a_user,
                log=logging.getLogger("gpu_kernels.pool.connections"),
                max_body_size=MOST_BUFFERED,
            )
            server.add_sockets(sockets)
            sweeper = Sweeper(desk, service.metrics, self.sweep_interval, self.keep_days)
            tasks = [asyncio.create_task(sweeper.run()), asyncio.create_task(role.run())]
            if service.groups is not None:
                tasks.append(asyncio.create_task(service.groups.run()))
            try:
                yield url
            finally:
                server.stop()
                for task in tasks:
                    task.cancel()
                await bells.close()
                await server.close_all_connections()

    def _token_source(self) -> TokenSource:
        return HubTokens() if self.under_hub else TokenFile(Path(self.token_file))

    def _group_reader(self, desk: Desk) -> GroupReader | None:
        if not self.under_hub:
            return None
        return GroupReader(HubGroups.from_environment(), desk, self.groups_interval)

    def _announce(self, url: str) -> None:
        self.log.info("the pool controller listens at %s", url)
        if self.url_file:
            temporary = Path(f"{self.url_file}.new")
            temporary.write_text(url)
            temporary.replace(self.url_file)


async def _told_to_stop() -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await stop.wait()


def main(argv: list[str] | None = None) -> None:
    """The entry point of the module and of ``jupyter gpu controller``."""
    PoolController.launch_instance(argv)
