"""What all shapes share: nothing unknown is let through, everything is bounded, text is printable."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from gpu_kernels.resources.base import BIG, CLASS, PRINTABLE, pattern


class Model(BaseModel):
    """A body, or a part of one. Strict: ``"5"`` is no number and ``1`` is not true."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)
    MOST_BYTES: ClassVar[int] = 128 * 1024
    """Of a body: checking one that is all faults takes the time of every other request."""


class Query(BaseModel):
    """The query of an address: texts that are read as what their fields are; none may come twice."""

    model_config = ConfigDict(strict=False, extra="forbid", frozen=True)


Text255 = Annotated[str, Field(min_length=1, max_length=255, pattern=PRINTABLE)]
Text64 = Annotated[str, Field(min_length=1, max_length=64, pattern=PRINTABLE)]
ServerName = Annotated[
    str, Field(max_length=255, pattern=PRINTABLE, description="Name of the user's Jupyter server")
]
Count = Annotated[int, Field(ge=0, le=BIG)]
Seconds = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
Moment = Annotated[
    str,
    Field(
        pattern=pattern(
            r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}:[0-9]{2})?)?$",
            "must be a date such as 2026-11-21 or an instant such as 2026-11-21T08:00Z",
        ),
        examples=["2026-11-21"],
    ),
]
GpuClass = Annotated[str, Field(pattern=CLASS, examples=["V100"])]
Thousandths = Annotated[int, Field(ge=0, le=100_000_000, description="Thousandths of a GPU")]
CourseName = Annotated[str, Field(min_length=1, max_length=255, pattern=PRINTABLE, examples=["ml101"])]


class LongPoll(Query):
    """How long the answer may be held back until there is news."""

    wait: Seconds = Field(0.0, description="Seconds to wait for a change, 30 at most")


class Paged(Query):
    """A part of a long list. The answer's `next` asks for what follows; so does its `Link` header."""

    limit: int = Field(200, ge=1, le=1000, description="The most to answer at once")
    after: str | None = Field(
        None, max_length=2000, pattern=r"^[A-Za-z0-9_-]+$", description="The last answer's `next`"
    )
