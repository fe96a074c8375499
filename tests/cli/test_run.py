"""``jupyter gpu run``: a slice for as long as a command runs, whatever becomes of either."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time

import psutil
import pytest

from gpu_kernels.remoting.paths import native_build
from tests.cli.lab import COURSE, Lab, command, wait_until

pytestmark = pytest.mark.native

NATIVE = native_build()
UNTIL_TOLD = "print('ready', flush=True); input()"
SAYS_SIGNALS = """
import os, select, signal, sys
signals, wakes = os.pipe()
os.set_blocking(wakes, False)
signal.set_wakeup_fd(wakes)  # a handler alone would not be called while a read that began just then waits
for n in (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGINT):
    signal.signal(n, lambda *_: None)
print("ready", flush=True)
while True:
    for readable in select.select([0, signals], [], [])[0]:
        if readable == signals:
            print(signal.Signals(os.read(signals, 1)[0]).name, flush=True)
        elif os.read(0, 1000):
            print("line", flush=True)
        else:
            sys.exit()
"""


def python(code: str) -> list[str]:
    return ["--", sys.executable, "-c", code]


def ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout.readline() == "ready\n"


@pytest.mark.parametrize(
    ("ends", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill $$", 143)]
)
def test_the_exit_status_is_the_commands(lab: Lab, ends, status):
    done = lab.gpu("run", "-p", "0.02", "--", "sh", "-c", ends)
    assert (done.returncode, done.stdout, done.stderr) == (status, "", "")
    wait_until(lab.nothing_in_use)


def test_the_command_has_the_lease_in_its_environment(lab: Lab):
    show = "import json, os; print(json.dumps(dict(os.environ)))"
    done = lab.gpu("run", "--size", "0.02 V100", *python(show), LD_LIBRARY_PATH="/opt/mine")
    env = json.loads(done.stdout)
    assert env["GPU_KERNELS_SIZE"] == "0.02 V100"
    assert env["GPU_KERNELS_COURSE"] == "ml101"
    assert env["GPU_KERNELS_AGENT"].startswith("tcp://127.0.0.1:")
    assert len(env["GPU_KERNELS_SECRET"]) == 64
    assert env["LD_LIBRARY_PATH"].split(":") == [str(NATIVE.client), str(NATIVE.libraries), "/opt/mine"]


@pytest.mark.parametrize(
    ("options", "mib"),
    [(["-p", "1/20"], 1638), (["-m", "100"], 100), (["-p", "0.1", "--gpu-class", "V100"], 3276)],
)
def test_the_slice_is_as_large_as_was_asked(lab: Lab, options, mib):
    running = lab.start_gpu("run", *options, *python(UNTIL_TOLD))
    ready(running)
    assert [lease.mib for lease in lab.leases()] == [mib]
    running.communicate("\n", timeout=60)
    assert running.returncode == 0


def test_the_slice_is_kept_for_longer_than_a_lease_lives_without_renewal(lab: Lab):
    running = lab.start_gpu("run", "-p", "0.02", *python(UNTIL_TOLD))
    ready(running)
    (lease,) = lab.leases()
    old = time.monotonic() + 1.25 * lease.ttl
    while time.monotonic() < old:
        assert [(now.id, now.in_force) for now in lab.leases()] == [(lease.id, True)]
        time.sleep(0.1)
    out, err = running.communicate("\n", timeout=60)
    assert (running.returncode, out, err) == (0, "", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGINT])
def test_signals_are_passed_on(lab: Lab, number):
    running = lab.start_gpu("run", "-p", "0.02", *python(SAYS_SIGNALS))
    ready(running)
    running.send_signal(number)
    assert running.stdout.readline() == f"{number.name}\n"
    out, err = running.communicate("a line\n", timeout=60)
    assert (running.returncode, out, err) == (0, "line\n", "")


def test_a_command_that_is_told_to_end_gives_its_slice_back(lab: Lab):
    running = lab.start_gpu("run", "-p", "0.02", *python(UNTIL_TOLD))
    ready(running)
    running.terminate()
    running.communicate(timeout=60)
    assert running.returncode == 128 + signal.SIGTERM
    wait_until(lab.nothing_in_use)


def test_a_killed_run_loses_its_slice_within_the_time_to_live(lab: Lab):
    running = lab.start_gpu("run", "-p", "0.02", *python(UNTIL_TOLD))
    ready(running)
    running.kill()
    running.communicate("\n", timeout=60)
    wait_until(lab.nothing_in_use)


def test_an_interrupt_at_the_terminal_reaches_the_command_once(lab: Lab):
    parent, child = pty.openpty()
    running = subprocess.Popen(
        command("run", "-p", "0.02", *python(SAYS_SIGNALS)),
        env=lab.env,
        stdin=child,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: __import__("fcntl").ioctl(0, __import__("termios").TIOCSCTTY, 0),
    )
    os.close(child)
    ready(running)
    os.write(parent, b"\x03")
    assert running.stdout.readline() == "SIGINT\n"
    os.write(parent, b"a line\n\x04")
    out, _ = running.communicate(timeout=60)
    os.close(parent)
    assert (running.returncode, out) == (0, "line\n")


def test_a_slice_that_is_taken_back_is_told_and_the_command_goes_on(lab: Lab):
    running = lab.start_gpu("run", "-p", "0.02", *python(UNTIL_TOLD))
    ready(running)
    lab.admin.revoke(lab.leases()[0].id, "needed for the exam")
    assert "needed for the exam" in running.stderr.readline()
    out, err = running.communicate("\n", timeout=60)
    assert (running.returncode, out, err) == (0, "", "")


def test_a_refusal_says_what_how_much_and_why_and_may_be_tried_again(lab: Lab):
    holding = lab.start_gpu("run", "-p", "0.1", *python(UNTIL_TOLD))
    ready(holding)
    refused = lab.gpu("run", "-p", "0.02", "--gpu-class", "V100", "--", "echo", "never")
    holding.communicate("\n", timeout=60)
    assert (refused.returncode, refused.stdout) == (os.EX_TEMPFAIL, "")
    assert "ml101" in refused.stderr
    assert "0.1 V100" in refused.stderr


@pytest.fixture
def taken(lab: Lab):
    """Most of the only GPU is taken; the limit of the course is no hindrance."""
    lab.admin.set_limit(COURSE, {"V100": 5000})
    holding = lab.start_gpu("run", "-p", "0.9", *python(UNTIL_TOLD))
    ready(holding)
    return holding


def test_with_wait_it_queues_until_something_is_free(lab: Lab, taken):
    waiting = lab.start_gpu("run", "-p", "0.5", "--wait", "100", "--", "echo", "at last")
    wait_until(lambda: any(lease.queued for lease in lab.leases()))
    taken.communicate("\n", timeout=60)
    out, err = waiting.communicate(timeout=60)
    assert (waiting.returncode, out, err) == (0, "at last\n", "")


def test_waiting_in_vain_is_a_refusal_and_leaves_no_request(lab: Lab, taken):
    in_vain = lab.gpu("run", "-p", "0.5", "--wait", "0.5", "--", "echo", "never")
    assert (in_vain.returncode, in_vain.stdout) == (os.EX_TEMPFAIL, "")
    # Its place in the line is told where the request is still there when it asks.
    assert re.search(
        r"within 0.5 s.\n(You are next in the line for 0.5 GPU.*\n)?Nothing is res", in_vain.stderr
    )
    wait_until(lambda: len(lab.leases()) == 1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_it_queues_leaves_no_request(lab: Lab, taken, number):
    queued = lab.start_gpu("run", "-p", "0.5", "--wait", "100", "--", "echo", "never")
    wait_until(lambda: any(lease.queued for lease in lab.leases()))
    queued.send_signal(number)
    out, _ = queued.communicate(timeout=60)
    assert (queued.returncode, out) == (128 + number, "")
    wait_until(lambda: len(lab.leases()) == 1)


@pytest.mark.parametrize(
    ("options", "status", "text"),
    [
        (["-p", "2.5"], 2, "whole"),
        (["-p", "-0.1"], 2, "negative"),
        (["-p", "0"], 2, "zero"),
        (["-n", "0.5"], 2, "whole GPUs"),
        (["-m", "1.5"], 2, "whole number"),
        (["--size", "a lot"], 2, "cannot be read"),
        (["--size", "0.1 V100", "--gpu-class", "V100"], 2, "leave --gpu-class out"),
        (["-p", "0.1", "-m", "5"], 2, "not allowed with"),
        (["-p", "0.1", "--wait", "-1"], 2, "--wait"),
        (["-p", "0.1", "--gpu-class", "A100"], os.EX_UNAVAILABLE, "A100"),
        (["-p", "0.1", "--course", "art7"], 2, "art7"),
    ],
)
def test_what_cannot_be_granted_is_refused_before_anything_runs(lab: Lab, options, status, text):
    done = lab.gpu("run", *options, "--", "echo", "never")
    assert (done.returncode, done.stdout) == (status, "")
    assert text in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("env", "status", "text"),
    [
        ({"GPU_KERNELS_TOKEN": "wrong"}, os.EX_NOPERM, "token"),
        ({"GPU_KERNELS_TOKEN": ""}, os.EX_NOPERM, "token"),
        ({"GPU_KERNELS_TOKEN": "bob-token", "GPU_KERNELS_COURSE": "ml101"}, os.EX_NOPERM, "ml101"),
        ({"GPU_KERNELS_CONTROLLER": ""}, os.EX_UNAVAILABLE, "GPU_KERNELS_CONTROLLER"),
        ({"GPU_KERNELS_CONTROLLER": "http://127.0.0.1:9"}, os.EX_UNAVAILABLE, "does not answer"),
        ({"GPU_KERNELS_NATIVE": "/nonexistent"}, os.EX_UNAVAILABLE, "build the native part"),
    ],
)
def test_a_pool_that_cannot_be_used_is_told(lab: Lab, env, status, text):
    done = lab.gpu("run", "-p", "0.02", "--", "echo", "never", **env)
    assert (done.returncode, done.stdout) == (status, "")
    assert text in done.stderr


@pytest.mark.parametrize(
    ("argv", "status"),
    [(["--", "/nonexistent/program"], 127), (["--", "no-such-program"], 127), (["--", "/etc/passwd"], 126)],
)
def test_a_command_that_cannot_run_takes_no_slice(lab: Lab, argv, status):
    # A pool that is asked would answer with 69: there is none.
    done = lab.gpu("run", "-p", "0.02", *argv, GPU_KERNELS_CONTROLLER="http://127.0.0.1:9")
    assert done.returncode == status


def test_no_command_is_a_usage_error(lab: Lab):
    assert lab.gpu("run", "-p", "0.02").returncode == 2
    assert lab.gpu("run", "-p", "0.02", "echo", "without dashes").returncode == 2


def test_the_commands_own_dashes_are_its_own(lab: Lab):
    done = lab.gpu("run", "-p", "0.02", "--", "echo", "-p", "--", "--help")
    assert (done.returncode, done.stdout) == (0, "-p -- --help\n")


def test_a_run_inside_a_run_has_the_inner_slice(lab: Lab):
    inner = [*command("run", "-p", "0.03"), "--", "sh", "-c", 'echo "$GPU_KERNELS_SIZE $LD_LIBRARY_PATH"']
    done = lab.gpu("run", "-p", "0.02", "--", *inner)
    size, _, libraries = done.stdout.strip().partition(" GPU ")
    assert size == "0.03", done.stderr
    assert libraries.count("client") == 1


@pytest.mark.parametrize(("ends", "status"), [("exit 7", 7), ("kill -9 $$", -9)])
def test_without_a_pool_the_command_is_all_that_runs(lab: Lab, ends, status):
    done = lab.gpu(
        "run", "--software", "--", "sh", "-c", ends, GPU_KERNELS_CONTROLLER="", GPU_KERNELS_TOKEN=""
    )
    assert (done.returncode, done.stdout, done.stderr) == (status, "", "")


def test_a_command_finds_the_maths_libraries_by_their_names(lab: Lab):
    """As a program does that was linked with one, before any framework is imported."""
    opens = "import ctypes; ctypes.CDLL('libcublas.so.12'); ctypes.CDLL('libcurand.so.10')"
    show = f"{opens}; print({{line.split()[-1] for line in open('/proc/self/maps') if '/libc' in line}})"
    for slice_of in (["-p", "0.02"], ["--software"]):
        done = lab.gpu("run", *slice_of, *python(show))
        opened = done.stdout
        assert str(NATIVE.libraries / "libcublas.so.12") in opened, done.stderr
        assert str(NATIVE.libraries / "libcurand.so.10") in opened


def test_the_software_gpus_memory_is_passed_on(lab: Lab):
    show = "import os; print(os.environ['GPU_KERNELS_SOFTGPU_MEMORY_MIB'], os.environ['LD_LIBRARY_PATH'])"
    done = lab.gpu("run", "--software", "--memory", "64", *python(show))
    assert done.stdout.split() == ["64", f"{NATIVE.softgpu}:{NATIVE.libraries}"]
    assert lab.gpu("run", "--software", "--memory", "0", "--", "true").returncode == 2


def test_a_software_gpu_has_no_more_memory_than_its_machine_can_promise(lab: Lab):
    has = {"GPU_KERNELS_MACHINE_MEMORY_MIB": "16384"}
    refused = lab.gpu("run", "--software", "--memory", "14337", "--", "echo", "never", **has)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "14337 MiB for software GPUs are more than this machine can promise" in refused.stderr
    assert "Up to 14336 MiB will do (--memory)" in refused.stderr
    inherited = lab.gpu(
        *("run", "--software", "--", "echo", "never"), GPU_KERNELS_SOFTGPU_MEMORY_MIB="10000,5000", **has
    )
    assert inherited.returncode == 2
    assert "15000 MiB" in inherited.stderr
    shows = ["--", "sh", "-c", "echo $GPU_KERNELS_SOFTGPU_MEMORY_MIB"]
    assert lab.gpu("run", "--software", "--memory", "14336", *shows, **has).stdout == "14336\n"
    assert lab.gpu("run", "--software", *shows, **has).stdout == "8192\n"


STARTS_OTHERS = """
import os, subprocess, sys
child = subprocess.Popen(["sleep", "600"])
shell = subprocess.Popen(["sh", "-c", "sleep 600 & echo $!"], stdout=subprocess.PIPE, text=True)
orphan = shell.stdout.readline().strip()
shell.wait()
print(os.getpid(), child.pid, orphan, flush=True)
input()
"""


def test_a_run_that_is_killed_ends_its_command_with_all_that_it_started(lab: Lab):
    """A child, and an orphan of a shell that has ended already."""
    running = lab.start_gpu("run", "-p", "0.02", *python(STARTS_OTHERS))
    started = [int(pid) for pid in running.stdout.readline().split()]
    assert len(started) == 3
    assert all(map(lives, started))
    running.kill()
    running.wait(60)
    wait_until(lambda: not any(map(lives, started)))
    wait_until(lab.nothing_in_use)
    assert "given back" not in running.stderr.read()


def test_a_command_does_not_outlive_what_holds_its_slice(lab: Lab):
    running = lab.start_gpu(
        "run", "-p", "0.02", *python("import os; print(os.getpid(), flush=True); input()")
    )
    pid = int(running.stdout.readline())
    os.kill(psutil.Process(pid).ppid(), signal.SIGKILL)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 128 + signal.SIGKILL
    assert "what held the slice was killed, and the command with it" in err
    wait_until(lambda: not lives(pid))


def test_what_a_command_leaves_running_when_it_ends_goes_on(lab: Lab):
    done = lab.gpu("run", "-p", "0.02", "--", "sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!")
    pid = int(done.stdout)
    assert lives(pid)
    os.kill(pid, signal.SIGKILL)
    wait_until(lab.nothing_in_use)


def test_a_controller_that_is_away_is_told_once_and_the_slice_is_kept(lab: Lab):
    running = lab.start_gpu("run", "-p", "0.02", *python(UNTIL_TOLD))
    ready(running)
    controller = lab._processes[0]
    controller.send_signal(signal.SIGSTOP)
    try:
        told = running.stderr.readline()
        assert "the lease cannot be renewed, which is tried again" in told
    finally:
        controller.send_signal(signal.SIGCONT)
    time.sleep(1.25 * lab.leases()[0].ttl)
    assert [lease.in_force for lease in lab.leases()] == [True]
    out, err = running.communicate("\n", timeout=60)
    assert (running.returncode, out, err) == (0, "", "")


def test_a_command_that_cannot_be_executed_after_all_says_why_and_gives_its_slice_back(lab: Lab, tmp_path):
    no_program = tmp_path / "no-program"
    no_program.write_text("#!/nonexistent/interpreter\n")
    no_program.chmod(0o755)
    done = lab.gpu("run", "-p", "0.02", "--", str(no_program))
    assert done.returncode == 127
    assert f"jupyter gpu run: {no_program}: No such file or directory" in done.stderr
    wait_until(lab.nothing_in_use)


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
