"""Rules that the instructors of a course say themselves, on top of those that they find."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gpu_kernels.errors import Forbidden, InvalidRequest
from gpu_kernels.pool.ledger.queries.courses import check_course
from gpu_kernels.pool.ledger.state.rows import TaughtRules
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.vocabulary.rules import favoured, looser, read_rules

LONGEST_RULES = 64 * 1024
"""Bytes of JSON: they are read anew on many changes, and each change of them stands in the audit trail."""
MOST_NAMED_USERS = 5
"""Of those to whom too much would be given, named in a refusal."""


def teach(tx: Transaction, name: str, rules: Mapping[str, Any], *, actor: str) -> None:
    """Replace what a course's instructors say of it, on top of what they find.

    Raises ``UnknownCourse``, ``InvalidRequest``, or ``Forbidden`` with the rules that would allow more.
    """
    check_course(tx, name)
    if (length := len(json.dumps(rules))) > LONGEST_RULES:
        raise InvalidRequest(
            f"The rules of {name} would be {length} bytes long, and may be {LONGEST_RULES}.\n"
            "Take back overrides that are over."
        )
    _check_tighter(tx, name, rules)
    before = tx.book.taught_rules.get(name)
    was = {} if before is None else dict(before.rules)
    if was == dict(rules):
        return
    tx.event(actor, "taught", name, {"from": was, "to": dict(rules)})
    tx.capacity_changed()
    if rules:
        tx.put(TaughtRules(account=name, rules=dict(rules), changed_at=tx.now))
    elif before is not None:
        tx.drop(before)


def _check_tighter(tx: Transaction, name: str, rules: Mapping[str, Any]) -> None:
    """Raises ``Forbidden`` where they would allow more than what stands above, with what would."""
    read, above = read_rules(rules), tx.book.entitlements.rules_given(name)
    too_much = looser(read, above)
    if not too_much:
        return
    users = favoured(read, above)
    named = [rule for rule in too_much if rule != "overrides" or not users]
    if users:
        more = f" and {len(users) - MOST_NAMED_USERS} more" if len(users) > MOST_NAMED_USERS else ""
        named.append(f"the own rules of {', '.join(users[:MOST_NAMED_USERS])}{more}")
    raise Forbidden(
        f"Of {name}, you may only tighten what is in force; these would allow more: {', '.join(named)}.\n"
        "Nothing was changed. Leave them out or make them tighter, or ask the pool's administrator for more.",
        details={"rules": too_much, "users": users},
    )
