"""``jupyter gpu account``: the quota tree; for its admins and for instructors: changing it."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from gpu_kernels.cli.tables import json_text, table
from gpu_kernels.client import PoolClient
from gpu_kernels.errors import Forbidden, InvalidRequest, UnknownAccount
from gpu_kernels.exits import Exit
from gpu_kernels.resources.accounts import Account, Standing
from gpu_kernels.units import thousandths_text
from gpu_kernels.vocabulary.limits import COURSE, Limits
from gpu_kernels.vocabulary.properties import PREFIX, PROPERTIES, BadProperty, Wanted, read, wanted

COLUMNS = ("account", "is", "in use", "sure of", "may use", "room")
EPILOG = """\
examples:
  jupyter gpu account
  jupyter gpu account science --set kind=faculty --set "nominal=2 V100" --set "longest_life=12 h"
  jupyter gpu account ml101 --set parent=science --set "limit=0.5 V100" --set max_leases=2
  jupyter gpu account ml101 --unset max_leases

The names and texts are those of the gpu_* properties of groups in the hub's admin panel, without 'gpu_'. What
a property sets is changed there.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = "Shows accounts of the quota tree, and changes one."
    parser.epilog = EPILOG
    parser.add_argument("name", metavar="ACCOUNT", nargs="?", help="a course, a faculty, the institution")
    parser.add_argument(
        "--set", metavar="NAME=TEXT", action="append", default=[], help="set a property; repeat for more"
    )
    parser.add_argument(
        "--unset",
        metavar="NAME",
        action="append",
        default=[],
        help="remove a property; repeat for more",
    )
    parser.add_argument("--remove", action="store_true", help="remove the account, once nothing needs it")
    parser.add_argument("--json", action="store_true", help="for programs: JSON on standard output")


def execute(options: argparse.Namespace) -> int:
    with PoolClient.from_environment() as client:
        if options.name is None:
            if options.set or options.unset or options.remove:
                raise InvalidRequest("Name the account that is to be changed.")
            found = client.accounts()
        elif options.remove:
            client.remove_account(options.name)
            return Exit.OK
        else:
            if options.set or options.unset:
                _change(client, options.name, options.set, options.unset)
            found = [client.account(options.name)]
    if options.json:
        print(json_text(found if options.name is None else found[0]))
        return Exit.OK
    print(table(COLUMNS, _rows(found)))
    for account in found:
        for line in _lines(account):
            print(line)
    return Exit.OK


def _change(client: PoolClient, name: str, texts: Sequence[str], unset: Sequence[str]) -> None:
    classes = {each.gpu_class for each in client.pool().classes}
    said = wanted(dict(_canonical(text, classes) for text in texts))
    gone = [_known(f"{PREFIX}{word}") for word in unset]
    try:
        there: Account | None = client.account(name)
    except UnknownAccount:
        there = None
    _change_account(client, name, there, said, gone)
    _change_quotas(client, name, there, said, [PROPERTIES[word].quota for word in gone])


def _change_account(
    client: PoolClient, name: str, there: Account | None, said: Wanted, gone: Sequence[str]
) -> None:
    before = there.rules if there is not None else {}
    dropped = {PROPERTIES[word].rule for word in gone}
    rules = {key: value for key, value in before.items() if key not in dropped} | dict(said.rules)
    placed = said.parent is not None or said.weight is not None or {"gpu_parent", "gpu_weight"} & set(gone)
    if there is None or placed:
        path = [] if there is None else there.path[:-1]
        parent = said.parent or (path[-1] if path and "gpu_parent" not in gone else None)
        weight = said.weight or (1.0 if there is None or "gpu_weight" in gone else there.weight)
        kind = said.kind if there is None else there.kind
        client.put_account(name, kind=kind, parent=parent, weight=weight, rules=rules)
    elif rules != before:
        _set_rules(client, there, rules, dropped, said)


def _set_rules(
    client: PoolClient,
    there: Account,
    rules: Mapping[str, Any],
    dropped: Collection[str | None],
    said: Wanted,
) -> None:
    """What an admin says; of who may not, what instructors say on top of that."""
    name = there.name
    try:
        client.set_rules(name, rules)
    except Forbidden:
        if there.kind != COURSE:
            raise
        kept = {key: value for key, value in there.taught_rules.items() if key not in dropped}
        client.set_course_rules(name, kept | dict(said.rules))


def _change_quotas(
    client: PoolClient, name: str, there: Account | None, said: Wanted, gone: Sequence[str | None]
) -> None:
    stands = {} if there is None else {c: s for c, s in there.classes.items() if s.own}
    fields = [field for field in gone if field is not None]
    for gpu_class in sorted(said.limits.keys() | (stands.keys() if fields else set())):
        before = amounts_of(stands[gpu_class]) if gpu_class in stands else {}
        cleared = {field: getattr(Limits(), field) for field in fields}
        limits = Limits(**{**before, **cleared, **said.limits.get(gpu_class, {})})
        if limits == Limits() and not said.limits.get(gpu_class):
            client.remove_quota(name, gpu_class)
        else:
            client.set_quota(name, gpu_class, **amounts_of(limits))


def amounts_of(stands: Standing | Limits) -> dict[str, int | None]:
    return {key: getattr(stands, key) for key in Limits.__slots__}


def _canonical(text: str, classes: set[str]) -> tuple[str, str]:
    word, equals, value = text.partition("=")
    name = _known(f"{PREFIX}{word.strip()}")
    if not equals:
        raise InvalidRequest(f"{text!r} has no value: write {word}={PROPERTIES[name].example}.")
    try:
        return name, read(name, value, classes)
    except BadProperty as error:
        raise InvalidRequest(str(error).replace(PREFIX, "")) from None


def _known(name: str) -> str:
    if name in PROPERTIES and (counterpart := PROPERTIES[name].grading) is not None:
        raise InvalidRequest(
            f"{name.removeprefix(PREFIX)} is a property of a course's group in the hub. Here, set it on the "
            f"account COURSE-grading: {counterpart.removeprefix(PREFIX)}={PROPERTIES[name].example}"
        )
    if name not in PROPERTIES:
        try:
            read(name, "", ())
        except BadProperty as error:
            raise InvalidRequest(str(error).replace(PREFIX, "")) from None
    return name


def _rows(accounts: Iterable[Account]) -> Iterator[Sequence[str]]:
    for account in sorted(accounts, key=lambda account: account.path):
        indented = "  " * (len(account.path) - 1) + account.name
        cells = [_cells(gpu_class, stands) for gpu_class, stands in sorted(account.classes.items())]
        for number, row in enumerate(cells or [("", "", "", "")]):
            yield (indented, account.kind, *row) if number == 0 else ("", "", *row)


def _cells(gpu_class: str, stands: Standing) -> tuple[str, str, str, str]:
    def text(thousandths: int | None) -> str:
        if thousandths is None:
            return ""
        sign = "-" if thousandths < 0 else ""
        return sign + thousandths_text(abs(thousandths), gpu_class)

    return text(stands.use), text(stands.nominal), text(stands.most), text(stands.room)


def _lines(account: Account) -> Iterator[str]:
    """What does not fit into the table: rules, notes, and properties that cannot be carried out."""
    said = {**account.rules, **account.taught_rules}
    inherited = {k: v for k, v in account.rules_in_force.items() if said.get(k) != v}
    for title, rules in (
        ("own rules", account.rules),
        ("its instructors' rules", account.taught_rules),
        ("from above", inherited),
    ):
        if rules:
            yield f"  {account.name}: {title}: " + ", ".join(f"{k} {_rule(k, v)}" for k, v in rules.items())
    for stands in account.classes.values():
        yield from (f"  note: {note}" for note in stands.notes)
    for property_ in account.properties:
        if property_.fault is not None:
            yield f"  fault: group {property_.group}: {property_.fault}"


def _rule(name: str, value: Any) -> str:
    if name == "overrides":
        return f"for {', '.join(sorted(value)) or 'nobody'}"
    return PROPERTIES[f"{PREFIX}{name}"].write(value)
