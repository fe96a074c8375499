"""An instructor grades from the own server, with that server's token; and bad forms of the hub."""

import json
from urllib.parse import quote

import pytest

from gpu_kernels.hub_config.lab import accounts
from gpu_kernels.hub_config.lab.student import NAVIGATE

pytestmark = [pytest.mark.hub, pytest.mark.native, pytest.mark.timeout(600)]

SUBMISSION = """
import json, os, runpy, sys
from gpu_kernels.cli import vector_add
try:
    vector_add.main()
except SystemExit as ended:
    assert not ended.code
print(os.environ["GPU_KERNELS_COURSE"], [name for name in os.environ if "TOKEN" in name or "HUB" in name])
"""
GRADE = """
import json, pathlib, nbformat, subprocess
cell = nbformat.v4.new_code_cell(json.loads({cell!r}))
pathlib.Path("handed-in").mkdir(exist_ok=True)
nbformat.write(nbformat.v4.new_notebook(cells=[cell]), "handed-in/ada.ipynb")
command = ["jupyter", "gpu", "grade", "--course", {course!r}, "--size", "0.02 V100", "handed-in/ada.ipynb"]
done = subprocess.run([*command, "--output=graded"], capture_output=True, text=True)
print(done.returncode, done.stdout, done.stderr)
"""
READ = "import nbformat; print(nbformat.read('graded/ada.ipynb', 4).cells[0].outputs)"
SCRIPT = "<script>alert(1)</script>"


def in_a_kernel(someone, *cells):
    """What cells print in a kernel without a GPU."""
    session = someone.start_kernel("python3", "grading.ipynb")
    with someone.channel(session["kernel"]["id"]) as channel:
        return [channel.execute(cell, timeout=200).text for cell in cells]


def grade():
    return GRADE.format(cell=json.dumps(SUBMISSION), course=accounts.COURSE)


def test_an_instructor_grades_on_the_gpu_with_the_servers_own_token(lab, at_work):
    said, outputs = in_a_kernel(at_work(accounts.INSTRUCTOR), grade(), READ)
    assert said.startswith("0 1 to run, 1 at once, charged to ml101-grading"), said
    assert "1 done, 0 to do later, 0 failed" in said
    assert "ml101-grading []" in outputs, "no token among what a notebook can print"
    assert "error" not in outputs
    with lab.pool as pool:
        sums = pool.usage(course="ml101-grading", by=("user",)).sums
    assert [row.user for row in sums] == [accounts.INSTRUCTOR]


def test_a_student_does_not_grade(at_work):
    (said,) = in_a_kernel(at_work("ana"), grade())
    assert said.startswith("77 "), said
    assert "ana is not a member of ml101-grading" in said


def test_a_server_is_not_started_by_a_form_without_the_xsrf_token(person):
    ben = person("ben")
    answer = ben._http.post("/hub/spawn", data={"course": "ml101"}, headers=NAVIGATE)
    assert answer.status_code == 403
    assert ben.hub_fetch("GET", "/hub/api/users/ben").json()["servers"] == {}


@pytest.mark.parametrize("course", [SCRIPT, "1e9", "ml101-grading", "ml101-instructors", "x" * 5000])
def test_a_course_that_nobody_could_choose_is_text_in_the_refusal(person, course):
    ben = person("ben")
    ben._visit("/hub/spawn")
    action = f"/hub/spawn?_xsrf={quote(ben._xsrf('/hub/'))}"
    answer = ben._http.post(action, data={"course": course}, headers=NAVIGATE)
    assert "You are not in the course" in answer.text
    assert SCRIPT not in answer.text
    assert len(answer.text) < 100_000
    assert ben.hub_fetch("GET", "/hub/api/users/ben").json()["servers"] == {}
