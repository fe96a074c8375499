"""What the controller says of itself: how it is, and its API's versions."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from gpu_kernels.resources.base import Resource, one_of


class GroupsHealth(Resource, frozen=True):
    """How it stands with the hub's groups."""

    age: Annotated[float | None, Meta(description="Seconds since they were last carried out; null: not yet")]
    fault: Annotated[
        str | None, Meta(description="Why they cannot be read now; what was read last stays in force")
    ]
    faulty_properties: Annotated[int, Meta(description="Properties that cannot be carried out")]


class Health(Resource, frozen=True):
    """That the ledger can be read; `ledger_mismatch` must be 0."""

    status: str
    version: str
    role: Annotated[str, one_of(("active", "standby"))]
    active: Annotated[
        str | None, Meta(description="On standby: where the active controller is, if that is known")
    ]
    ledger_mismatch: Annotated[int | None, Meta(description="Null on standby")]
    groups: Annotated[GroupsHealth | None, Meta(description="Null without a hub")]


class Version(Resource, frozen=True):
    """A version of the API, and where it is."""

    version: str
    path: str
    document: str


class VersionList(Resource, frozen=True):
    """The versions of the API, oldest first, and the controller's own version."""

    versions: tuple[Version, ...]
    controller: str
