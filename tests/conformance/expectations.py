"""The list of what is known to differ, and the comparison of a run with it.

A list is TOML: the version of the suite that it was made for, and entries of an outcome, a reason and the
tests that share both. What no entry names must pass. An outcome such as ``skipped or passed`` is for what
depends on the machine; the reason says on what.
"""

from __future__ import annotations

import json
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from .runner import Result

OUTCOMES = ("failed", "died", "hung", "refused", "skipped", "xfailed")
PASSED = "passed"


@dataclass(frozen=True)
class Expected:
    """How a test ends that does not pass, and why."""

    outcome: str
    reason: str

    @property
    def outcomes(self) -> list[str]:
        return self.outcome.split(" or ")


@dataclass(frozen=True)
class Expectations:
    """A list. ``version`` is the suite's that it was made for."""

    version: str
    tests: Mapping[str, Expected]

    def of_file(self, file: str) -> Expectations:
        """What the list says of one file's tests."""
        names = {name: test for name, test in self.tests.items() if name.split("::")[0] == file}
        return Expectations(self.version, names)

    def differences(self, results: Iterable[Result], *, whole: bool) -> list[str]:
        """A line for each test that does otherwise than the list says; ``whole``: nothing was left out."""
        results, lines = list(results), []
        for result in results:
            expected = self.tests.get(result.name)
            listed = expected.outcome if expected else PASSED
            if result.outcome in listed.split(" or "):
                continue
            because = "" if result.outcome == PASSED else f": {last_line(result.reason)}"
            lines.append(f"{result.name}: {result.outcome}, and the list says {listed}{because}")
        if whole:
            missing = self.tests.keys() - {result.name for result in results}
            lines += [f"{name}: on the list, and the suite has no such test" for name in sorted(missing)]
        return lines


def read(path: Path) -> Expectations:
    """Raises ``ValueError`` for a list with an entry that gives no reason, or names a test twice."""
    if not path.exists():
        return Expectations("", {})
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    tests: dict[str, Expected] = {}
    for entry in content["entry"]:
        expected = Expected(entry["outcome"], entry["reason"].strip())
        known = expected.outcome != PASSED and set(expected.outcomes) <= {*OUTCOMES, PASSED}
        if not known or not expected.reason:
            raise ValueError(f"{path.name}: an entry has no reason, or no known outcome: {entry['tests']}")
        for name in entry["tests"]:
            if name in tests:
                raise ValueError(f"{path.name}: {name} is named twice")
            tests[name] = expected
    return Expectations(content["version"], tests)


def write(path: Path, version: str, results: Iterable[Result], known: Expectations, *, whole: bool) -> None:
    """Writes the list that ``results`` agree with; where they are not of the ``whole`` suite, the rest of
    ``known`` stays. A reason that ``known`` has stays too; for other tests, what they said is written, and
    a person has to say it better.
    """
    results = list(results)
    groups: dict[Expected, list[str]] = defaultdict(list)
    for name in known.tests.keys() - {result.name for result in results}:
        if not whole:
            groups[known.tests[name]].append(name)
    for result in results:
        entry = known.tests.get(result.name)
        if entry is None or result.outcome not in entry.outcomes:
            if result.outcome == PASSED:
                continue
            entry = Expected(result.outcome, last_line(result.reason) or result.outcome)
        groups[entry].append(result.name)
    lines = [f"version = {json.dumps(version)}"]
    for entry, names in sorted(
        groups.items(), key=lambda group: (OUTCOMES.index(group[0].outcomes[0]), group[1])
    ):
        lines += ["", "[[entry]]", f"outcome = {json.dumps(entry.outcome)}"]
        lines += [f"reason = {json.dumps(entry.reason, ensure_ascii=False)}", "tests = ["]
        lines += [f"  {json.dumps(name)}," for name in sorted(names)] + ["]"]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def last_line(text: str) -> str:
    """What a long report ends with, for a line of text."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line.removeprefix("E").strip() for line in lines if line.startswith("E  ")]
    return (errors or lines or [""])[-1][:300]
