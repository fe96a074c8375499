"""What library calls may take to work in: out of one slice, in line, and never more than there is."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.native_build import build_of_make

MIB = 1 << 20
SLICE, BESIDE = 256 * MIB, 32 * MIB
RESERVED, IN_LINE, TOO_LARGE, NONE_LEFT = range(4)
pytestmark = [pytest.mark.native, pytest.mark.timeout(300)]


class Slice:
    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        self.handle = ctypes.c_void_p(library.slice_make(ctypes.c_uint64(SLICE)))

    def left(self) -> int:
        return self.library.slice_left(self.handle)

    def allocate(self, bytes_: int) -> Callable[[], None]:
        """What the program has of it."""
        assert self.library.slice_allocate(self.handle, ctypes.c_uint64(bytes_))
        return lambda: self.library.slice_free(self.handle, ctypes.c_uint64(bytes_))


class Call:
    """One that asks for room, and has it until it ends."""

    def __init__(self, budget: Budget, slice_: Slice, session: int, context: int) -> None:
        self.library = budget.library
        owner = ctypes.c_void_p(session), ctypes.c_void_p(context)
        self.handle = ctypes.c_void_p(self.library.call_make(budget.handle, slice_.handle, *owner))

    def reserve(self, bytes_: int) -> int:
        return self.library.call_reserve(self.handle, ctypes.c_uint64(bytes_))

    def woken(self) -> bool:
        return self.library.call_woken(self.handle) > 0

    def end(self) -> None:
        self.library.call_end(self.handle)


class Budget:
    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        self.handle = ctypes.c_void_p(library.budget_make())
        self.slice = Slice(library)

    def call(
        self, bytes_: int, session: int = 1, slice_: Slice | None = None, context: int = 1
    ) -> tuple[int, Call]:
        call = Call(self, slice_ or self.slice, session, context)
        return call.reserve(bytes_), call

    def waiting(self) -> int:
        return self.library.budget_waiting(self.handle)

    def allocates(self, bytes_: int, session: int) -> bool:
        return bool(
            self.library.budget_allocate_and_wait(
                self.handle, self.slice.handle, ctypes.c_void_p(session), ctypes.c_uint64(bytes_)
            )
        )


@pytest.fixture
def budget() -> Iterator[Budget]:
    library = ctypes.CDLL(str(build_of_make("maths_budget").folder / "tests_libraries/libmaths_budget.so"))
    for made in ("budget_make", "slice_make", "call_make"):
        getattr(library, made).restype = ctypes.c_void_p
    library.slice_left.restype = library.budget_waiting.restype = ctypes.c_uint64
    budget = Budget(library)
    yield budget
    assert (budget.slice.left(), budget.waiting()) == (SLICE, 0)  # all of it came back
    library.budget_end(budget.handle)
    library.slice_end(budget.slice.handle)


def test_what_is_reserved_is_the_slices_until_the_call_ends(budget) -> None:
    answer, call = budget.call(100 * MIB)
    assert (answer, budget.slice.left()) == (RESERVED, SLICE - 100 * MIB)
    call.end()
    assert budget.slice.left() == SLICE


def test_small_calls_go_on_in_a_full_slice(budget) -> None:
    _, all_of_it = budget.call(SLICE)
    answer, small = budget.call(BESIDE)
    assert (answer, budget.slice.left()) == (RESERVED, 0)
    small.end(), all_of_it.end()


def test_what_is_beside_the_slices_is_the_processs_not_each_slices(budget) -> None:
    other = Slice(budget.library)
    full, others_full = budget.slice.allocate(SLICE), other.allocate(SLICE)
    answer, here = budget.call(BESIDE)
    answer_there, there = budget.call(2 * MIB, session=2, slice_=other)
    assert (answer, answer_there) == (RESERVED, IN_LINE)
    here.end()
    assert there.woken()
    assert there.reserve(2 * MIB) == RESERVED
    there.end(), full(), others_full()
    budget.library.slice_end(other.handle)


def test_a_call_that_learns_that_it_takes_more_stands_in_line_without_what_it_had(budget) -> None:
    _, other = budget.call(200 * MIB, session=2)
    answer, call = budget.call(40 * MIB)
    assert (answer, budget.slice.left()) == (RESERVED, SLICE - 240 * MIB)
    assert call.reserve(100 * MIB) == IN_LINE
    assert budget.slice.left() == SLICE - 200 * MIB
    other.end()
    assert call.woken()
    # It begins anew, and goes on with what it was woken for.
    for bytes_ in (40 * MIB, 100 * MIB):
        assert call.reserve(bytes_) == RESERVED
        assert budget.slice.left() == SLICE - 100 * MIB
    call.end()


def test_what_can_never_fit_is_refused_at_once_and_holds_up_nobody(budget) -> None:
    _, first = budget.call(200 * MIB)
    for bytes_ in (SLICE + 1, 2**64 - 1):
        answer, refused = budget.call(bytes_)
        assert answer == TOO_LARGE
        refused.end()
    answer, call = budget.call(50 * MIB)
    assert answer == RESERVED
    call.end(), first.end()


def test_what_nobody_will_give_back_is_not_waited_for(budget) -> None:
    """The program has allocated the rest."""
    free = budget.slice.allocate(SLICE - 40 * MIB)
    answer, refused = budget.call(41 * MIB)
    assert answer == NONE_LEFT
    refused.end()
    answer, call = budget.call(40 * MIB)
    assert answer == RESERVED
    call.end(), free()


def test_small_calls_keep_nobody_waiting_for_the_slice(budget) -> None:
    """What they have is beside the slice, and gives nothing back to it."""
    free = budget.slice.allocate(SLICE - 40 * MIB)
    answer, small = budget.call(1 * MIB)
    assert answer == RESERVED
    answer, refused = budget.call(41 * MIB)
    assert answer == NONE_LEFT
    refused.end(), small.end(), free()


def test_a_call_in_line_is_woken_with_its_room_and_told_what_is_gone(budget) -> None:
    _, first = budget.call(200 * MIB)
    answer, second = budget.call(150 * MIB)
    _, third = budget.call(240 * MIB)
    assert (answer, second.woken(), budget.waiting()) == (IN_LINE, False, 2)
    first.end()
    assert (second.woken(), third.woken(), budget.slice.left()) == (True, False, SLICE - 150 * MIB)
    assert second.reserve(150 * MIB) == RESERVED
    free = budget.slice.allocate(40 * MIB)
    second.end()
    assert third.woken()
    assert third.reserve(240 * MIB) == NONE_LEFT
    third.end(), free()


def test_calls_begin_in_the_order_in_which_they_came(budget) -> None:
    """Each needs more than half: one at a time, and what would fit later does not come before."""
    calls = [budget.call(size * MIB)[1] for size in (200, 150, 140, 50)]
    for call, behind in zip(calls, [*calls[1:], None], strict=True):
        call.end()
        assert behind is None or behind.woken()
        assert not any(later.woken() for later in calls[calls.index(call) + 2 : -1])


def test_a_session_with_many_calls_in_line_is_not_before_one_with_few(budget) -> None:
    _, first = budget.call(200 * MIB, session=1)
    many = [budget.call(150 * MIB, session=1)[1] for _ in range(20)]
    _, other = budget.call(150 * MIB, session=2)
    first.end()
    assert (many[0].woken(), other.woken()) == (True, False)
    many[0].end()
    assert (many[1].woken(), other.woken()) == (False, True)
    for call in (other, *many[1:]):
        call.end()


def test_what_a_session_gets_elsewhere_puts_none_of_its_calls_back(budget) -> None:
    """Its small calls have what is beside the slice, others another slice: its large one keeps its turn."""
    other_slice = Slice(budget.library)
    _, first = budget.call(200 * MIB, session=3)
    _, there = budget.call(200 * MIB, session=3, slice_=other_slice)
    _, large = budget.call(150 * MIB)
    _, others = budget.call(150 * MIB, session=2)
    _, elsewhere = budget.call(150 * MIB, slice_=other_slice)
    there.end()
    assert elsewhere.woken()
    for _ in range(3):
        answer, small = budget.call(MIB)
        assert answer == RESERVED
        small.end()
    first.end()
    assert (large.woken(), others.woken()) == (True, False)
    for call in (elsewhere, large, others):
        call.end()
    budget.library.slice_end(other_slice.handle)


def test_small_calls_overtake_those_that_wait_for_the_slice(budget) -> None:
    _, first = budget.call(200 * MIB)
    _, second = budget.call(150 * MIB)
    answer, small = budget.call(MIB)
    assert (answer, second.woken()) == (RESERVED, False)
    for call in (small, first, second):
        call.end()


def test_a_call_that_leaves_the_line_holds_up_nobody(budget) -> None:
    """Interrupted, or its context has failed."""
    _, first = budget.call(200 * MIB)
    _, second = budget.call(150 * MIB)
    _, third = budget.call(40 * MIB)
    assert budget.waiting() == 2
    second.end()
    assert third.woken()
    assert third.reserve(40 * MIB) == RESERVED
    third.end(), first.end()


def test_an_interrupt_wakes_the_calls_of_its_session_alone(budget) -> None:
    _, first = budget.call(200 * MIB)
    _, second = budget.call(150 * MIB, session=2)
    _, third = budget.call(150 * MIB, session=3)
    budget.library.budget_wake(budget.handle, ctypes.c_void_p(2))
    assert (second.woken(), third.woken(), budget.waiting()) == (True, False, 1)
    for call in (second, third, first):
        call.end()


def test_a_context_that_ends_wakes_its_calls_alone_and_others_keep_their_turn(budget) -> None:
    _, first = budget.call(200 * MIB)
    calls = [budget.call(150 * MIB, session=i, context=context)[1] for i, context in enumerate((2, 3, 2, 3))]
    budget.library.budget_wake_context(budget.handle, ctypes.c_void_p(3))
    assert ([call.woken() for call in calls], budget.waiting()) == ([False, True, False, True], 2)
    first.end()
    assert (calls[0].woken(), calls[2].woken()) == (True, False)
    for call in calls:
        call.end()


def test_an_allocation_waits_for_its_sessions_calls_and_comes_before_their_next(budget) -> None:
    _, first = budget.call(200 * MIB)
    found: list[bool] = []
    waits = threading.Thread(target=lambda: found.append(budget.allocates(100 * MIB, session=1)))
    waits.start()
    while True:  # until it waits, its session's calls have room that fits
        answer, next_ = budget.call(40 * MIB)
        if answer == IN_LINE:
            break
        next_.end()
    first.end()
    waits.join(60)
    assert found == [True]
    assert next_.woken()
    next_.end()
    budget.library.slice_free(budget.slice.handle, ctypes.c_uint64(100 * MIB))


def test_an_allocation_does_not_wait_for_the_calls_of_others(budget) -> None:
    _, first = budget.call(200 * MIB, session=2)
    assert not budget.allocates(100 * MIB, session=1)
    first.end()


def test_no_call_of_many_threads_is_refused_for_what_others_give_back(budget) -> None:
    answers: list[int] = []

    def calls(size: int) -> None:
        for _ in range(25):
            answer, call = budget.call(size, session=size)
            while answer == IN_LINE:
                while not call.woken():
                    time.sleep(0.0002)
                answer = call.reserve(size)
            answers.append(answer)
            call.end()

    threads = [threading.Thread(target=calls, args=((60 + 20 * i) * MIB,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert answers == [RESERVED] * 200
