"""Signals that come in the middle of CUDA's calls: every call goes on, and what it gives is right."""

from __future__ import annotations

import pytest

from .conftest import Way

# Each round copies in, computes, copies out and waits, for longer than many signals are apart. The handler's
# count shows that they came; SA_RESTART (siginterrupt) or not, a call must not see them.
ROUNDS = """
heard = [0]
def handler(*_):
    heard[0] += 1
signal.signal(SIGNAL, handler)
signal.siginterrupt(SIGNAL, INTERRUPTS)
signal.setitimer(TIMER, 0.001, 0.001)
c = Cuda()
words = 1 << 20
memory = c.allocate(4 * words)
bump = c.kernel(c.library_of(TEXT), "bump")
data = bytes(range(256)) * (words // 64)
wrong = 0
for round in range(1, 1000):
    c.copy_in(memory, data)
    c.launch(bump, [U64(memory), UINT(words)], words // 256, 256)
    c.synchronize()
    back = memoryview(c.copy_out(memory, 4 * words)).cast("I")
    before = memoryview(data).cast("I")
    wrong += any(back[i] != before[i] + 1 for i in range(0, words, 997))
    if round >= 5 and heard[0] >= 20:
        break
signal.setitimer(TIMER, 0)
say(wrong, heard[0] >= 20)
"""


@pytest.mark.parametrize("interrupts", [False, True])
@pytest.mark.parametrize(("name", "timer"), [("SIGALRM", "ITIMER_REAL"), ("SIGPROF", "ITIMER_PROF")])
def test_a_timer_of_a_thousand_signals_a_second_changes_no_result(
    way: Way, name: str, timer: str, interrupts: bool
) -> None:
    program = ROUNDS.replace("SIGNAL", f"signal.{name}").replace("TIMER", f"signal.{timer}")
    ended = way.check(program.replace("INTERRUPTS", str(interrupts)))
    assert (ended.out, ended.told) == ("0 True\n", [])


def test_threads_of_the_runtime_take_no_signals_of_the_program(way: Way) -> None:
    """Blocked in all of the program's threads, a signal stays pending, whatever threads the runtime has."""
    ended = way.check("""
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        c = Cuda()
        memory = c.allocate(40)
        bump = c.kernel(c.library_of(TEXT), "bump")
        for _ in range(200):
            c.launch(bump, [U64(memory), UINT(10)], block=32)
        c.synchronize()
        os.kill(os.getpid(), signal.SIGUSR1)
        say(signal.SIGUSR1 in signal.sigpending())
    """)
    assert ended.out == "True\n"
