"""Class hours under everything at once: people, clocks, servers and controllers that come and go.

``School.check`` runs after every transaction: seats and leases fit each GPU at every instant, and a book
loaded anew says the same. The rest of what is promised is looked at after each sweep.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gpu_kernels.errors import ClassHourFull, InvalidRequest, PoolError, Refused, TooMany
from gpu_kernels.pool.ledger.state.rows import ClassHour, Lease
from gpu_kernels.pool.ledger.state.states import IN_FORCE, Place
from gpu_kernels.pool.policy.agenda_model import FOREVER
from tests.pool.school import HOUR, MINUTE, TIMING, School

SIZES = ("0.1 V100", "0.1 GPU", "0.25 V100", "1000 MiB", "0.5 V100", "1 V100")
COURSES = ("ml101", "cv202", "open")


class ClassHours(RuleBasedStateMachine):
    @initialize(gpus=st.integers(1, 2), limit=st.sampled_from([0, 1000]))
    def begin(self, gpus: int, limit: int) -> None:
        self.school = School("2027-03-27 08:00", limit)  # clocks go forward in the night after
        self.servers = ["gpu1", "gpu2"]
        for name in self.servers:
            self.school.server(name, gpus)
        for course in COURSES:
            self.school.may_book(course, 100_000)
        self.told: dict[str, int] = {}
        self.school.class_hour(weekdays="1234567", first_date="2027-03-27", last_date="2027-03-30")

    @property
    def book(self) -> Any:
        return self.school.ledger.book

    def class_hours(self) -> list[ClassHour]:
        rows = (row for row in self.book.class_hours.values() if row.cancelled_at is None)
        return sorted(rows, key=lambda row: (row.created_at, row.id))

    def in_force(self) -> list[Lease]:
        leases = (lease for lease in self.book.leases.values() if lease.state in IN_FORCE)
        return sorted(leases, key=lambda lease: (lease.agent_name, lease.epoch))

    @rule(
        course=st.sampled_from(COURSES),
        size=st.sampled_from(SIZES),
        seats=st.integers(1, 12),
        start=st.sampled_from(["02:30", "08:30", "09:00", "10:00", "14:00"]),
        minutes=st.sampled_from([30, 90, 240, 1440]),
        lead=st.integers(0, 60),
        late=st.integers(1, 60),
    )
    def reserve_a_class_hour(self, start: str, **fields: Any) -> None:
        fields["lead_minutes"], fields["late_minutes"] = fields.pop("lead"), fields.pop("late")
        try:
            self.school.class_hour(
                start=start, weekdays="1234567", first_date="2027-03-27", last_date="2027-03-30", **fields
            )
        except ClassHourFull as refused:
            self.refused_rightly(refused, start, fields)
        except (TooMany, InvalidRequest):
            pass  # fifty already, or all of them would be over

    def refused_rightly(self, refused: ClassHourFull, start: str, fields: dict[str, Any]) -> None:
        """What would fit, as it was told, does fit; and so does it at the other times."""
        assert 0 <= refused.details["fits"] < fields["seats"]
        with suppress(TooMany):
            self._what_fits(refused, start, fields)

    def _what_fits(self, refused: ClassHourFull, start: str, fields: dict[str, Any]) -> None:
        others = [start] if refused.details["fits"] else []
        for time in [*others, *refused.details["starts"]]:
            seats = refused.details["fits"] if time == start else fields["seats"]
            made = self.school.class_hour(
                weekdays="1234567",
                first_date="2027-03-27",
                last_date="2027-03-30",
                start=time,
                **{**fields, "seats": seats},
            )
            self.school.cancel(made)

    @precondition(lambda self: self.class_hours())
    @rule(data=st.data(), seats=st.integers(1, 12))
    def change_one(self, data: st.DataObject, seats: int) -> None:
        one = data.draw(st.sampled_from(self.class_hours()))
        fields: dict[str, Any] = {"seats": seats}
        if data.draw(st.booleans()):
            fields["except_dates"] = ("2027-03-28",)
        try:
            self.school.change(one, **fields)
        except PoolError:
            assert self.book.class_hours[one.id] == one

    @precondition(lambda self: self.class_hours())
    @rule(data=st.data())
    def cancel_one(self, data: st.DataObject) -> None:
        self.school.cancel(data.draw(st.sampled_from(self.class_hours())))

    @rule(
        student=st.integers(1, 8),
        course=st.sampled_from(COURSES),
        size=st.sampled_from(SIZES),
        notebook=st.sampled_from("ab"),
        wait=st.sampled_from([0, 3600]),
        preemptible=st.booleans(),
    )
    def ask(self, student: int, course: str, size: str, notebook: str, wait: int, preemptible: bool) -> None:
        with suppress(Refused):
            self.school.ask(
                f"student{student}", size, course=course, path=notebook, wait=wait, preemptible=preemptible
            )

    @rule(
        guest=st.integers(1, 3), size=st.sampled_from(["1 V100", "0.5 V100"]), notebook=st.sampled_from("abc")
    )
    def fill_the_pool(self, guest: int, size: str, notebook: str) -> None:
        with suppress(Refused):
            self.school.ask(f"guest{guest}", size, course="open", path=notebook, preemptible=True)

    @precondition(lambda self: any(True for _ in self.book.agenda.in_lead(self.school.now)))
    @rule(data=st.data(), student=st.integers(1, 12), notebook=st.sampled_from("ab"), wait=st.booleans())
    def come_to_class(self, data: st.DataObject, student: int, notebook: str, wait: bool) -> None:
        on = sorted(self.book.agenda.in_lead(self.school.now), key=lambda span: span.rank)
        span = data.draw(st.sampled_from(on))
        size = str(self.book.class_hours[self.book.windows[span.id].class_hour].size)
        user = f"student{student}"
        sure = span.starts_at <= self.school.now and self.sure_of_a_seat(user, span.id)
        try:
            lease = self.school.ask(user, size, course=span.course, path=notebook, wait=3600 * wait)
        except Refused:
            assert not sure
        else:
            assert lease.window is not None or not sure

    def sure_of_a_seat(self, user: str, window: str) -> bool:
        """Whether the user has no lease at all, and a seat is clear on a server that answers."""
        if self.book.living.of(user):
            return False
        for seat in self.school.seats(self.book.windows[window], "held"):
            gpu = self.book.gpus[seat.gpu_id]
            agent = self.book.agents[gpu.agent_name]
            clear = gpu.used_mib + seat.mib <= gpu.offered_mib
            clear = clear and gpu.used_thousandths + seat.thousandths <= 1000
            if clear and agent.reported_at > self.school.now - TIMING.agent_ttl:
                return True
        return False

    @precondition(lambda self: self.in_force())
    @rule(data=st.data(), lingers=st.booleans())
    def release(self, data: st.DataObject, lingers: bool) -> None:
        lease = data.draw(st.sampled_from(self.in_force()))
        if lingers:
            self.school.holding_on.add(lease.id)
        self.school.release(lease)

    @rule()
    def what_lingered_stops(self) -> None:
        self.school.holding_on.clear()

    @rule(minutes=st.integers(0, 150))
    def time_passes(self, minutes: int) -> None:
        self.school.now += minutes * MINUTE
        self.sweep()

    @rule()
    def to_the_next_edge(self) -> None:
        """A lead, a start, a late time, or an end comes."""
        edges = [
            edge
            for window in self.book.windows.values()
            for edge in (window.lead_at, window.starts_at, window.late_at, window.ends_at)
            if edge > self.school.now
        ]
        if edges and min(edges) < self.school.now + 60 * HOUR:
            self.school.now = min(edges)
            self.sweep()

    @rule(server=st.sampled_from([0, 1]))
    def lose_or_return_a_server(self, server: int) -> None:
        name = self.servers[server]
        (self.school.return_ if name in self.school.silent else self.school.lose)(name)

    @rule(hours=st.integers(0, 5))
    def another_controller_starts(self, hours: int) -> None:
        self.school.now += hours * HOUR
        self.school.start()
        self.sweep()

    def sweep(self) -> None:
        self.school.sweep()
        self.windows_are_as_the_clock_says()
        for lease in self.in_force():
            if lease.preempt_at is not None:
                assert lease.preempt_at > self.school.now, "told, and neither gone nor told a later time"

    def windows_are_as_the_clock_says(self) -> None:
        for window in self.book.windows.values():
            if window.state == "planned":
                assert window.starts_at > self.school.now
            elif window.state == "open":
                assert window.starts_at <= self.school.now < window.ends_at
            else:
                assert not self.school.seats(window)
            if window.late_at <= self.school.now:
                for seat in self.school.seats(window, "held"):
                    assert seat.lease_id is not None  # somebody was there, and may come back

    @invariant()
    def nobody_is_told_an_earlier_time(self) -> None:
        if not hasattr(self, "school"):
            return
        for lease in self.in_force():
            leaves = min(lease.preempt_at or FOREVER, lease.ends_at or FOREVER)
            assert leaves >= self.told.get(lease.id, 0)
            self.told[lease.id] = leaves

    @invariant()
    def a_student_has_one_seat_of_a_class(self) -> None:
        if not hasattr(self, "school"):
            return
        seats: dict[tuple[str, str], list[Lease]] = {}
        for lease in self.in_force():
            if lease.window is not None and lease.place == Place.CURRENT:
                seats.setdefault((lease.user, lease.window), []).append(lease)
        assert all(len(leases) == 1 for leases in seats.values())

    @invariant()
    def taken_seats_are_their_leases(self) -> None:
        if not hasattr(self, "school"):
            return
        taken = {seat.lease_id: seat for seat in self.book.seats.values() if seat.state == "taken"}
        for lease in self.in_force():
            if lease.window is None:
                assert lease.id not in taken
                continue
            seat = taken[lease.id]
            [part] = self.book.parts(lease)
            assert (seat.window, seat.gpu_id) == (lease.window, part.gpu_id)
            assert (seat.mib, seat.thousandths) == (part.mib, part.thousandths)

    @invariant()
    def every_seat_is_counted(self) -> None:
        if not hasattr(self, "school"):
            return
        for window in self.book.windows.values():
            if window.state != "planned" or window.lead_at <= self.school.now:
                continue
            wanted = self.book.class_hours[window.class_hour].seats
            assert len(self.school.seats(window)) + window.short == wanted


ClassHours.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestClassHours = ClassHours.TestCase
