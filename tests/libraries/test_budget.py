"""What calls at the CPU end may take to work in: out of one slice, in line, and never more than there is."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.native_build import build_of_make

MIB = 1 << 20
SLICE, BESIDE = 256 * MIB, 32 * MIB
RESERVED, STOPPED, TOO_LARGE, NONE_LEFT = range(4)
pytestmark = [pytest.mark.native, pytest.mark.timeout(300)]


class Budget:
    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        self.budget = ctypes.c_void_p(library.budget_of(ctypes.c_uint64(SLICE)))

    def reserve(self, bytes_: int, stop: ctypes.c_int | None = None) -> tuple[int, Callable[[], None]]:
        room = ctypes.c_void_p(self.library.budget_room())
        stop = ctypes.c_int() if stop is None else stop
        answer = self.library.budget_reserve(self.budget, ctypes.c_uint64(bytes_), ctypes.byref(stop), room)
        return answer, lambda: self.library.budget_give_back(room)

    def left(self) -> int:
        return self.library.budget_left(self.budget)

    def wait_for(self, waiting: int) -> None:
        end = time.monotonic() + 60
        while self.library.budget_waiting(self.budget) != waiting:
            assert time.monotonic() < end
            time.sleep(0.002)


class Call(threading.Thread):
    """One that reserves, and keeps what it got until it is told to end."""

    def __init__(self, budget: Budget, bytes_: int, began: list[Call] | None = None) -> None:
        super().__init__()
        self.budget, self.bytes, self.began = budget, bytes_, [] if began is None else began
        self.stop, self.ends, self.answer = ctypes.c_int(), threading.Event(), -1
        self.start()

    def run(self) -> None:
        self.answer, give_back = self.budget.reserve(self.bytes, self.stop)
        self.began.append(self)
        self.ends.wait(60)
        give_back()

    def end(self) -> None:
        self.ends.set()
        self.join(60)
        assert not self.is_alive()


@pytest.fixture
def budget() -> Iterator[Budget]:
    library = ctypes.CDLL(str(build_of_make("maths_budget").folder / "tests_libraries/libmaths_budget.so"))
    library.budget_of.restype = library.budget_room.restype = ctypes.c_void_p
    library.budget_left.restype = library.budget_waiting.restype = ctypes.c_uint64
    made = Budget(library)
    yield made
    assert made.left() == SLICE  # all of it came back
    library.budget_end(made.budget)


def test_what_is_reserved_is_the_slices_until_it_is_given_back(budget) -> None:
    answer, give_back = budget.reserve(100 * MIB)
    assert (answer, budget.left()) == (RESERVED, SLICE - 100 * MIB)
    give_back()
    assert budget.left() == SLICE


def test_small_calls_go_on_in_a_full_slice(budget) -> None:
    _, give_back_all = budget.reserve(SLICE)
    answer, give_back = budget.reserve(BESIDE)
    assert (answer, budget.left()) == (RESERVED, 0)
    give_back(), give_back_all()


def test_what_can_never_fit_is_refused_at_once_and_holds_up_nobody(budget) -> None:
    _, give_back_first = budget.reserve(200 * MIB)
    assert budget.reserve(SLICE + 1)[0] == TOO_LARGE
    assert budget.reserve(2**64 - 1)[0] == TOO_LARGE
    answer, give_back = budget.reserve(50 * MIB)
    assert answer == RESERVED
    give_back(), give_back_first()


def test_what_nobody_will_give_back_is_not_waited_for(budget) -> None:
    """The program has allocated the rest."""
    allocated = ctypes.c_uint64(SLICE - 40 * MIB)
    assert budget.library.budget_allocate(budget.budget, allocated)
    assert budget.reserve(41 * MIB)[0] == NONE_LEFT
    answer, give_back = budget.reserve(40 * MIB)
    assert answer == RESERVED
    give_back()
    budget.library.budget_free(budget.budget, allocated)


def test_small_calls_keep_nobody_waiting_for_the_slice(budget) -> None:
    """What they have is beside the slice, and gives nothing back to it."""
    allocated = ctypes.c_uint64(SLICE - 40 * MIB)
    assert budget.library.budget_allocate(budget.budget, allocated)
    answer, give_back = budget.reserve(1 * MIB)
    assert answer == RESERVED
    call = Call(budget, 41 * MIB)
    call.ends.set()
    call.join(60)
    assert call.answer == NONE_LEFT
    give_back()
    budget.library.budget_free(budget.budget, allocated)


def test_calls_begin_in_the_order_in_which_they_came(budget) -> None:
    """Each needs more than half: one at a time."""
    began: list[Call] = []
    calls = [Call(budget, 200 * MIB, began)]
    while not began:
        time.sleep(0.002)
    for waiting, bytes_ in enumerate([150 * MIB, 140 * MIB], 1):
        calls.append(Call(budget, bytes_, began))
        budget.wait_for(waiting)
    assert began == calls[:1]
    calls[0].end()
    budget.wait_for(1)
    while len(began) < 2:
        time.sleep(0.002)
    assert began == calls[:2]
    for call in calls[1:]:
        call.end()
    assert began == calls
    assert {call.answer for call in calls} == {RESERVED}


def test_small_calls_overtake_those_that_wait_for_the_slice(budget) -> None:
    first = Call(budget, 200 * MIB)
    while first.answer != RESERVED:
        time.sleep(0.002)
    second = Call(budget, 150 * MIB)
    budget.wait_for(1)
    answer, give_back = budget.reserve(MIB)
    assert (answer, second.answer) == (RESERVED, -1)
    give_back()
    for call in (first, second):
        call.end()


def test_a_call_that_waits_can_be_interrupted_and_those_behind_it_go_on(budget) -> None:
    first = Call(budget, 200 * MIB)
    while first.answer != RESERVED:
        time.sleep(0.002)
    second = Call(budget, 150 * MIB)
    budget.wait_for(1)
    third = Call(budget, 40 * MIB)
    budget.wait_for(2)
    second.stop.value = 1
    budget.wait_for(0)
    while third.answer == -1 or second.answer == -1:
        time.sleep(0.002)
    assert (second.answer, third.answer) == (STOPPED, RESERVED)
    for call in (first, second, third):
        call.end()


def test_no_call_of_many_threads_is_refused_for_what_others_give_back(budget) -> None:
    answers: list[int] = []

    def call(size: int) -> None:
        for _ in range(50):
            answer, give_back = budget.reserve(size)
            answers.append(answer)
            give_back()

    threads = [threading.Thread(target=call, args=((60 + 20 * i) * MIB,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert answers == [RESERVED] * 400
