"""``jupyter gpu grade --nbgrader``: the real nbgrader autogrades, in the course's grading account."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from gpu_kernels.exits import Exit
from tests.cli.lab import COURSE, Lab, wait_until
from tests.grading.conftest import ACCOUNT, Write, notebook_of, runs, shown, waits_for

BESIDE = Path(__file__).parents[2] / "build" / "nbgrader"
"""Where ``make test`` puts nbgrader: it would change each Jupyter server of the environment that it is in."""
THERE = BESIDE.exists() or importlib.util.find_spec("nbgrader") is not None

pytestmark = [
    pytest.mark.native,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not THERE, reason="nbgrader is not set up: make build/nbgrader/.ready"),
]
GRADE = ("grade", "--course", COURSE, "--nbgrader", "ps1", "--size", "0.02 V100")
TESTS = (
    "import os\n"
    f"assert os.environ['GPU_KERNELS_COURSE'] == {ACCOUNT!r}\n"
    "assert not [n for n in os.environ if 'TOKEN' in n]\n"
    "assert square(3) == 9"
)


class Course:
    """nbgrader's course folder, with one assignment of 2 points."""

    def __init__(self, folder: Path, lab: Lab) -> None:
        self.folder = folder
        self.lab = lab
        path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH", ""), str(BESIDE)]))
        # nbgrader starts alembic by its name.
        commands = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        self.env = {
            "PYTHONPATH": path, "JUPYTER_CONFIG_DIR": str(folder / "no-config"), "PATH": commands,
        }  # fmt: skip

    def make(self) -> None:
        folder = self.folder
        (folder / "nbgrader_config.py").write_text(
            f"c = get_config()\nc.CourseDirectory.course_id = {COURSE!r}\nc.Exchange.root = '/nonexistent'\n"
        )
        source = folder / "source" / "ps1" / "ps1.ipynb"
        source.parent.mkdir(parents=True)
        nbformat.write(_graded("### BEGIN SOLUTION\ndef square(x): return x * x\n### END SOLUTION"), source)
        self._nbgrader("generate_assignment", "ps1")

    def _nbgrader(self, *arguments: str) -> None:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "nbgrader", *arguments],
            cwd=self.folder, env=self.lab.env | self.env, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    def hand_in(self, student: str, solution: str) -> None:
        handed_in = self.folder / "submitted" / student / "ps1" / "ps1.ipynb"
        handed_in.parent.mkdir(parents=True)
        content = nbformat.read(self.folder / "release" / "ps1" / "ps1.ipynb", as_version=4)
        content.cells[0].source = solution
        content.metadata.kernelspec = {"name": "mine", "display_name": "Mine", "language": "python"}
        nbformat.write(content, handed_in)

    def grade(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.lab.gpu(*GRADE, f"--folder={self.folder}", *arguments, within=300, **self.env)

    def scores(self) -> dict[str, float]:
        """What stands in nbgrader's gradebook."""
        question = (
            "SELECT s.student_id, SUM(g.auto_score) FROM grade g "
            "JOIN submitted_notebook n ON n.id = g.notebook_id "
            "JOIN submitted_assignment s ON s.id = n.assignment_id GROUP BY s.student_id"
        )
        with sqlite3.connect(self.folder / "gradebook.db") as database:
            return dict(database.execute(question).fetchall())

    def autograded(self, student: str) -> Path:
        return self.folder / "autograded" / student / "ps1" / "ps1.ipynb"


def _graded(solution: str) -> nbformat.NotebookNode:
    content = notebook_of(solution, TESTS)
    common = {"schema_version": 3, "task": False, "points": 2}
    content.cells[0].metadata.nbgrader = {
        **common, "grade": False, "solution": True, "locked": False, "grade_id": "answer",
    }  # fmt: skip
    content.cells[0].metadata.nbgrader.pop("points")
    content.cells[1].metadata.nbgrader = {
        **common, "grade": True, "solution": False, "locked": True, "grade_id": "tests",
    }  # fmt: skip
    return content


@pytest.fixture(scope="module")
def assignment(running_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = Course(tmp_path_factory.mktemp("nbgrader"), running_lab)
    made.make()
    return made.folder


@pytest.fixture
def course(assignment: Path, lab: Lab, tmp_path: Path) -> Course:
    shutil.copytree(assignment, tmp_path / "course")
    return Course(tmp_path / "course", lab)


def test_nbgrader_grades_each_student_in_the_grading_account(course, lab):
    course.hand_in("ada", "def square(x): return x * x")
    course.hand_in("ben", "def square(x): return x + x")
    done = course.grade()
    assert done.returncode == Exit.OK, done.stdout + done.stderr
    assert f"2 to run, 2 at once, charged to {ACCOUNT}" in done.stdout
    assert course.scores() == {"ada": 2.0, "ben": 0.0}
    assert "AssertionError" in json.dumps(nbformat.read(course.autograded("ben"), as_version=4))
    wait_until(lambda: lab.used_mib() == 0)

    course.hand_in("eve", "raise SystemExit")
    again = course.grade("--student=eve", "--student=ada")
    assert again.returncode == Exit.OK, again.stdout + again.stderr
    assert course.scores() == {"ada": 2.0, "ben": 0.0, "eve": 0.0}


def test_a_student_without_a_slice_is_graded_by_the_same_command_later(course, lab):
    course.hand_in("ada", "def square(x): return x * x")
    lab.admin.set_rules(ACCOUNT, {"hours_per_week": 0})
    refused = course.grade()
    assert refused.returncode == Exit.TEMPORARY, refused.stdout + refused.stderr
    assert "ada/ps1: refused: " in refused.stdout
    assert not course.autograded("ada").exists()
    lab.admin.set_rules(ACCOUNT, {})
    assert course.grade().returncode == Exit.OK
    assert course.scores() == {"ada": 2.0}


def test_no_grade_stays_of_a_run_whose_slice_was_taken_back(course, lab, tmp_path):
    go = tmp_path / "go"
    course.hand_in("ada", f"{waits_for(go)}\ndef square(x): return x * x")
    run = lab.start_gpu(*GRADE, f"--folder={course.folder}", "--timeout=300", **course.env)
    wait_until(runs(go), 300)
    (lease,) = [
        lease for lease in lab.admin.list(everyone=True) if lease.course == ACCOUNT and lease.in_force
    ]
    lab.admin.revoke(lease.id, "maintenance")
    go.touch()
    out, err = run.communicate(timeout=300)
    assert run.returncode == Exit.TEMPORARY, out + err
    assert "ada/ps1: reclaimed: " in out
    assert not course.autograded("ada").exists()
    assert course.grade().returncode == Exit.OK
    assert course.autograded("ada").exists()
    assert course.scores() == {"ada": 2.0}


def test_a_student_who_prints_without_end_fails_alone(course):
    course.hand_in("ada", "def square(x): return x * x")
    course.hand_in("eve", "while True: print('x' * 1_000_000)")
    done = course.grade()
    assert done.returncode == Exit.FAILED, done.stdout + done.stderr
    assert "eve/ps1: failed: It shows more than 32 MiB in all." in done.stdout
    assert "ada/ps1: done" in done.stdout
    assert not course.autograded("eve").exists()
    assert course.scores()["ada"] == 2.0


def test_what_nbgrader_cannot_grade_is_said_with_the_student(course):
    course.hand_in("ada", "def square(x): return x * x")
    shutil.rmtree(course.folder / "source")
    (course.folder / "gradebook.db").unlink()
    failed = course.grade(f"--logs={course.folder / 'logs'}")
    assert failed.returncode == Exit.FAILED
    assert "ada/ps1: failed: nbgrader could not grade it: " in failed.stdout
    assert "No assignment with ID 'ps1'" in failed.stdout
    assert "No assignment with ID 'ps1'" in (course.folder / "logs/ada/ps1.log").read_text()


@pytest.mark.parametrize(
    ("arguments", "why"), [([], "Nothing of ps1 was handed in"), (["--student=../ada"], "Nothing of ps1 was")]
)
def test_nothing_to_grade_is_said(course, arguments, why):
    nothing = course.grade(*arguments)
    assert nothing.returncode == Exit.UNAVAILABLE
    assert why in nothing.stderr


def test_a_notebook_on_its_own_kernel_needs_no_slice(lab: Lab, write: Write, tmp_path: Path):
    notebook = write("ps1.ipynb", "import os; print(os.environ.get('GPU_KERNELS_LEASE'))")
    done = lab.gpu("grade", "--course", COURSE, str(notebook), f"--output={tmp_path / 'graded'}", within=300)
    assert done.returncode == Exit.OK, done.stdout + done.stderr
    assert shown(tmp_path / "graded/ps1.ipynb") == "None\n"
