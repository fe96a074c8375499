"""Two processes while a command runs, both of them little more than an interpreter.

    jupyter gpu run (forwards signals, has the exit status)
      └── keeper (holds the lease; all orphans of the command are its children)
            └── COMMAND

What is sent to the first is sent on to the command; but not what a terminal sends, which goes to the whole
foreground group, and so has reached the command already. The keeper renews the lease, tells when it is taken
back, and gives it back when the command has ended. It hears of the first one's death, however that came, and
ends the command with all that it has started. The command is told of the keeper's death by the kernel alone.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import time

from gpu_kernels.renewals import Renewals
from gpu_kernels.runner.asking import Call, release, released, renewal
from gpu_kernels.runner.given import Given
from gpu_kernels.runner.signals import signal

FORWARDED = {
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
}
ENDING = {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM}
BEREFT = signal.SIGRTMIN
"""What the kernel sends the keeper when the process above it has died."""
HEARD = FORWARDED | {signal.SIGCHLD, BEREFT}
SENT_BY_KERNEL = 0x80  # siginfo's SI_KERNEL
PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
NOT_EXECUTABLE, NOT_FOUND = 126, 127
ENDS_WITHIN_S = 10.0
"""How long what was killed may take to be gone."""


def main(descriptor: int) -> int:
    """Entered with the signals in ``HEARD`` blocked. Returns the command's exit status, 128+n if it died by
    signal n."""
    signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # who ignores it hears of no end
    refused = _told_to_end()
    given = Given.read(descriptor)
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl(PR_SET_DUMPABLE, 0)  # the command shall not read the token in our memory; its exec undoes it there
    above = os.getpid()
    gc.collect()
    gc.freeze()  # what both have stays one in memory
    try:
        keeper = os.fork()
    except OSError as error:
        return Keeper(given, above, prctl).not_started(error)
    if keeper == 0:
        prctl(PR_SET_PDEATHSIG, BEREFT)
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        os._exit(Keeper(given, above, prctl).keep(refused))
    return _forward(keeper)


def _told_to_end() -> int | None:
    """A signal that came before there was a command to send it to: there will be none."""
    for number in signal.sigpending() & ENDING:
        signal.sigwait({number})
        if signal.getsignal(number) != signal.SIG_IGN:
            return int(number)
    return None


def _forward(keeper: int) -> int:
    while True:
        received = signal.sigwaitinfo(FORWARDED | {signal.SIGCHLD})
        if received.si_signo == signal.SIGCHLD:
            pid, status = os.waitpid(keeper, os.WNOHANG)
            if pid:
                if os.WIFSIGNALED(status):
                    _say("what held the slice was killed, and the command with it")
                return _exit_status(status)
        elif received.si_code != SENT_BY_KERNEL:
            os.kill(keeper, received.si_signo)


class Keeper:
    def __init__(self, given: Given, above: int, prctl: ctypes._NamedFuncPointer) -> None:
        self._given, self._above, self._prctl = given, above, prctl
        self._renewals = Renewals(given.trusted_until, given.due)
        self._call: Call | None = None
        self._began = 0.0
        self._lost = self._outage = False
        self._command = 0

    def keep(self, refused: int | None) -> int:
        """Run the command, unless a signal refuses it, and hold the lease until its end; the exit status."""
        status = self._run() if refused is None else 128 + refused
        self._give_back()
        return status

    def not_started(self, error: OSError) -> int:
        """There can be no process to hold the lease: give it back, and tell of it as a shell does."""
        _say(f"{self._given.command[0]}: {error.strerror}")
        self._give_back()
        return NOT_EXECUTABLE

    def _run(self) -> int:
        try:
            self._command = self._start()
        except OSError as error:
            _say(f"{self._given.command[0]}: {error.strerror}")
            return NOT_EXECUTABLE
        while True:
            if os.getppid() != self._above:
                return self._end_all()
            received = signal.sigtimedwait(HEARD, self._pause())
            if received is None:
                self._renew()
            elif received.si_signo == signal.SIGCHLD:
                if (status := self._reap()) is not None:
                    return status
            elif received.si_signo in FORWARDED and received.si_pid == self._above:
                _kill(self._command, received.si_signo)

    def _start(self) -> int:
        """Raises ``OSError`` where no process can be had."""
        keeper, pid = os.getpid(), os.fork()
        if pid:
            return pid
        given = self._given
        try:
            self._prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != keeper:
                os._exit(128 + signal.SIGKILL)
            for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, given.signals)
            os.execve(given.program, given.command, given.environment)  # noqa: S606 - no shell is wanted
        except OSError as error:
            _say(f"{given.command[0]}: {error.strerror}")
            os._exit(NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE)

    # --- the lease --------------------------------------------------------------------------------------

    def _pause(self) -> float:
        """Seconds until something is to be done."""
        if self._lost or self._call is not None:
            return 3600.0  # a call's end is heard
        return max(0.0, self._renewals.due - _now())

    def _renew(self) -> None:
        if self._lost or self._call is not None:
            return
        self._began = _now()
        self._renewals.begin(self._began, self._given.ttl)
        try:
            self._call = renewal(self._given)
        except OSError as error:  # so many processes and no more
            self._renewed(None, str(error))

    def _renewed(self, answer: dict[str, object] | None, why: str) -> None:
        if answer is None:
            if not self._outage:
                _say(f"the lease cannot be renewed, which is tried again: {why}")
            self._outage = True
            return
        self._outage = False
        if isinstance(left := answer.get("left"), float):
            self._renewals.answered(self._began, self._given.ttl, left)
        elif "lost" in answer:
            self._lost = True
            _say(f"the GPU slice was taken back: {answer['lost']}")

    def _give_back(self) -> None:
        """Once nothing of the command's needs it; says why that failed."""
        self._drop_call()
        if self._lost:
            return
        given = self._given
        try:
            self._call = release(given)
        except OSError:
            self._given_back(*released(given))
            return
        while self._call is not None:
            received = signal.sigwaitinfo(HEARD)
            if received.si_signo == signal.SIGCHLD:
                for pid, _ in _ended():
                    if pid == self._call.pid:
                        self._given_back(*self._call.answer())
                        self._call = None
                        return
            elif received.si_signo in ENDING and received.si_pid == self._above:
                self._call.give_up()
                _say(f"the slice was not given back and ends in {given.ttl:g} s")
                return

    def _given_back(self, answer: dict[str, object] | None, why: str) -> None:
        if answer is None:
            _say(f"the slice could not be given back and ends in {self._given.ttl:g} s: {why}")

    def _drop_call(self) -> None:
        if self._call is not None:
            self._call.give_up()
            self._call = None

    # --- processes --------------------------------------------------------------------------------------

    def _reap(self) -> int | None:
        """Look who has ended; the command's exit status, if it has."""
        found = None
        for pid, status in _ended():
            if pid == self._command:
                found = _exit_status(status)
            elif self._call is not None and pid == self._call.pid:
                call, self._call = self._call, None
                self._renewed(*call.answer())
        return found

    def _end_all(self) -> int:
        """End the command with all that it has started: who started us was killed. What runs under another
        account cannot be ended, and is left."""
        self._drop_call()
        until = _now() + ENDS_WITHIN_S
        known = {self._command}  # a kernel may show no children
        while _now() < until:
            # Each round anew: the number of what has ended may be a stranger's by now.
            if not sum(_kill(pid, signal.SIGKILL) for pid in known.union(_descendants(os.getpid()))):
                break
            known -= {pid for pid, _ in _ended()}
            time.sleep(0.01)
        return 128 + signal.SIGKILL


def _ended() -> list[tuple[int, int]]:
    """The children that have ended since, orphans of the command's among them, and how."""
    found: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if not pid:
            return found
        found.append((pid, status))


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as children:
                found += map(int, children.read().split())
    except OSError:
        pass  # it has ended since
    return found + [below for child in found for below in _descendants(child)]


def _kill(pid: int, number: int) -> bool:
    """Whether there was somebody to send it to."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _exit_status(status: int) -> int:
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.waitstatus_to_exitcode(status)


def _now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _say(text: str) -> None:
    try:
        sys.stderr.write(f"jupyter gpu run: {text}\n")
        sys.stderr.flush()
    except OSError:
        pass  # nobody reads it any more
