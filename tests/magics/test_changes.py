"""``%gpu wait``, ``release``, ``attach`` and ``%%gpu``, against a real attach point and a real pool."""

from __future__ import annotations

import io
import os
import re
import signal
import sys
import threading

import pytest
from IPython.core.error import UsageError

from gpu_kernels.client import Slot
from gpu_kernels.magics import changes, gpu, life
from gpu_kernels.magics.failures import CellFailed, Interrupted, Refused
from tests.provisioner.pool import COURSE, wait_until

IN_LINE = r"Waiting for 0\.02 V100: number 1 in the line|You are next in the line for 0\.02 V100"


@pytest.fixture(autouse=True)
def cuda_is_not_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, whatever other tests have loaded into it."""
    monkeypatch.setattr(life, "LIBRARY", "libcuda-of-nobody.so")


def sizes(pool) -> list[str]:
    return sorted(lease.size for lease in pool.in_force())


def has(pool, *wanted: str) -> None:
    wait_until(lambda: sizes(pool) == sorted(wanted))


def test_wait_ends_when_the_slice_is_there_and_tells_what_it_is(attachment, pool):
    text = repr(gpu("wait"))
    assert text.startswith("A slice of 0.02 V100")
    assert "655 MiB" in text
    assert sizes(pool) == ["0.02 V100"]
    assert repr(gpu("wait")).startswith("A slice of 0.02 V100")


def test_wait_shows_the_line_and_goes_on_by_itself_when_the_slice_comes(
    attachment, pool, full, later, monkeypatch
):
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stdout", shown)

    def give_when_shown() -> None:
        wait_until(lambda: re.search(IN_LINE, shown.getvalue()))
        full()

    later(give_when_shown)
    assert repr(gpu("wait")).startswith("A slice of 0.02 V100")
    assert re.search(IN_LINE, shown.getvalue())


def test_a_wait_that_is_over_says_that_the_place_stays(attachment, pool, full):
    with pytest.raises(Refused, match=r"within 0\.01 s.*(?s:.*)Your place in the line stays"):
        gpu("wait --timeout 0.01")
    assert attachment.view().state == "waiting"


def test_an_interrupted_wait_keeps_the_place_and_says_so(attachment, pool, full, later):
    def interrupt() -> None:
        wait_until(lambda: attachment.view().place is not None and attachment.view().place.position == 1)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    later(interrupt)
    with pytest.raises(Interrupted, match="Your place in the line stays"):
        gpu("wait")
    assert attachment.view().state == "waiting"
    assert re.search(IN_LINE, repr(gpu()))
    assert "Your place in the line is kept" in repr(gpu())


def test_release_gives_the_slice_back_and_a_status_says_how_to_have_it_again(attached, pool):
    text = repr(gpu("release"))
    assert text.startswith("The slice of 0.02 V100 was given back")
    assert "your variables and files stay" in text
    assert sizes(pool) == []
    assert "%gpu wait" in repr(gpu())
    assert "There is no slice to give back" in repr(gpu("release"))


@pytest.mark.parametrize(
    ("line", "size"),
    [("0.05", "0.05 V100"), ("1/20", "0.05 V100"), ("0.1 V100", "0.1 V100"), ("'0.1 V100'", "0.1 V100")],
)
def test_attach_takes_another_size_of_the_same_class_where_none_is_named(attached, pool, line, size):
    text = repr(gpu(f"attach {line}"))
    assert text.startswith(f"A slice of {size}")
    assert "Everything in the old slice's memory is lost" in text
    has(pool, size)


def test_a_refused_attach_has_the_controllers_text_and_leaves_what_there_was(attached, pool):
    pool.limit(50)
    with pytest.raises(Refused, match=r"ml101 may hold(?s:.*)You still have 0\.02 V100\."):
        gpu("attach 0.5")
    with pytest.raises(Refused, match=r"The pool has no H900"):
        gpu("attach 0.1 H900")
    assert sizes(pool) == ["0.02 V100"]


@pytest.mark.parametrize(
    "line", ["attach", "attach much", "attach 0.1 V100 now", "wait --timeout soon", "wait x"]
)
def test_what_cannot_be_read_is_a_usage_error_and_changes_nothing(attached, pool, line):
    with pytest.raises(UsageError):
        gpu(line)
    assert sizes(pool) == ["0.02 V100"]


def test_an_attach_that_is_interrupted_or_takes_too_long_is_wanted_no_longer(attached, pool, later):
    pool.limit(5000)
    pool.student.ask("0.9 V100", key="b", slot=Slot("", "b"), holder="blocker")
    with pytest.raises(Refused, match=r"no longer waited for\. You still have 0\.02 V100"):
        gpu("attach 0.5 --timeout 0.01")

    def interrupt() -> None:
        wait_until(lambda: attached.view().place is not None)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    later(interrupt)
    with pytest.raises(Interrupted, match=r"You still have 0\.02 V100"):
        gpu("attach 0.5")
    wait_until(lambda: not [lease for lease in pool.leases() if lease.queued])
    assert attached.view().size == "0.02 V100"


def test_a_cell_has_the_larger_slice_and_the_kernel_the_smaller_one_afterwards(attached, pool, shell):
    cell = "during = sorted(lease.size for lease in pool.in_force())"
    shell.user_ns["pool"] = pool
    shell.run_cell_magic("gpu", "0.1", cell)
    assert "0.1 V100" in shell.user_ns["during"]
    has(pool, "0.02 V100")
    assert attached.view().size == "0.02 V100"


@pytest.fixture
def lives(monkeypatch) -> list[str]:
    """The slice of each life that this process began."""
    began: list[str] = []
    monkeypatch.setattr(
        changes, "begin_anew", lambda: began.append(os.environ.get("GPU_KERNELS_LEASE", "none")) or []
    )
    return began


def test_a_cell_whose_slice_stays_since_going_back_is_refused_keeps_its_life(
    attached, pool, shell, lives, capsys
):
    shell.user_ns["refuse"] = lambda: pool.admin.set_rules(COURSE, {"sizes": ["0.1 V100"]})
    try:
        shell.run_cell_magic("gpu", "0.1", "refuse()")
    finally:
        pool.admin.set_rules(COURSE, {})
    assert re.search(r"0\.02 V100(?s:.*)You still have 0\.1 V100\.", capsys.readouterr().out)
    assert lives == [attached.view().lease.id] == [os.environ["GPU_KERNELS_LEASE"]]
    assert attached.view().size == "0.1 V100"


def test_a_cell_whose_slice_stays_while_the_way_back_is_waited_for_keeps_its_life(
    attached, pool, shell, lives, capsys, monkeypatch
):
    monkeypatch.setattr(changes, "GOES_BACK_WITHIN_S", 0.0)
    pool.limit(5000)

    def fill() -> None:
        wait_until(lambda: pool.used_mib() < 0.11 * 32768)  # the smaller one's memory is free
        pool.student.ask("0.9 V100", key="b", slot=Slot("", "b"), holder="blocker")

    shell.user_ns["fill"] = fill
    shell.run_cell_magic("gpu", "0.1", "fill()")
    assert "The kernel still has 0.1 V100, until 0.02 V100 is there." in capsys.readouterr().out
    assert lives == [attached.view().lease.id] == [os.environ["GPU_KERNELS_LEASE"]]
    assert attached.view().place.size == "0.02 V100"


@pytest.mark.parametrize("cell", ["1/0", "raise KeyboardInterrupt", "raise SystemError", "this is no Python"])
def test_a_cell_that_fails_or_is_interrupted_goes_back_too(attached, pool, shell, cell, capsys):
    with pytest.raises(CellFailed, match=r"The kernel has 0\.02 V100 again\."):
        shell.run_cell_magic("gpu", "0.1", cell)
    has(pool, "0.02 V100")


def test_a_cell_without_a_size_has_the_slice_for_itself_alone(attachment, pool, shell):
    shell.user_ns["pool"] = pool
    shell.run_cell_magic("gpu", "", "during = [lease.size for lease in pool.in_force()]")
    assert shell.user_ns["during"] == ["0.02 V100"]
    has(pool)
    assert attachment.view().state == "released"


def test_a_cell_whose_slice_is_refused_does_not_run(attached, pool, shell):
    pool.limit(50)
    with pytest.raises(Refused, match="ml101"):
        shell.run_cell_magic("gpu", "0.5", "ran = True")
    assert "ran" not in shell.user_ns
    assert sizes(pool) == ["0.02 V100"]


def test_what_is_refused_is_shown_without_a_traceback(attached, pool, shell, capsys):
    pool.limit(50)
    shell.run_cell("%gpu attach 0.5")
    said = capsys.readouterr()
    assert "ml101 may hold" in said.out + said.err
    assert "Traceback" not in said.out + said.err
    assert "changes.py" not in said.out + said.err


def test_where_nobody_looks_after_the_slice_it_says_so(monkeypatch):
    monkeypatch.delenv("GPU_KERNELS_ATTACH", raising=False)
    for line in ("release", "attach 0.1"):
        monkeypatch.delenv("GPU_KERNELS_LEASE", raising=False)
        with pytest.raises(Refused, match="This kernel has no GPU"):
            gpu(line)
        monkeypatch.setenv("GPU_KERNELS_LEASE", "lease-1")
        with pytest.raises(Refused, match="jupyter gpu run"):
            gpu(line)


def test_a_server_that_is_gone_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("GPU_KERNELS_ATTACH", f"unix://{tmp_path}/gone.sock")
    with pytest.raises(Refused, match="does not answer"):
        gpu("wait")
    with pytest.raises(Refused, match="does not answer"):
        gpu("release")


@pytest.mark.parametrize("line", ["--help", "attach --help", "wait -h"])
def test_help_is_printed_and_nothing_is_done(attached, pool, line, capsys):
    assert gpu(line) is None
    assert "usage: %gpu" in capsys.readouterr().out
    gpu("--help", cell="1/0")
    assert "%%gpu" in capsys.readouterr().out
    assert sizes(pool) == ["0.02 V100"]


def test_smi_shows_the_slice_or_why_there_is_none(attachment, pool, full):
    with pytest.raises(Refused, match=r"No slice of a GPU has been asked for"):
        gpu("smi")
    attachment.want()
    wait_until(lambda: attachment.view().place is not None and attachment.view().place.position == 1)
    with pytest.raises(Refused, match=IN_LINE):
        gpu("smi -L")
    with pytest.raises(Refused, match="usage: nvidia-smi"):
        gpu("smi --no-such")
    assert os.environ.get("GPU_KERNELS_LEASE") is None


def test_who_waits_and_gives_up_waiting_for_more_waits_for_what_it_was_again(attachment, pool, full):
    with pytest.raises(Refused, match="Your place in the line stays"):
        gpu("wait --timeout 0")
    with pytest.raises(Refused, match=r"You wait for 0\.02 V100 again"):
        gpu("attach 0.04 --timeout 0")
    wait_until(lambda: [lease.size for lease in pool.leases() if lease.queued] == ["0.02 V100"])
    full()
    assert repr(gpu("wait")).startswith("A slice of 0.02 V100")
