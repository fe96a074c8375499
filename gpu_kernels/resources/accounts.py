"""Accounts of the quota tree: their quotas, their rules, and what the hub's groups say of them."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from gpu_kernels.resources.base import Instant, Resource, Thousandths, one_of

KINDS = ("institution", "faculty", "course")


class Standing(Resource, frozen=True, kw_only=True):
    """How an account stands with one GPU class."""

    own: Annotated[
        bool, Meta(description="Whether it has a quota of its own; otherwise it is what comes from above")
    ]
    nominal: Thousandths
    borrowing_limit: Thousandths | None
    lending_limit: Thousandths | None
    hard_limit: Thousandths | None
    guaranteed: Annotated[Thousandths, Meta(description="What others cannot use, also while it is idle")]
    most: Annotated[
        Thousandths | None,
        Meta(description="The most that it may hold now; null: whatever is above it"),
    ]
    use: Thousandths
    borrowed: Annotated[Thousandths, Meta(description="What it uses beyond its nominal")]
    room: Annotated[
        int | None,
        Meta(
            description="What a course may take now, negative where it holds more than it may; null for "
            "others"
        ),
    ]
    notes: Annotated[tuple[str, ...], Meta(description="What of it cannot be kept as it stands")]


class Said(Resource, frozen=True):
    """A property of a group of the hub."""

    group: str
    name: str
    value: Annotated[str | None, Meta(description="What is in force; null where there never was a good text")]
    fault: Annotated[str | None, Meta(description="Why the newest text is not")]
    faulty_value: str | None


class WithoutEffect(Resource, frozen=True):
    """What a course's instructors have said that does not count now."""

    rules: Annotated[tuple[str, ...], Meta(description="Rules, by name")]
    users: Annotated[tuple[str, ...], Meta(description="Users, whose overrides do not")]


class Account(Resource, frozen=True, kw_only=True):
    """An account, what it says itself, what is in force for it, and how it stands."""

    name: str
    kind: Annotated[str, one_of(KINDS)]
    path: Annotated[tuple[str, ...], Meta(description="From the institution to the account")]
    weight: float
    rules: Annotated[dict[str, Any], Meta(description="Its own")]
    taught_rules: Annotated[
        dict[str, Any], Meta(description="Of a course, what its instructors say on top of them")
    ]
    taught_without_effect: Annotated[
        WithoutEffect,
        Meta(description="What of that does not count, since what stands above is tighter"),
    ] = WithoutEffect((), ())
    rules_in_force: dict[str, Any]
    classes: dict[str, Standing]
    properties: tuple[Said, ...]


class AccountList(Resource, frozen=True):
    """Accounts, those above before those below."""

    accounts: tuple[Account, ...]


class Spent(Resource, frozen=True):
    """How far a budget is spent, in GPU-hours."""

    rule: Annotated[str, Meta(examples=["hours_per_week"])]
    whose: Annotated[str, one_of(("course", "user"))]
    spent: float
    most: float
    until: Annotated[Instant | None, Meta(description="When it has something again, or the week ends")]


class QuotaOf(Resource, frozen=True):
    """A quota as it was put."""

    account: str
    gpu_class: str
    nominal: Thousandths
    borrowing_limit: Thousandths | None
    lending_limit: Thousandths | None
    hard_limit: Thousandths | None


class Removed(Resource, frozen=True):
    """That an account is gone."""

    removed: str


class GroupsRead(Resource, frozen=True):
    """That the hub's groups were read, and how many of their properties cannot be carried out."""

    faulty: int
