"""What an account has of one GPU class: its quota, and what it must not contradict.

Amounts are thousandths of a GPU; None is "no such limit".
"""

from __future__ import annotations

from dataclasses import dataclass

from gpu_kernels.errors import InvalidRequest
from gpu_kernels.units import thousandths_text

INSTITUTION = "institution"
FACULTY = "faculty"
COURSE = "course"
KINDS = (INSTITUTION, FACULTY, COURSE)
EVERY_CLASS = ""
"""Stands for each class that is not named."""
MOST = 10**9
"""Thousandths in any one quota: a million GPUs."""


@dataclass(frozen=True, slots=True)
class Limits:
    """An account's quota of one GPU class."""

    nominal: int = 0
    borrowing_limit: int | None = None
    lending_limit: int | None = None
    hard_limit: int | None = None

    @property
    def ceiling(self) -> int | None:
        """The most that the account may use."""
        return least(self.hard_limit, plus(self.nominal, self.borrowing_limit))

    @property
    def guaranteed(self) -> int:
        """What of the nominal is never lent."""
        return 0 if self.lending_limit is None else self.nominal - self.lending_limit


NOTHING = Limits(hard_limit=0)
"""A course without a quota of a class has no share of it."""
PASSING = Limits()
"""A faculty without a quota of a class passes on what its parent has."""


def plus(one: int | None, other: int | None) -> int | None:
    """A sum in which "no limit" stays "no limit"."""
    return None if one is None or other is None else one + other


def least(*limits: int | None) -> int | None:
    """The smallest limit that there is."""
    return min((limit for limit in limits if limit is not None), default=None)


def check_limits(account: str, gpu_class: str, limits: Limits, *, root: bool = False) -> None:
    """Refuse a quota that contradicts itself. Raises ``InvalidRequest``."""
    details = {"account": account, "gpu_class": gpu_class}
    named = {
        "nominal": limits.nominal,
        "borrowing limit": limits.borrowing_limit,
        "lending limit": limits.lending_limit,
        "hard limit": limits.hard_limit,
    }
    for name, value in named.items():
        if value is not None and not 0 <= value <= MOST:
            raise InvalidRequest(
                f"The {name} of {account} must be 0 to {MOST // 1000} GPUs, not "
                f"{thousandths_text(value, gpu_class) if value > 0 else value}.",
                details=details,
            )
    nominal = thousandths_text(limits.nominal, gpu_class)
    why = None
    if root and limits.borrowing_limit:
        why = "has nobody to borrow from: it is the institution. Leave its borrowing limit out"
    elif limits.lending_limit is not None and limits.lending_limit > limits.nominal:
        lent = thousandths_text(limits.lending_limit, gpu_class)
        why = f"cannot lend {lent}: its nominal is {nominal}. The lending limit is at most the nominal"
    elif limits.hard_limit is not None and limits.hard_limit < limits.nominal:
        most = thousandths_text(limits.hard_limit, gpu_class)
        why = f"cannot be sure of {nominal} (nominal) and never hold more than {most} (hard limit)"
    if why is not None:
        raise InvalidRequest(f"{account} {why}.", details=details)
