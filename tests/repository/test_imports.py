"""The import picture: within a package its modules and sub-packages import each other one way.

Imports within functions count, and so do those for typing alone. What runs because Python runs the packages
around a module first does not.
"""

from __future__ import annotations

import ast
import runpy
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.repository.test_repository import ROOT, tracked_files

pytestmark = pytest.mark.quick

LINKED = ("hub_config", "kernelspecs", "remoting", "spawner")
"""Folders that are packages of ``gpu_kernels`` by a link there (docs/design/packages.md)."""
CIRCLES_FOR_TYPING = {
    (
        "gpu_kernels.client",
        "aio, api, async_reservation, connection, reservation, threads",
    ): "a call's type says which client it is a method of",
    ("gpu_kernels.provisioner", "attachment, snapshot"): "an attachment keeps what was last seen of its use",
}
PURE = {"gpu_kernels.errors", "gpu_kernels.units"}

LEDGER = ("state", "stores", "transaction", "queries", "commands", "ledger")
"""Its rooms, each above those that it may import; see docs/design/pool.md."""

Imports = Mapping[tuple[str, str], bool]
"""Who imports whom, and whether for typing alone."""


def modules() -> dict[str, str]:
    """The sources of the project's modules by name; a package stands for its ``__init__``."""
    paths = [path.relative_to(ROOT) for path in tracked_files() if path.suffix == ".py"]
    inside = [path for path in paths if path.parts[0] in ("gpu_kernels", *LINKED)]
    return {name_of(path): (ROOT / path).read_text() for path in inside}


def name_of(path: Path) -> str:
    """By which name the file is imported."""
    package = ("gpu_kernels",) if path.parts[0] in LINKED else ()
    return ".".join((*package, *path.with_suffix("").parts)).removesuffix(".__init__")


def imported(node: ast.AST, known: Mapping[str, object], typing: bool = False) -> Iterator[tuple[str, bool]]:
    if isinstance(node, ast.ImportFrom):
        assert not node.level, "the project imports by full names"
        for alias in node.names:
            name = f"{node.module}.{alias.name}"
            yield (name if name in known else str(node.module)), typing
    elif isinstance(node, ast.Import):
        yield from ((alias.name, typing) for alias in node.names)
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        for child in node.body:
            yield from imported(child, known, True)
        return
    for child in ast.iter_child_nodes(node):
        yield from imported(child, known, typing)


@cache
def picture() -> Imports:
    known, found = modules(), dict[tuple[str, str], bool]()
    for module, source in known.items():
        for other, typing in imported(ast.parse(source), known):
            if other in known and other != module:
                found[module, other] = typing and found.get((module, other), True)
    return found


def part(module: str, package: str) -> str | None:
    """Which part of the package the module is in."""
    if package and module == package:
        return "__init__"
    inside = module if not package else module.removeprefix(f"{package}.")
    return inside.partition(".")[0] if not package or inside != module else None


def parts_of(package: str, imports: Imports) -> dict[str, set[str]]:
    """Which parts of a package import which; of the package "" all top-level ones."""
    found: dict[str, set[str]] = defaultdict(set)
    for pair in imports:
        one, other = (part(module, package) for module in pair)
        if one is not None and other is not None and one != other:
            found[one].add(other)
    return found


def circles(parts: Mapping[str, set[str]]) -> set[str]:
    """The largest sets of parts that reach one another, each as a line."""

    def reached(start: str) -> set[str]:
        seen, left = set[str](), [start]
        while left:
            new = parts.get(left.pop(), set()) - seen
            seen |= new
            left += new
        return seen

    reach = {one: reached(one) for one in parts}
    return {
        ", ".join(sorted(other for other in reach[one] if one in reach.get(other, ())))
        for one in parts
        if one in reach[one]
    }


def all_circles(imports: Imports) -> set[tuple[str, str]]:
    names = {name for pair in imports for name in pair}
    packages = {"", *(name.rpartition(".")[0] for name in names)}
    return {(package, circle) for package in packages for circle in circles(parts_of(package, imports))}


def test_the_parts_of_a_package_import_each_other_one_way():
    at_run_time = {pair: typing for pair, typing in picture().items() if not typing}
    assert all_circles(at_run_time) == set()


def test_imports_for_typing_close_no_circle_but_those_listed():
    """Who has cut one takes it off the list; nobody adds one."""
    assert all_circles(picture()) == CIRCLES_FOR_TYPING.keys()


def test_the_rooms_of_the_ledger_import_those_below_them_alone():
    found = parts_of("gpu_kernels.pool.ledger", picture())
    del found["__init__"]
    allowed = {room: set(LEDGER[:number]) for number, room in enumerate(LEDGER)}
    allowed["ledger"].add("clock_guard")
    assert {room: others - allowed[room] for room, others in found.items() if others - allowed[room]} == {}


def test_queries_of_the_ledger_change_nothing():
    changing = {"put", "change", "drop", "event", "when_committed", "lease_changed", "capacity_changed"}
    found = {
        f"{module}: {node.attr}"
        for module, source in modules().items()
        if module.startswith("gpu_kernels.pool.ledger.queries.")
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute) and node.attr in changing and ast.unparse(node.value) == "tx"
    }
    assert found == set()


def test_the_packages_beside_gpu_kernels_are_linked_into_it_and_have_no_other_name():
    links = {path.name: path.readlink() for path in (ROOT / "gpu_kernels").iterdir() if path.is_symlink()}
    assert links == {name: Path("..", name) for name in LINKED}
    for name in LINKED:
        with pytest.raises(ImportError, match=f"imported as gpu_kernels.{name}"):
            runpy.run_path(str(ROOT / name / "__init__.py"), run_name=name)


def test_policy_imports_nothing_of_the_controller():
    outside = {
        other
        for module, other in picture()
        if module.startswith("gpu_kernels.pool.policy.") and not other.startswith("gpu_kernels.pool.policy")
    }
    assert {name for name in outside if not name.startswith("gpu_kernels.vocabulary.")} == PURE


def test_the_shared_vocabulary_imports_next_to_nothing():
    package = "gpu_kernels.vocabulary."
    assert {other for one, other in picture() if one.startswith(package)} - PURE == {
        other for one, other in picture() if one.startswith(package) and other.startswith(package)
    }


def test_nobody_imports_the_controller_but_itself():
    inside = "gpu_kernels.pool"
    assert {
        (one, other)
        for one, other in picture()
        if f"{other}.".startswith(f"{inside}.") and not f"{one}.".startswith(f"{inside}.")
    } == set()


@pytest.mark.parametrize(
    ("imports", "found"),
    [
        ({("p.a", "p.b"): False, ("p.b", "p.c"): False}, set()),
        ({("p.a", "p.b"): False, ("p.b", "p.a"): True}, {("p", "a, b")}),
        ({("p.a.x", "p.b"): False, ("p.b", "p.a.y"): False}, {("p", "a, b")}),
        ({("p.a.x", "q.b"): False, ("q.b", "p.c"): False}, {("", "p, q")}),
    ],
)
def test_a_circle_is_found(imports: Imports, found: set[tuple[str, str]]):
    assert all_circles(imports) == found
