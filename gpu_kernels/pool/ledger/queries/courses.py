"""Which courses there are, and which of them a request is charged to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from gpu_kernels.errors import UnknownCourse
from gpu_kernels.pool.ledger.state.rows import Account
from gpu_kernels.pool.ledger.transaction import Transaction
from gpu_kernels.pool.policy.charging import choose_course
from gpu_kernels.pool.policy.quota import COURSE


def check_course(tx: Transaction, name: str) -> None:
    """Raises ``UnknownCourse`` where no account of this name is a course."""
    account = tx.book.accounts.get(name)
    if account is None or account.kind != COURSE:
        raise UnknownCourse(f"There is no course {name} in the GPU pool.", details={"course": name})


class CourseNames(Collection[str]):
    """The names of the courses among the accounts."""

    def __init__(self, accounts: Mapping[str, Account]) -> None:
        self._accounts = accounts

    def __contains__(self, name: object) -> bool:
        account = self._accounts.get(str(name))
        return account is not None and account.kind == COURSE

    def __iter__(self) -> Iterator[str]:
        return (name for name, account in self._accounts.items() if account.kind == COURSE)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def resolve_course(tx: Transaction, user: str, groups: Collection[str], name: str | None) -> str:
    """The course to charge: the named one, or the only one that the user belongs to.

    Raises ``UnknownCourse``, ``NotAMember``, or ``CourseAmbiguous``.
    """
    return choose_course(user, groups, name, CourseNames(tx.book.accounts), tx.patterns)


def own_courses(tx: Transaction, groups: Iterable[str]) -> list[str]:
    """The courses that a user's groups stand for, with the grading accounts of those that they teach."""
    known, held = CourseNames(tx.book.accounts), list(groups)
    return sorted(name for name in [*tx.patterns.roles(held), *tx.patterns.grades(held)] if name in known)
