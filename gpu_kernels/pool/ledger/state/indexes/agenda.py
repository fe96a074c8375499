"""The agenda of a book: its windows and seats as ``policy.agenda`` sees them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpu_kernels.pool.ledger.state.rows import ClassHour, Seat, Window
from gpu_kernels.pool.policy.agenda import Agenda
from gpu_kernels.pool.policy.agenda_model import Bench, Span
from gpu_kernels.units import Slice


@dataclass(frozen=True, slots=True)
class Progress:
    """How far windows are planned for the GPUs that are ``here``: those that start before ``next_start``, all
    of them for None. ``steady``: GPUs that have been the same since all windows were last planned.
    """

    here: tuple[Bench, ...] | None = None
    next_start: int | None = 0
    steady: frozenset[Bench] = frozenset()

    def begun_anew(self, here: tuple[Bench, ...]) -> Progress:
        return Progress(here, 0, self.steady & set(here))

    def gone_on(self, next_start: int | None) -> Progress:
        steady = frozenset(self.here or ()) if next_start is None else self.steady
        return Progress(self.here, next_start, steady)


class BookAgenda(Agenda):
    """Follows a book's windows and seats. A seat counts while it is planned or held; once taken, its lease
    counts instead.

    ``rolled_at`` and ``retried_at`` say when that was last done, ``planned`` for which GPUs the windows are
    planned. A new controller does it all once more.
    """

    def __init__(self, class_hours: Mapping[str, ClassHour]) -> None:
        super().__init__()
        self._class_hours = class_hours
        self.rolled_at = 0
        self.retried_at = 0
        self.planned = Progress()

    def window_changed(self, _: Window | None, after: Window | None, window: str) -> None:
        if after is not None and after.state in ("planned", "open"):
            self.put_window(span_of(after, self._class_hours[after.class_hour]))
        else:
            self.drop_window(window)

    def seat_changed(self, _: Seat | None, after: Seat | None, window: str, number: int) -> None:
        if after is not None and after.state in ("planned", "held"):
            self.put_seat(window, number, after.gpu_id, Slice(after.mib, after.thousandths))
        else:
            self.drop_seat(window, number)


class FollowWindows:
    """A follower of the windows' table."""

    def __init__(self, agenda: BookAgenda) -> None:
        self._agenda = agenda

    def change(self, before: Window | None, after: Window | None) -> None:
        row = after or before
        assert row is not None
        self._agenda.window_changed(before, after, row.id)


class FollowSeats:
    """A follower of the seats' table."""

    def __init__(self, agenda: BookAgenda) -> None:
        self._agenda = agenda

    def change(self, before: Seat | None, after: Seat | None) -> None:
        row = after or before
        assert row is not None
        self._agenda.seat_changed(before, after, row.window, row.number)


def span_of(window: Window, class_hour: ClassHour) -> Span:
    return Span(
        window.id,
        window.course,
        window.starts_at,
        window.ends_at,
        window.lead_at,
        (class_hour.created_at, window.id),
    )
