"""What can be configured of the pool controller, checked, and in the words of its parts."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from traitlets import Bool, Dict, Enum, Float, Int, List, TraitError, Unicode, Union, default, validate
from traitlets.config import Application

from gpu_kernels.errors import InvalidSize
from gpu_kernels.limits.front import Times
from gpu_kernels.pool.ledger import Caps, Timing
from gpu_kernels.pool.ledger.clock_guard import PART_OF_TTL
from gpu_kernels.pool.ledger.state.site_policy import SitePolicy
from gpu_kernels.pool.policy.addresses import PRIVATE, Addresses
from gpu_kernels.pool.policy.fairness import Policy
from gpu_kernels.pool.policy.placement import POLICIES, Catalogue
from gpu_kernels.pool.policy.scene import Patience, Settings
from gpu_kernels.pool.service.base import MAX_LONG_POLL
from gpu_kernels.units import ANY_CLASS, parse_size, valid_class
from gpu_kernels.vocabulary.roles import Patterns

LONGEST = 1e9
SHORTEST_TTL = 0.5
"""Below this, a moment in which the machine is busy would end everybody's leases."""


class PoolSettings(Application):
    """The settings of ``PoolController``, which they are written as: ``c.PoolController.lease_ttl = 60``."""

    config_file = Unicode("", help="Configuration file to load, Python or JSON.").tag(config=True)
    address = Unicode("127.0.0.1", help="Address to listen on. Under a hub, the service's URL says it.").tag(
        config=True
    )
    port = Int(
        8250, help="Port to listen on, 0 for any free one. Under a hub, the service's URL says it."
    ).tag(config=True)
    prefix = Unicode("/", help="URL prefix. Under a hub, the service's prefix.").tag(config=True)
    state_dir = Unicode(
        "gpu-pool", help="Folder (mode 0700) of the ledger and the key that lease secrets are made with."
    ).tag(config=True)
    database_url = Unicode(
        help="SQLAlchemy URL of the ledger, SQLite or PostgreSQL; by default ledger.sqlite in state_dir. "
        "SQLite must not be on a network file system."
    ).tag(config=True)
    token_file = Unicode(
        help="Without a hub: the JSON file (mode 0600) of tokens; by default tokens.json in state_dir."
    ).tag(config=True)
    url_file = Unicode(
        "", help="Where to write the controller's URL once it listens; for tests and scripts."
    ).tag(config=True)

    courses = Dict(
        help="""Courses of a new ledger: {"ml101": {"V100": {"thousandths": 100}}}.

        Read at the first start only: from then on limits belong to the instructors, who change them through
        the API.
        """
    ).tag(config=True)
    course_groups = Union(
        [Unicode(), List()],
        default_value="plain",
        help="""What the names of the hub's groups mean.

        A preset (plain, nbgrader, lti, canvas, e2x), or a list of presets and of pairs of a regular
        expression with (?P<course>...) and a role, student or instructor.
        """,
    ).tag(config=True)
    groups_interval = Float(
        30.0, help="Seconds between two looks at the properties of the hub's groups."
    ).tag(config=True)
    time_zone = Unicode(
        "UTC", help="The institution's time zone, such as Europe/Berlin: its weeks are those of budgets."
    ).tag(config=True)
    sizes = Dict(
        help="""Sizes on offer, in GPUs, by GPU class; "" stands for every other class.""",
        value_trait=List(Unicode()),
        default_value={"": ["0.02", "0.1", "1"]},
    ).tag(config=True)

    public_url = Unicode(
        "",
        help="""Where clients find this controller, for a controller on standby to tell them.

        By default the address that it listens at.
        """,
    ).tag(config=True)
    term_ttl = Float(
        10.0,
        help="""Seconds without a sign of the active controller after which one on standby takes over.

        The same for all controllers of a ledger.
        """,
    ).tag(config=True)
    other_key = Bool(
        False,
        help="""Take over from a controller whose key of the lease secrets is another one, and lost.

        For one start. The leases in force cannot be used any more.
        """,
    ).tag(config=True)
    lease_ttl = Float(60.0, help="Seconds that a lease lives after its last renewal, at least 0.5.").tag(
        config=True
    )
    agent_ttl = Float(30.0, help="Seconds of silence after which nothing new is placed on a GPU server.").tag(
        config=True
    )
    agent_networks = List(
        Unicode(),
        default_value=list(PRIVATE),
        help="""Where GPU servers may be: networks, names as announced, folders of Unix sockets.

        Such as 10.1.0.0/16, gpu1.example.org, .gpus.example.org, unix:///run/gpu-kernels. By default loopback
        and private networks. Link-local and multicast addresses and those of clouds' metadata are refused
        always, as are ports below 1024. Names are not resolved: list what agents announce. Unix sockets are
        for agents and kernels on one machine. Narrower is safer: clients bring their leases' secrets there.
        """,
    ).tag(config=True)
    queue_ttl = Float(
        45.0, help="Seconds after which a queued request ends whose owner stopped asking; more than 30."
    ).tag(config=True)
    swap_rest = Float(
        600.0,
        help="""Seconds in which a user may overlap two leases of one notebook once.

        Longer: a second change of kernel in that time ends the old kernel's lease at once. Shorter: more room
        to hold two slices for the price of one, see docs/design/pool.md.
        """,
    ).tag(config=True)
    longest_life = Float(
        43_200.0,
        help="""Seconds after which a lease ends, however it is renewed; a course's rules may say less.

        What is promised to who waits, and what fits before a class hour, is reckoned by it.
        """,
    ).tag(config=True)
    max_wait = Float(600.0, help="The longest time in seconds that a request may stand in the queue.").tag(
        config=True
    )
    half_life = Float(
        86_400.0,
        min=60.0,
        help="""Seconds after which use counts half in the order of those who wait.

        A day suits teaching, a week research.
        """,
    ).tag(config=True)
    entry_charge = Int(
        60, min=1, help="Seconds of its size that a grant is charged at once in the order of those who wait."
    ).tag(config=True)
    patience = Float(
        60.0, help="Seconds of waiting after which the first of a GPU class may no longer be overtaken."
    ).tag(config=True)
    longest_wait = Float(
        86_400.0,
        help="Seconds of waiting after which a request goes before those whose courses have used less.",
    ).tag(config=True)
    placement = Dict(
        help="""Where slices go, by GPU class: "fgd", "best_fit" or "spread".

        "" stands for every other class. By default "fgd".
        """,
        value_trait=Enum(POLICIES),
        key_trait=Unicode(),
    ).tag(config=True)
    preemptible_classes = List(
        Unicode(),
        help="""GPU classes on which a lease may be granted that makes way for a class hour, without that its
        user has agreed.
        """,
    ).tag(config=True)
    max_leases = Int(100, min=1, help="Living leases of one user at once.").tag(config=True)
    max_queued = Int(20, min=1, help="Requests of one user in the queue at once.").tag(config=True)
    max_queue = Int(1000, min=1, help="Requests in the queue at once.").tag(config=True)
    max_requests = Float(
        120.0, min=1.0, help="Leases that one user may ask for in a minute; also the most at once."
    ).tag(config=True)
    max_reads = Float(
        120.0,
        min=1.0,
        help="Sums, plots, tables and pages of the history (usage, audit, ended leases, state) that one user "
        "may ask for in a minute; also the most at once.",
    ).tag(config=True)
    sweep_interval = Float(
        help="""Seconds between two looks for leases that are over, at most a quarter of lease_ttl.

        By default 1, or a quarter of lease_ttl where that is less.
        """
    ).tag(config=True)
    token_cache = Float(
        15.0,
        help="Seconds for which the hub's word on a token is believed; it delays revocation by as much.",
    ).tag(config=True)
    hub_outage = Float(
        3600.0,
        min=0.0,
        help="""Seconds for which the hub's last word on a token counts while the hub does not answer.

        Kernels keep their slices for as long; less than lease_ttl, and they lose them when the hub is
        started again. A token that is revoked meanwhile goes on too.
        """,
    ).tag(config=True)
    unknown_tokens = Float(
        1200.0,
        min=1.0,
        help="""Wrong tokens of one address in a minute about which the hub is asked, also the most at once.

        Of all addresses together, twice as many. Beyond, tokens that are not known yet are refused (429).
        Known ones never wait for this. Behind a proxy all come from one address.
        """,
    ).tag(config=True)
    header_time = Float(
        20.0, help="Seconds that a connection has for a request's header, until it is known whose it is."
    ).tag(config=True)
    body_time = Float(20.0, help="Seconds that a request has for its body.").tag(config=True)
    idle_time = Float(75.0, help="Seconds that a connection may be idle once it is known whose it is.").tag(
        config=True
    )
    answer_time = Float(
        30.0, help="Seconds in which an answer, or each part of a stream, must be taken by its reader."
    ).tag(config=True)
    connections_of_a_user = Int(
        192,
        min=1,
        help="""Connections of one user at once; beyond, idle ones are ended, then new ones refused (429).

        How many there may be in all follows from the hard limit of file descriptors (ulimit -Hn).
        """,
    ).tag(config=True)
    keep_days = Float(
        90.0,
        help="Days for which ended leases and the audit trail (5 million rows at most) are kept; accounts "
        "are kept for good.",
    ).tag(config=True)

    metrics_without_token = Bool(
        help="""Whether programs on the controller's own machine read /metrics and /health without a token.

        By default only without a hub: a hub's users may have their servers on this machine, and all of them
        would read how much each course uses.
        """
    ).tag(config=True)
    check_answers = Bool(
        False, help="Compare each answer with its schema, for tests; one that differs is a fault (500)."
    ).tag(config=True)

    @default("log_level")
    def _default_log_level(self) -> int:
        return 20

    @property
    def under_hub(self) -> bool:
        """Whether a hub runs this process as its service."""
        return bool(os.environ.get("JUPYTERHUB_SERVICE_NAME"))

    @default("metrics_without_token")
    def _default_metrics_without_token(self) -> bool:
        return not self.under_hub

    @default("sweep_interval")
    def _default_sweep_interval(self) -> float:
        return min(1.0, self.lease_ttl / PART_OF_TTL)

    @default("database_url")
    def _default_database_url(self) -> str:
        return f"sqlite:///{Path(self.state_dir).resolve() / 'ledger.sqlite'}"

    @default("token_file")
    def _default_token_file(self) -> str:
        return str(Path(self.state_dir) / "tokens.json")

    @validate(
        "term_ttl",
        "lease_ttl",
        "agent_ttl",
        "queue_ttl",
        "swap_rest",
        "longest_life",
        "sweep_interval",
        "max_wait",
        "keep_days",
        "groups_interval",
        "header_time",
        "body_time",
        "idle_time",
        "answer_time",
        "patience",
        "longest_wait",
    )
    def _positive(self, proposal: Any) -> float:
        if not 0 < proposal["value"] < LONGEST:
            name = proposal["trait"].name
            raise TraitError(f"PoolController.{name} must be more than 0 and less than {LONGEST:g}")
        return float(proposal["value"])

    @validate("course_groups")
    def _checked_course_groups(self, proposal: Any) -> Any:
        try:
            Patterns.of(proposal["value"])
        except ValueError as error:
            raise TraitError(f"PoolController.course_groups: {error}") from None
        return proposal["value"]

    @validate("agent_networks")
    def _checked_agent_networks(self, proposal: Any) -> Any:
        try:
            Addresses.of(proposal["value"])
        except ValueError as error:
            raise TraitError(f"PoolController.agent_networks: {error}") from None
        return proposal["value"]

    @validate("time_zone")
    def _checked_time_zone(self, proposal: Any) -> str:
        try:
            ZoneInfo(proposal["value"])
        except (ValueError, OSError, KeyError) as error:
            raise TraitError(f"PoolController.time_zone: {error}") from None
        return str(proposal["value"])

    @validate("courses")
    def _checked_courses(self, proposal: Any) -> Any:
        for course, limit in proposal["value"].items():
            for gpu_class, value in limit.items():
                if not valid_class(gpu_class) or not isinstance(value.get("thousandths"), int):
                    raise TraitError(
                        f"PoolController.courses[{course!r}][{gpu_class!r}] must be "
                        f'{{"thousandths": <integer>}} for a GPU class, not {value!r}'
                    )
        return proposal["value"]

    @validate("sizes")
    def _checked_sizes(self, proposal: Any) -> Any:
        for gpu_class, numbers in proposal["value"].items():
            for number in numbers:
                try:
                    parse_size(f"{number} {gpu_class or 'GPU'}")
                except InvalidSize as error:
                    raise TraitError(f"PoolController.sizes: {error.message}") from None
        return proposal["value"]

    def check_times(self) -> None:
        """Refuse times that do not go together. Raises ``ValueError`` with what to change."""
        if self.lease_ttl < SHORTEST_TTL:
            raise ValueError(f"lease_ttl is {self.lease_ttl:g} s; it must be at least {SHORTEST_TTL:g} s")
        longest = self.lease_ttl / PART_OF_TTL
        if self.sweep_interval > longest:
            raise ValueError(
                f"sweep_interval ({self.sweep_interval:g} s) must be at most a quarter of lease_ttl "
                f"({self.lease_ttl:g} s), which is {longest:g} s; leave it out to have it chosen"
            )
        if self.queue_ttl <= MAX_LONG_POLL:
            raise ValueError(
                f"queue_ttl ({self.queue_ttl:g} s) must be more than {MAX_LONG_POLL:g} s: a waiting client "
                "may ask as seldom as that"
            )

    def times(self) -> Times:
        return Times(self.header_time, self.body_time, self.idle_time, self.answer_time)

    def caps(self) -> Caps:
        return Caps(self.max_leases, self.max_queued, self.max_queue)

    def timing(self) -> Timing:
        return Timing(
            longest_life=int(self.longest_life * 1000),
            lease_ttl=int(self.lease_ttl * 1000),
            agent_ttl=int(self.agent_ttl * 1000),
            queue_ttl=int(self.queue_ttl * 1000),
            swap_rest=int(self.swap_rest * 1000),
        )

    def holder(self) -> str:
        """What the term row calls this controller, for whoever reads it."""
        return f"{socket.gethostname()}:{Path(self.state_dir).resolve()}:{os.getpid()}"

    def site(self) -> SitePolicy:
        """How this pool decides."""
        sizes = [
            f"{number} {name or ANY_CLASS}" for name, offered in self.sizes.items() for number in offered
        ]
        settings = Settings(
            patience=Patience(int(self.patience * 1000), int(self.longest_wait * 1000)),
            fairness=Policy(int(self.half_life * 1000), self.entry_charge),
            placement=self.placement,
            catalogue=Catalogue.on_offer(sizes),
            preemptible=frozenset(self.preemptible_classes),
        )
        return SitePolicy(Patterns.of(self.course_groups), ZoneInfo(self.time_zone), settings)

    def first_courses(self) -> dict[str, dict[str, int]]:
        return {
            name: {gpu_class: value["thousandths"] for gpu_class, value in limit.items()}
            for name, limit in self.courses.items()
        }
