"""Courses: what each may hold at once, and whose course a request is charged to."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gpu_kernels.errors import UnknownCourse
from gpu_kernels.pool.ledger.rows import Account, Quota
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.policy import refusals

INSTRUCTORS = "-instructors"


def resolve_course(tx: Transaction, user: str, groups: Collection[str], name: str | None) -> str:
    """The course to charge: the named one, or the only one that the user belongs to.

    Raises ``UnknownCourse``, ``NotAMember``, or ``CourseAmbiguous``.
    """
    own = own_courses(tx, groups)
    if name is None:
        if len(own) != 1:
            raise refusals.course_ambiguous(user, own)
        return own[0]
    if name in own:
        return name
    if name not in tx.book.accounts:
        raise refusals.unknown_course(name, own)
    raise refusals.not_a_member(user, name, own)


def own_courses(tx: Transaction, groups: Collection[str]) -> list[str]:
    """The courses among a user's groups; an instructor's group counts as its course."""
    names = set(groups) | {g.removesuffix(INSTRUCTORS) for g in groups if g.endswith(INSTRUCTORS)}
    return sorted(name for name in names if name in tx.book.accounts)


def set_limit(tx: Transaction, name: str, limit: Mapping[str, int], *, actor: str, create: bool) -> None:
    """Replace what the course may hold: thousandths by GPU class. Leases in force are not touched.

    Raises ``UnknownCourse`` for a course that does not exist unless ``create``.
    """
    if name not in tx.book.accounts:
        if not create:
            raise UnknownCourse(f"There is no course {name} in the GPU pool.", details={"course": name})
        tx.put(Account(name=name, kind="course", created_at=tx.now))
    rows = dict(tx.book.quotas_of.of(name))
    for gpu_class in rows.keys() - limit.keys():
        tx.drop(rows[gpu_class])
    for gpu_class, thousandths in limit.items():
        tx.put(Quota(account=name, gpu_class=gpu_class, hard_limit=thousandths))
    before = {gpu_class: row.hard_limit for gpu_class, row in rows.items()}
    tx.event(actor, "limit", name, {"from": before, "to": dict(limit)})
    tx.capacity_changed()


def add_first_courses(tx: Transaction, courses: Mapping[str, Mapping[str, int]]) -> None:
    """Create the configured courses in a ledger that has none; later their limits belong to their
    instructors.
    """
    if not tx.book.accounts:
        for name, limit in courses.items():
            set_limit(tx, name, limit, actor="configuration", create=True)
