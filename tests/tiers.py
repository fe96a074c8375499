"""The tiers of the suite, by what a test costs, and what keeps them true.

``quick``: the test starts no process (but git, which lists files), speaks on no socket and loads nothing of
the native build. It is refused all three, so that the marker cannot become untrue. ``slow``: it takes more
than ``LONG_S`` seconds on a machine that does nothing else. A time depends on what else runs, so that nothing
fails for it: the end of a run names the tests whose markers look wrong.

Markers stand in the test files, for a whole file as ``pytestmark = pytest.mark.quick``. ``make quick`` is
``-m quick``, ``make test`` is ``-m "not slow"``, ``make full`` is everything.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

LONG_S = 5.0
IDLE_LOAD = 1.5
"""Load average for each processor up to which the times of a run are believed."""
QUICK_FILE_S = 2.0
"""A file that needs nothing a quick test may not have, and less processor time than this, could be quick."""
STARTS = {
    "os.exec",
    "os.fork",
    "os.forkpty",
    "os.posix_spawn",
    "os.spawn",
    "os.system",
    "pty.spawn",
    "subprocess.Popen",
}
SPEAKS = {"socket.bind", "socket.connect", "socket.getaddrinfo", "socket.sendmsg", "socket.sendto"}
ALLOWED_PROGRAM = "git"
NATIVE = ("/remoting/lib/", "/build/")


class NotQuick(Exception):
    """A quick test did what only other tests may do."""


@dataclass
class Watch:
    """What the running test has started, spoken to and loaded; refused where the test is quick."""

    refuses: bool
    others: set[int | None] = field(
        default_factory=lambda: {thread.ident for thread in threading.enumerate()}
    )
    """Threads of earlier tests' fixtures are none of this test's doing."""
    seen: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.others.discard(threading.get_ident())

    def notice(self, event: str, arguments: tuple[Any, ...]) -> None:
        what = costly(event, arguments)
        if what is None or threading.get_ident() in self.others:
            return
        self.seen.append(what)
        if self.refuses:
            raise NotQuick(what)


def costly(event: str, arguments: tuple[Any, ...]) -> str | None:
    """What an audit event means that a quick test may not do, in words; None where it may."""
    if event in STARTS:
        command = arguments[1] if event == "subprocess.Popen" else arguments[:1]
        words = [command] if isinstance(command, (str, bytes, os.PathLike)) else [*command]
        if event == "subprocess.Popen" and os.fsdecode(words[0]) == ALLOWED_PROGRAM:
            return None
        return f"started a process ({event}: {' '.join(map(str, words))[:100]})"
    if event in SPEAKS:
        return f"used a socket ({event}: {arguments[-1]!r})"
    if event == "ctypes.dlopen" and any(part in str(arguments[0]) for part in NATIVE):
        return f"loaded the native build ({arguments[0]})"
    return None


_watch: Watch | None = None


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _watch is not None and (event in STARTS or event in SPEAKS or event == "ctypes.dlopen"):
        _watch.notice(event, arguments)


def watched(item: pytest.Item, *, ends_shared: bool = False) -> Generator[None, Any, Any]:
    """One phase of a test, with its time; a quick test that did what it may not fails, whatever it caught.
    ``ends_shared``: fixtures of the file or the session end in this phase, which other tests asked for.
    """
    global _watch
    watch = _watch = Watch(refuses=item.get_closest_marker("quick") is not None and not ends_shared)
    begun = time.perf_counter()
    try:
        return (yield)
    finally:
        _watch = None
        item.stash[_COST].seconds += time.perf_counter() - begun
        item.stash[_COST].seen += watch.seen
        if watch.refuses and watch.seen:
            pytest.fail(f"A quick test {watch.seen[0]}. Take away its marker `quick`, or what it does there.")


@dataclass
class Cost:
    """What a test took: by the clock without fixtures that it shares, and of this process."""

    seconds: float = 0.0
    processor: float = field(default_factory=time.process_time)
    seen: list[str] = field(default_factory=list)


_COST = pytest.StashKey[Cost]()


class Tiers:
    """The pytest plugin that refuses, watches and tells. Each process of a run has one."""

    def __init__(self, config: pytest.Config) -> None:
        self.only_quick = config.option.markexpr == "quick"
        self.shared = 0
        self.long: dict[str, float] = {}
        self.could_be_quick: dict[str, float] = {}
        self.whole = config.args_source is not pytest.Config.ArgsSource.ARGS and not config.option.keyword
        sys.addaudithook(_audit)

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """``-m quick`` reads no file that does not name the marker: to import them all takes longer than to
        run what is quick.
        """
        if not self.only_quick or not collection_path.name.startswith("test_"):
            return None
        return True if "mark.quick" not in collection_path.read_text(encoding="utf-8") else None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        item.stash[_COST] = Cost()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, Any, Any]:
        return (yield from watched(item))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        return (yield from watched(item))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, Any, Any]:
        """The end of what files and sessions share is not the last test's cost."""
        cost = item.stash[_COST]
        item.user_properties += [
            ("seconds", cost.seconds),
            ("processor", time.process_time() - cost.processor),
            ("alone", not cost.seen),
        ]
        last = nextitem is None or nextitem.path != item.path
        return (yield from watched(item, ends_shared=last))

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Generator[None, Any, Any]:
        """What a fixture of a file or a session takes is not the cost of the first test that asks for it."""
        if fixturedef.scope == "function" or self.shared:
            return (yield)
        begun, self.shared = time.perf_counter(), self.shared + 1
        try:
            return (yield)
        finally:
            self.shared -= 1
            node = request.node
            item = getattr(request, "_pyfuncitem", node)
            item.stash[_COST].seconds -= time.perf_counter() - begun

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "teardown":
            return
        told = dict(report.user_properties)
        if "seconds" not in told:
            return
        seconds, processor = float(str(told["seconds"])), float(str(told["processor"]))
        if seconds > LONG_S and "slow" not in report.keywords:
            self.long[report.nodeid] = seconds
        file = report.nodeid.split("::")[0]
        costs = "quick" in report.keywords or not told["alone"]
        self.could_be_quick[file] = self.could_be_quick.get(file, 0.0) + (
            float("inf") if costs else processor
        )

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Tell which markers look wrong."""
        for line in self.findings(os.getloadavg()[1] / (os.cpu_count() or 1)):
            terminalreporter.write_line(line)

    def findings(self, load: float) -> list[str]:
        """The lines for a run that ended with this load average for each processor."""
        lines = []
        if self.long and load > IDLE_LOAD:
            lines.append(
                f"tiers: {len(self.long)} tests that are not marked slow took longer than {LONG_S:g} s, "
                f"beside other work (load average {load:.1f} for each processor)"
            )
        elif self.long:
            lines.append(f"tiers: these took longer than {LONG_S:g} s, and are not marked slow:")
            lines += [f"  {seconds:5.1f} s  {name}" for name, seconds in sorted(self.long.items())]
        quick = sorted(file for file, seconds in self.could_be_quick.items() if seconds < QUICK_FILE_S)
        if quick and self.whole:
            lines.append("tiers: these files need neither process nor socket, and could be marked quick:")
            lines += [f"  {file}" for file in quick]
        return lines
