"""What a server gets from the hub, and what its people are told."""

import json
import shutil

import httpx
import pytest

from gpu_kernels.hub_config.lab import accounts
from gpu_kernels.hub_config.lab.accounts import Login
from gpu_kernels.hub_config.lab.student import Refused, Student
from gpu_kernels.hub_config.lab.student_path import SPEC
from gpu_kernels.hub_config.lab.supervisor import wait
from tests.e2e.conftest import SOON

pytestmark = [pytest.mark.hub, pytest.mark.native]

PRINT_ENVIRONMENT = "import json, os; print(json.dumps(dict(os.environ)))"


def environment_of(someone):
    """The environment of a plain kernel on someone's server."""
    session = someone.start_kernel("python3", "environment.ipynb")
    with someone.channel(session["kernel"]["id"]) as channel:
        return json.loads(channel.execute(PRINT_ENVIRONMENT).text)


def scopes_of(lab, token):
    url = f"http://{lab.settings.address}:{lab.settings.hub_port}/hub/api/user"
    answer = httpx.get(url, headers={"Authorization": f"token {token}"}, timeout=60).raise_for_status()
    return set(answer.json()["scopes"])


@pytest.fixture(scope="module")
def told(lab):
    """What the servers of ana and iris were told: the environment of each, and its token's scopes."""
    facts = {}
    for name in ("ana", "iris"):
        with Student(lab.settings.url, accounts.logins(lab.settings.secrets)[name]) as someone:
            someone.log_in()
            someone.start_server()
            someone.open_lab()
            environment = environment_of(someone)
            facts[name] = environment, scopes_of(lab, environment["JUPYTERHUB_API_TOKEN"])
            someone.stop_server()
    return facts


def test_a_students_server_is_charged_to_their_course(lab, told):
    environment, _ = told["ana"]
    assert environment["GPU_KERNELS_COURSE"] == accounts.COURSE
    assert environment["GPU_KERNELS_CONTROLLER"] == lab.settings.controller_url


def test_a_students_token_can_reserve_and_nothing_above_that(told):
    _, scopes = told["ana"]
    assert "custom:gpu:use!user=ana" in scopes
    assert "access:services!service=gpu" in scopes
    assert not [scope for scope in scopes if "admin" in scope or "agent" in scope]


def test_an_instructors_token_can_set_the_limit_of_their_course_only(told):
    _, scopes = told["iris"]
    assert {scope for scope in scopes if "quota" in scope} == {"custom:gpu:admin:quota!group=ml101"}
    assert not [scope for scope in scopes if "admin:pool" in scope]


def test_no_secret_of_the_lab_reaches_a_server(lab, told):
    environment, _ = told["ana"]
    secrets = [path.read_text().strip() for path in lab.settings.secrets.glob("*.token")]
    assert secrets
    assert not [secret for secret in secrets if secret in " ".join(environment.values())]


def test_the_command_line_works_in_a_servers_terminals(told):
    environment, _ = told["ana"]
    assert shutil.which("jupyter", path=environment["PATH"])
    assert shutil.which("jupyter-gpu", path=environment["PATH"])


def test_whoever_is_in_no_course_works_without_a_gpu_and_is_told_why(lab, at_work):
    guest = at_work(accounts.GUEST)
    assert "GPU_KERNELS_COURSE" not in environment_of(guest)
    with pytest.raises(Refused) as refusal:
        guest.start_kernel(SPEC, "gpu.ipynb")
    assert "course" in str(refusal.value)
    assert lab.leases() == []


def test_a_person_in_two_courses_is_charged_to_the_chosen_one(person):
    ben = person("ben")
    ben.start_server(course="ds200")
    ben.open_lab()
    assert environment_of(ben)["GPU_KERNELS_COURSE"] == "ds200"


def test_a_course_that_is_not_ones_own_is_refused_with_a_reason(person):
    with pytest.raises(Refused) as refusal:
        person("ben").start_server(course="zz9")
    assert "You are not in the course 'zz9'. Your courses: ds200, ml101." in str(refusal.value)


@pytest.mark.parametrize("login", [Login("ana", "guess", ""), Login("nobody", "", ""), Login("", "", "")])
def test_a_wrong_login_is_refused(lab, login):
    with (
        Student(lab.settings.url, login) as intruder,
        pytest.raises(Refused, match="Invalid username or password"),
    ):
        intruder.log_in()


def test_the_stop_of_a_server_gives_its_slice_back(lab, at_work):
    ana = at_work("ana")
    ana.start_kernel(SPEC, "first.ipynb")
    wait(lambda: [lease.in_force for lease in lab.leases()] == [True], SOON, "the kernel has no slice")
    ana.stop_server()
    wait(lambda: not lab.leases(), SOON, "the slice is not back")
    assert [gpu.used_mib for gpu in lab.gpus()] == [0]


def test_two_students_hold_a_slice_each(lab, at_work):
    for name in ("ana", "iris"):
        at_work(name).start_kernel(SPEC, "same-name.ipynb")
    both = ["ana", "iris"]
    wait(
        lambda: sorted(each.user for each in lab.leases() if each.in_force) == both, SOON, "one has no slice"
    )
