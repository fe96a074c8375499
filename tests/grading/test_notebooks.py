"""``jupyter gpu grade`` with plain notebooks, against a real controller and agent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import nbformat
import pytest

from gpu_kernels.client import PoolClient
from gpu_kernels.exits import Exit
from gpu_kernels.grading import worker
from gpu_kernels.provisioner.leasing import NoSlice
from tests.cli.lab import COURSE, Lab, wait_until
from tests.grading.conftest import ACCOUNT, Write, runs, shown, waits_for

pytestmark = [pytest.mark.native, pytest.mark.timeout(600)]

GRADE = ("grade", "--course", COURSE, "--size", "0.02 V100")
ENVIRONMENT = (
    "import os\n"
    "print(os.environ['GPU_KERNELS_COURSE'], os.environ['GPU_KERNELS_SIZE'])\n"
    "print(sorted(n for n in os.environ if 'TOKEN' in n or n.startswith('JUPYTERHUB')))"
)


def grade(lab: Lab, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return lab.gpu(*GRADE, *arguments, within=300, **env)


def test_each_notebook_runs_on_a_slice_of_the_grading_account_and_gives_it_back(lab, write, tmp_path):
    ada, ben = write("ada/ps1.ipynb", ENVIRONMENT), write("ben/ps1.ipynb", "1/0", "print('on')")
    done = grade(lab, str(ada), str(ben), f"--output={tmp_path / 'graded'}")
    assert done.returncode == Exit.OK, done.stdout + done.stderr
    assert f"2 to run, 2 at once, charged to {ACCOUNT}" in done.stdout
    assert "2 done, 0 to do later, 0 failed" in done.stdout
    assert "one cell with an error" in done.stdout
    assert shown(tmp_path / "graded/ada/ps1.ipynb").splitlines() == [f"{ACCOUNT} 0.02 V100", "[]"]
    assert shown(tmp_path / "graded/ben/ps1.ipynb") == "division by zeroon\n"
    assert shown(ada) == "", "what was handed in stays as it was"
    with PoolClient(lab.url, "iris-token") as iris:
        ended = [lease for lease in iris.list(ended=True) if lease.course == ACCOUNT]
    assert {lease.state for lease in ended[:2]} <= {"draining", "released"}
    wait_until(lambda: lab.used_mib() == 0)

    ada.with_name("later.ipynb").write_bytes(ben.read_bytes())
    again = lab.gpu(
        *GRADE, str(ada), str(ada.with_name("later.ipynb")), str(ben), f"--output={tmp_path / 'graded'}"
    )
    assert again.returncode == Exit.OK
    assert again.stdout.count("done before") == 2
    assert "ada/later.ipynb: done in" in again.stdout


def test_a_budget_that_is_spent_is_said_of_each_and_the_same_command_does_them_later(lab, write, tmp_path):
    notebooks = [str(write(f"{name}/ps1.ipynb", "print('ran')")) for name in ("ada", "ben")]
    lab.admin.set_rules(ACCOUNT, {"hours_per_week": 0})
    refused = grade(lab, *notebooks, f"--output={tmp_path / 'graded'}")
    assert refused.returncode == Exit.TEMPORARY, refused.stdout + refused.stderr
    assert refused.stdout.count(": refused: ") == 2
    assert f"GPU quota used up for {ACCOUNT}" in refused.stdout or "GPU-hours" in refused.stdout
    assert "to do later: ada/ps1.ipynb, ben/ps1.ipynb" in refused.stderr
    assert not (tmp_path / "graded").exists()
    lab.admin.set_rules(ACCOUNT, {})
    assert grade(lab, *notebooks, f"--output={tmp_path / 'graded'}").returncode == Exit.OK
    assert shown(tmp_path / "graded/ben/ps1.ipynb") == "ran\n"


def test_a_run_whose_slice_was_taken_back_does_not_count(lab, write, tmp_path):
    go = tmp_path / "go"
    notebook = write("ada/ps1.ipynb", waits_for(go), "print('ran to its end')")
    command = [*GRADE, str(notebook), f"--output={tmp_path / 'graded'}"]
    run = lab.start_gpu(*command)
    wait_until(runs(go), 300)
    (lease,) = [
        lease for lease in lab.admin.list(everyone=True) if lease.course == ACCOUNT and lease.in_force
    ]
    lab.admin.revoke(lease.id, "maintenance")
    go.touch()
    out, err = run.communicate(timeout=300)
    assert run.returncode == Exit.TEMPORARY, out + err
    assert "reclaimed: The slice of 0.02 V100 was taken back while it ran" in out
    assert "maintenance" in out
    assert not (tmp_path / "graded/ps1.ipynb").exists()
    assert lab.gpu(*command, within=300).returncode == Exit.OK
    assert shown(tmp_path / "graded/ps1.ipynb") == "ran to its end\n"


def test_what_a_notebook_gives_back_itself_was_not_taken_from_it(lab, write, tmp_path):
    notebook = write("ps1.ipynb", "%gpu release", "print('on')")
    done = grade(lab, str(notebook), f"--output={tmp_path / 'graded'}")
    assert done.returncode == Exit.OK, done.stdout + done.stderr


def test_no_more_run_at_once_than_the_account_has_room_for(lab, write, tmp_path):
    lab.admin.set_limit(ACCOUNT, {"V100": 20})
    notebooks = [str(write(f"{n}.ipynb", "print(1)")) for n in range(2)]
    done = grade(lab, *notebooks, f"--output={tmp_path / 'graded'}")
    assert done.returncode == Exit.OK, done.stdout + done.stderr
    assert "2 to run, 1 at once" in done.stdout


def test_no_kernel_that_a_notebook_names_itself_gets_the_token(lab, write, tmp_path):
    notebook = write("ps1.ipynb", "import os; print([n for n, v in os.environ.items() if 'iris-token' in v])")
    done = lab.gpu(
        "grade", "--course", COURSE, str(notebook), f"--output={tmp_path / 'graded'}",
        within=300, JPY_API_TOKEN="iris-token", GPU_KERNELS_TOKEN="iris-token",
    )  # fmt: skip
    assert done.returncode == Exit.OK, done.stdout + done.stderr
    assert shown(tmp_path / "graded/ps1.ipynb") == "[]\n"


MEDDLES = """
import glob, os, signal
parent = os.getppid()
answer = open(f"/proc/{parent}/cmdline").read().split("\\0")[-2]
{put}
os.kill(parent, signal.SIGKILL)
"""


ANSWERS = [
    "open(answer, 'w').write('[]')",
    'open(answer, \'w\').write(\'{"result": "done", "x": 1}\')',
    'open(answer, \'w\').write(\'{"result": "done", "text": "", "errors": 0}\')',
    "open(answer, 'w').write('[' * 100_000)",
    "os.mkfifo(answer)",
]


def test_what_a_submission_answers_in_its_workers_place_is_not_believed(lab, write, tmp_path):
    lab.admin.set_limit(ACCOUNT, {"V100": 200})
    hostile = [write(f"eve{n}/ps1.ipynb", MEDDLES.replace("{put}", put)) for n, put in enumerate(ANSWERS)]
    ada = write("ada/ps1.ipynb", "print('ran')")
    done = grade(lab, *map(str, hostile), str(ada), f"--output={tmp_path / 'graded'}", "--parallel=6")
    assert done.returncode == Exit.FAILED, done.stdout + done.stderr
    for n in range(len(ANSWERS)):
        assert f"eve{n}/ps1.ipynb: failed: It" in done.stdout
    assert "ada/ps1.ipynb: done" in done.stdout


def test_what_a_submission_starts_ends_with_it_and_its_text_commands_no_terminal(lab, write, tmp_path):
    noted = tmp_path / "pids"
    outlives = (
        "import subprocess\n"
        "left = subprocess.Popen(['sleep', '1000'], start_new_session=True)\n"
        f"open({str(noted)!r}, 'a').write(f'{{left.pid}} ')\n"
    )
    kills = (
        f"{outlives}import os, signal\n"
        "print = open('/proc/%d/fd/1' % os.getppid(), 'a').write('\\x1b]0;mine\\x07') and 0\n"
        "os.kill(os.getppid(), signal.SIGKILL)"
    )
    ada, eve = write("ada/ps1.ipynb", outlives), write("eve/ps1.ipynb", kills)
    done = grade(lab, str(ada), str(eve), f"--output={tmp_path / 'graded'}")
    assert "ada/ps1.ipynb: done" in done.stdout, done.stdout + done.stderr
    assert "eve/ps1.ipynb: failed: " in done.stdout
    assert "?]0;mine?" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr
    left = noted.read_text().split()
    assert len(left) == 2
    assert not [pid for pid in left if os.path.exists(f"/proc/{pid}")]


def test_a_submission_cannot_take_a_larger_slice(lab, write, tmp_path):
    done = grade(lab, str(write("ps1.ipynb", "%gpu attach 0.1 V100")), f"--output={tmp_path / 'graded'}")
    assert done.returncode == Exit.OK, done.stdout + done.stderr
    text = json.dumps(nbformat.read(tmp_path / "graded/ps1.ipynb", as_version=4))
    assert "This kernel keeps its size: it runs to be graded." in text


@pytest.mark.parametrize("wrote", [True, False])
def test_a_refused_run_takes_away_what_it_wrote_and_nothing_older(tmp_path, monkeypatch, wrote):
    result = tmp_path / "result.ipynb"
    result.write_text("an older run's")

    def run(told: object, written: worker.Written) -> int:
        written.at(result)
        if wrote:
            (tmp_path / "draft").write_text("this run's")
            os.replace(tmp_path / "draft", result)
        raise NoSlice("none is free")

    monkeypatch.setattr(worker, "_run", run)
    monkeypatch.setattr(worker, "keep_token", lambda: None)
    assert worker.judged({}).result == "refused"
    assert result.exists() is not wrote


@pytest.mark.parametrize(
    ("cell", "option", "why"),
    [
        ("while True: pass", "--longest=6", "It took longer than 6 s, and was ended."),
        ("while True: print('x' * 1_000_000)", "--longest=600", "It shows more than 32 MiB in all."),
        ("import os; os._exit(3)", "--longest=600", "Kernel died"),
    ],
)
def test_a_hostile_notebook_ends_and_is_named(lab, write, tmp_path, cell, option, why):
    notebook = write("eve/ps1.ipynb", cell)
    done = grade(lab, str(notebook), f"--output={tmp_path / 'graded'}", option)
    assert done.returncode == Exit.FAILED, done.stdout + done.stderr
    assert "ps1.ipynb: failed: " in done.stdout
    assert why in done.stdout
    assert not (tmp_path / "graded").exists()


def test_a_cell_that_does_not_end_is_an_error_of_that_cell(lab, write, tmp_path):
    notebook = write("ps1.ipynb", "while True: pass", "print('on')")
    done = grade(lab, str(notebook), f"--output={tmp_path / 'graded'}", "--timeout=3")
    assert done.returncode == Exit.OK, done.stdout + done.stderr
    assert "the cell ran for longer than 3 s" in shown(tmp_path / "graded/ps1.ipynb")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_who_stops_it_gets_all_slices_back(lab: Lab, write: Write, tmp_path: Path, number: int, status: int):
    go = tmp_path / "go"
    run = lab.start_gpu(*GRADE, str(write("ps1.ipynb", waits_for(go))), f"--output={tmp_path / 'graded'}")
    wait_until(runs(go), 300)
    run.send_signal(number)
    run.communicate(timeout=300)
    assert run.returncode == status
    wait_until(lambda: lab.used_mib() == 0)
    assert not (tmp_path / "graded").exists()


def test_a_killed_run_takes_its_workers_along(lab, write, tmp_path):
    go = tmp_path / "go"
    run = lab.start_gpu(*GRADE, str(write("ps1.ipynb", waits_for(go))), f"--output={tmp_path / 'graded'}")
    wait_until(runs(go), 300)
    run.kill()
    run.communicate(timeout=300)
    wait_until(lambda: lab.used_mib() == 0, 60)


@pytest.mark.parametrize("token", ["ada-token", "bob-token"])
def test_who_does_not_teach_the_course_is_refused_before_anything_runs(lab, write, tmp_path, token):
    notebook = write("ps1.ipynb", "print(1)")
    done = grade(lab, str(notebook), f"--output={tmp_path / 'graded'}", GPU_KERNELS_TOKEN=token)
    assert done.returncode == Exit.NO_PERMISSION
    assert f"is not a member of {ACCOUNT}" in done.stderr


def test_a_course_without_a_grading_account_says_how_to_make_one(lab, write, tmp_path):
    lab.admin.remove_account(ACCOUNT)
    done = grade(lab, str(write("ps1.ipynb", "1")), f"--output={tmp_path / 'graded'}")
    assert done.returncode == Exit.UNAVAILABLE
    assert "ml101 has no grading account" in done.stderr
    assert "gpu_grading = V100: 0.1" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "Name notebooks with --output, or an assignment with --nbgrader"),
        (["a.ipynb"], "Say with --output"),
        (["a.ipynb", "--output=x"], "There is no such notebook"),
        (["a.ipynb", "--output=x", "--nbgrader=ps1"], "Name notebooks with --output, or"),
        (["--size=1e9 V100", "a.ipynb", "--output=x"], "1e9"),
    ],
)
def test_what_cannot_be_meant_is_refused(lab, arguments, why):
    done = lab.gpu("grade", "--course", COURSE, *arguments)
    assert done.returncode == Exit.USAGE, done.stderr
    assert why in done.stderr


def test_the_notebooks_handed_in_are_never_written_over(lab, write):
    notebook = write("ps1.ipynb", "print(1)")
    before = notebook.read_bytes()
    done = grade(lab, str(notebook), f"--output={notebook.parent}")
    assert done.returncode == Exit.USAGE
    assert "would be overwritten" in done.stderr
    assert notebook.read_bytes() == before
    assert not list(Path(notebook.parent).glob(".gpu-grade-*"))
    assert os.access(notebook, os.R_OK)
