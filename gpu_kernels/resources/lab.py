"""Kernels' slices as the Jupyter server tells its pages, below ``/gpu-lab/api`` (docs/design/lab.md).

JupyterLab's extension has the same types in TypeScript: ``typescript.py`` makes them of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta

from gpu_kernels.resources.base import Resource

State = Literal["attached", "waiting", "released", "refused"]
EndsWhy = Literal["class", "longest life"]
Change = Literal["attach", "wait", "keep", "release"]
"""What a page may ask for; the slice as it then stands is the answer."""


class Place(Resource, frozen=True):
    """How a request stands in the line."""

    size: str
    position: Annotated[int | None, Meta(description="Counts from 1; null where nobody knows")]
    starts_in: Annotated[
        float | None,
        Meta(description="Seconds until it is granted by what is known now; null where nobody knows"),
    ]
    since: Annotated[float, Meta(description="Seconds that it has waited for")]
    text: Annotated[str, Meta(description="For the user as it stands, in a line")]


class KernelSlice(Resource, frozen=True, kw_only=True):
    """How a kernel's slice stands."""

    id: Annotated[str, Meta(description="The kernel's")]
    changes: Annotated[int, Meta(description="How often it had changed: answers may overtake each other")]
    state: State
    size: str
    device: str | None
    course: str
    lease: str | None
    used_mib: int | None
    total_mib: int | None
    utilisation: Annotated[float | None, Meta(description="Percent")]
    ends_in: Annotated[float | None, Meta(description="Seconds until it ends, however it is renewed")]
    ends_why: EndsWhy | None
    position: int | None
    starts_in: float | None
    wanted: Annotated[Place | None, Meta(description="The place in the line, also for another size")]
    declined: Annotated[str | None, Meta(description="Another size was refused, in these words")]
    lost: Annotated[bool, Meta(description="The last slice was taken back, rather than given back")]
    text: Annotated[str, Meta(description="For the user as it stands: a few lines of plain text")]
    sizes: Annotated[tuple[str, ...], Meta(description="Those on offer")]


class KernelSlices(Resource, frozen=True):
    """Those of all kernels of ours."""

    kernels: tuple[KernelSlice, ...]


class Budget(Resource, frozen=True):
    """How far a budget is spent, in GPU-hours."""

    name: str
    spent: float
    most: float
    until: Annotated[str, Meta(description="For the text: when it has something again")]
    part: Annotated[float, Meta(description="The part that is spent, from 0 to 1")]
    text: Annotated[str, Meta(description="For the user as it stands, in a line")]


class CourseOffer(Resource, frozen=True):
    """What the server's course offers, and how far its and the user's budgets are spent."""

    course: str | None
    sizes: tuple[str, ...]
    budgets: tuple[Budget, ...]


class KernelIds(Resource, frozen=True):
    """The kernels that there are when a stream begins."""

    ids: tuple[str, ...]


class Gone(Resource, frozen=True):
    """A kernel that has ended."""

    id: str


class Failure(Resource, frozen=True):
    """Why something was not done."""

    message: Annotated[str, Meta(description="For the user as it stands: a few lines of plain text")]
    code: str


KernelEvent = KernelIds | KernelSlice | Gone
EVENTS: Mapping[type[KernelEvent], str] = {KernelIds: "kernels", KernelSlice: "slice", Gone: "gone"}
"""The names of what a stream tells."""
