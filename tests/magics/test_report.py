"""What ``%gpu`` says without a lease, and when those it asks do not answer."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading

import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from gpu_kernels.client import Lease
from gpu_kernels.endings import why_ended
from gpu_kernels.magics import gpu, load_ipython_extension, report
from gpu_kernels.magics.report import Report, look


@pytest.fixture
def closed_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def test_a_kernel_without_a_gpu_says_how_to_get_one():
    text = repr(look({}))
    assert text.startswith("This kernel has no GPU.")
    assert "Change Kernel" in text


def test_a_kernel_that_restarted_without_a_gpu_says_why_and_what_to_do():
    text = repr(look({"GPU_KERNELS_REFUSAL": "ml101 is at its limit.\nTry again at 10:00."}))
    assert "restarted without a GPU" in text
    assert "ml101 is at its limit.\nTry again at 10:00." in text
    assert "Restart the kernel" in text


def test_what_is_not_known_is_a_remark_and_what_is_known_is_still_shown(closed_port):
    environ = {
        "GPU_KERNELS_LEASE": "lease-1",
        "GPU_KERNELS_EPOCH": "7",
        "GPU_KERNELS_SECRET": "00" * 32,
        "GPU_KERNELS_AGENT": f"tcp://127.0.0.1:{closed_port}",
        "GPU_KERNELS_SIZE": "0.02 V100",
        "GPU_KERNELS_COURSE": "ml101",
        "GPU_KERNELS_CONTROLLER": f"http://127.0.0.1:{closed_port}",
        "GPU_KERNELS_TOKEN": "t",
    }
    report = look(environ)
    assert dict(report.rows) == {
        "server": f"tcp://127.0.0.1:{closed_port}",
        "transport": "TCP",
        "course": "ml101",
    }
    text = repr(report)
    assert text.startswith("A slice of 0.02 V100")
    assert "The GPU pool does not answer" in text
    assert f"The GPU server at tcp://127.0.0.1:{closed_port} does not answer" in text
    assert "00" * 32 not in text + report._repr_html_()


@pytest.mark.parametrize("name", ["GPU_KERNELS_EPOCH", "GPU_KERNELS_SECRET", "GPU_KERNELS_AGENT"])
@pytest.mark.parametrize("value", [None, "nonsense"])
def test_a_damaged_environment_is_a_remark(name, value):
    environ = {
        "GPU_KERNELS_LEASE": "lease-1",
        "GPU_KERNELS_EPOCH": "7",
        "GPU_KERNELS_SECRET": "00" * 32,
        "GPU_KERNELS_AGENT": "unix:///nowhere",
    }
    if value is None:
        del environ[name]
    else:
        environ[name] = value
    assert look(environ).remarks


def test_nothing_that_others_wrote_is_html_in_the_notebook():
    html = Report("<b>", rows=[("memory", "<script>")], remarks=["<i>"], used=(10, 100))._repr_html_()
    assert "<b>" not in html
    assert "<script>" not in html
    assert "<i>" not in html
    assert '<meter min="0" max="100"' in html


def test_lines_that_come_first_are_under_the_headline_in_both_forms():
    report = Report("A slice", rows=[("memory", "1 MiB")], remarks=["last"], first=["<first>"])
    assert [line.split()[0] for line in repr(report).splitlines()] == ["A", "<first>", "memory", "last"]
    html = report._repr_html_()
    assert html.index("&lt;first&gt;") < html.index("memory") < html.index("last")


def test_ipython_loads_it_and_it_runs_on_another_thread(monkeypatch):
    monkeypatch.delenv("GPU_KERNELS_LEASE", raising=False)
    shell = InteractiveShell()
    load_ipython_extension(shell)
    results = []
    for line in ("", "status"):
        thread = threading.Thread(target=lambda line=line: results.append(shell.run_line_magic("gpu", line)))
        thread.start()
        thread.join()
    assert [repr(result) for result in results] == [repr(look())] * 2


def test_another_word_is_refused_with_what_there_is():
    with pytest.raises(UsageError, match=r"(?s)invalid choice: 'faster'.*'%gpu --help' lists everything"):
        gpu("faster")


def test_loading_it_imports_next_to_nothing():
    code = "import sys, gpu_kernels.magics; print('httpx' in sys.modules, 'IPython' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["False", "False"]


def lease(**said: object) -> Lease:
    """One as the controller tells it, of 0.02 V100 in force."""
    whole = dict.fromkeys(Lease.__struct_fields__)
    return Lease(**{**whole, "state": "active", "size": "0.02 V100", **said})


@pytest.mark.parametrize(
    ("preempt_in", "ends_in", "said"),
    [
        (None, None, ""),
        (None, 7200.0, "2 h at most"),
        (600.0, 7200.0, "10 min, then it makes way for a class; 2 h at most"),
        (600.0, None, "10 min, then it makes way for a class"),
        (7200.0, 600.0, "10 min at most"),
    ],
)
def test_the_time_left_names_the_class_and_the_longest_life(preempt_in, ends_in, said):
    assert report._time_left(lease(preempt_in=preempt_in, ends_in=ends_in)) == said


@pytest.mark.parametrize("state", ["active", "reserved"])
def test_no_state_of_the_ledger_is_shown_as_it_is_called_there(state):
    assert state not in report._lease_text(lease(state=state, expires_in=30.0))


@pytest.mark.parametrize("state", ["draining", "expired", "freed", "quarantined", "released", "revoked"])
def test_why_a_lease_is_over_is_said_in_words(state):
    assert state not in why_ended(state, None)
    assert why_ended(state, "Taken back: maintenance.\nAdvice.") == "Taken back: maintenance"
