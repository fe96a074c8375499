"""The tables. Times are milliseconds since 1970 by the database's clock; sums of memory are MiB.

What must never be false is a constraint here, so that no code path can make it so: a GPU's use lies between
0 and what it has, a user's key names one living lease, a slot holds one lease in each place.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    UniqueConstraint,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

NAMING = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
}

ROW_ID = BigInteger().with_variant(Integer, "sqlite")


class Base(DeclarativeBase):
    metadata = MetaData(naming_convention=NAMING)
    type_annotation_map = {int: BigInteger, dict[str, Any]: JSON}  # noqa: RUF012 - SQLAlchemy reads it


class Agent(Base):
    """A GPU server. ``epoch`` and ``target_seq`` only ever grow."""

    __tablename__ = "agents"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    owner: Mapped[str] = mapped_column(String(255))
    boot_id: Mapped[str] = mapped_column(String(64))
    address: Mapped[str] = mapped_column(String(255))
    version: Mapped[str] = mapped_column(String(64))
    epoch: Mapped[int] = mapped_column(default=0)
    target_seq: Mapped[int] = mapped_column(default=0)
    reported_seq: Mapped[int] = mapped_column(default=0)
    registered_at: Mapped[int]
    reported_at: Mapped[int]

    __table_args__ = (CheckConstraint("reported_seq <= target_seq", name="reported"),)


class Gpu(Base):
    """A GPU. What its agent says of it is ``offered*``; what slices of it are counted by changes only when
    it may.

    ``allocatable_mib`` is never below what is in use, and ``gpu_class`` stays while anything is in use: a
    GPU of another class than is offered, or that is offered no more, takes no new slices.
    """

    __tablename__ = "gpus"

    id: Mapped[int] = mapped_column(ROW_ID, primary_key=True)
    agent_name: Mapped[str] = mapped_column(ForeignKey("agents.name"))
    uuid: Mapped[str] = mapped_column(String(96))
    index: Mapped[int]
    gpu_class: Mapped[str] = mapped_column(String(32), index=True)
    device: Mapped[str] = mapped_column(String(16))
    name: Mapped[str] = mapped_column(String(128))
    total_mib: Mapped[int]
    offered: Mapped[bool]
    offered_class: Mapped[str] = mapped_column(String(32))
    offered_mib: Mapped[int]
    allocatable_mib: Mapped[int]
    used_mib: Mapped[int] = mapped_column(default=0)
    used_thousandths: Mapped[int] = mapped_column(default=0)

    def adopt_offer(self) -> None:
        """Bring what is counted as close to what is offered as what is in use allows."""
        self.allocatable_mib = max(self.offered_mib, self.used_mib)
        if self.used_mib == 0:
            self.gpu_class = self.offered_class

    @property
    def open(self) -> bool:
        """Whether it takes new slices."""
        return self.offered and self.gpu_class == self.offered_class

    __table_args__ = (
        UniqueConstraint("agent_name", "uuid"),
        CheckConstraint("0 <= used_mib AND used_mib <= allocatable_mib", name="memory"),
        CheckConstraint("0 <= used_thousandths AND used_thousandths <= 1000", name="share"),
        CheckConstraint("0 < offered_mib AND offered_mib <= total_mib", name="offer"),
    )


class Course(Base):
    __tablename__ = "courses"

    name: Mapped[str] = mapped_column(String(255), primary_key=True)
    created_at: Mapped[int]


class CourseLimit(Base):
    """What a course may hold of a GPU class at once."""

    __tablename__ = "course_limits"

    course: Mapped[str] = mapped_column(ForeignKey("courses.name"), primary_key=True)
    gpu_class: Mapped[str] = mapped_column(String(32), primary_key=True)
    thousandths: Mapped[int]

    __table_args__ = (CheckConstraint("thousandths >= 0", name="positive"),)


class Lease(Base):
    """A lease from its request to its end; see ``states`` for ``state`` and ``place``.

    ``live_key`` and ``place`` are NULL once they name nothing any more, which takes the row out of its unique
    constraints. ``end_seq`` is the agent's ``target_seq`` that says the lease is gone. ``turn`` orders the
    queue.
    """

    __tablename__ = "leases"

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    state: Mapped[str] = mapped_column(String(16))
    reason: Mapped[str | None] = mapped_column(String(500))
    user: Mapped[str] = mapped_column(String(255))
    course: Mapped[str] = mapped_column(ForeignKey("courses.name"))
    size: Mapped[str] = mapped_column(String(64))
    key: Mapped[str] = mapped_column(String(512))
    live_key: Mapped[str | None] = mapped_column(String(512))
    body_hash: Mapped[str] = mapped_column(String(64))
    server: Mapped[str] = mapped_column(String(255))
    path: Mapped[str] = mapped_column(String(1024))
    place: Mapped[str | None] = mapped_column(String(16))
    holder: Mapped[str] = mapped_column(String(255))
    labels: Mapped[dict[str, Any]]
    turn: Mapped[int]
    created_at: Mapped[int]
    asked_at: Mapped[int]
    give_up_at: Mapped[int]
    granted_at: Mapped[int | None]
    expires_at: Mapped[int | None]
    replaced_at: Mapped[int | None]
    ended_at: Mapped[int | None]
    agent_name: Mapped[str | None] = mapped_column(ForeignKey("agents.name"))
    epoch: Mapped[int] = mapped_column(default=0)
    end_seq: Mapped[int | None]
    gpu_class: Mapped[str | None] = mapped_column(String(32))
    device: Mapped[str | None] = mapped_column(String(16))
    thousandths: Mapped[int] = mapped_column(default=0)
    used_mib: Mapped[int] = mapped_column(default=0)
    peak_mib: Mapped[int] = mapped_column(default=0)
    sessions: Mapped[int] = mapped_column(default=0)
    launches: Mapped[int] = mapped_column(default=0)

    slices: Mapped[list[LeaseSlice]] = relationship(order_by="LeaseSlice.gpu_id")
    agent: Mapped[Agent | None] = relationship(lazy="joined")

    __table_args__ = (
        UniqueConstraint("user", "live_key"),
        UniqueConstraint("user", "server", "path", "place", name="uq_leases_slot"),
        Index("ix_leases_course_state", "course", "state"),
        Index("ix_leases_agent_state", "agent_name", "state"),
        Index("ix_leases_state_expires", "state", "expires_at"),
        Index("ix_leases_user_replaced", "user", "replaced_at"),
        CheckConstraint("(state IN ('queued', 'reserved', 'active')) = (place IS NOT NULL)", name="place"),
    )


class LeaseSlice(Base):
    """What a lease was given of one GPU."""

    __tablename__ = "lease_slices"

    lease_id: Mapped[str] = mapped_column(ForeignKey("leases.id", ondelete="CASCADE"), primary_key=True)
    gpu_id: Mapped[int] = mapped_column(ForeignKey("gpus.id"), primary_key=True)
    mib: Mapped[int]
    thousandths: Mapped[int]

    gpu: Mapped[Gpu] = relationship(lazy="joined")

    __table_args__ = (
        CheckConstraint("mib > 0", name="memory"),
        CheckConstraint("0 < thousandths AND thousandths <= 1000", name="share"),
    )


class Usage(Base):
    """Accounting: a slice was counted from ``started_at`` to ``ended_at``, which is NULL while it is."""

    __tablename__ = "usage"

    id: Mapped[int] = mapped_column(ROW_ID, primary_key=True)
    lease_id: Mapped[str] = mapped_column(String(40), index=True)
    user: Mapped[str] = mapped_column(String(255))
    course: Mapped[str] = mapped_column(String(255), index=True)
    gpu_class: Mapped[str] = mapped_column(String(32))
    gpu_uuid: Mapped[str] = mapped_column(String(96))
    mib: Mapped[int]
    thousandths: Mapped[int]
    started_at: Mapped[int]
    ended_at: Mapped[int | None] = mapped_column(index=True)


class Event(Base):
    """The audit trail: who changed what, when."""

    __tablename__ = "events"

    id: Mapped[int] = mapped_column(ROW_ID, primary_key=True)
    at: Mapped[int] = mapped_column(index=True)
    actor: Mapped[str] = mapped_column(String(255))
    kind: Mapped[str] = mapped_column(String(32))
    subject: Mapped[str] = mapped_column(String(255), index=True)
    detail: Mapped[dict[str, Any]]
