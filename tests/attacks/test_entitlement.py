"""A student who edits kernel.json, the environment or the token gets no more than before: the controller
decides from whose token it is, and from nothing that is sent beside it.
"""

from __future__ import annotations

import httpx
import pytest

from gpu_kernels.client import PoolClient, Slot
from gpu_kernels.errors import (
    Forbidden,
    GPUKernelsError,
    NotAMember,
    NotFound,
    SizeLimit,
    Unauthenticated,
    UnknownCourse,
)
from tests.pool.controller import Agent, ThreadedController, reserve, token
from tests.provisioner.conftest import forget_all, make_kernel, specs

__all__ = ["make_kernel", "specs"]

SMALL = "0.02 V100"


@pytest.fixture(scope="module")
def controller(tmp_path_factory):
    """ml101 has kernels of 0.02 at most and two for each; cv202 is richer; grace teaches, and may grade."""
    # Nobody renews leases here, or reports for the GPU server.
    long = {"lease_ttl": 3600, "agent_ttl": 3600, "queue_ttl": 3600}
    with ThreadedController(tmp_path_factory.mktemp("pool"), **long) as running:
        Agent(running.client("gpu-server")).register()
        root = running.client("root")
        root.set_rules("ml101", {"max_size": {"V100": 20}, "max_leases": 2})
        root.put_account("ml101-grading", kind="course", parent=None, weight=1.0, rules={})
        root.set_limit("ml101-grading", {"V100": 1000})
        yield running


@pytest.fixture
def as_ada(controller, monkeypatch):
    """This process is ada's Jupyter server, in which she can change what she likes."""
    from gpu_kernels.client.keeper import KEEPER
    from gpu_kernels.provisioner import leasing

    monkeypatch.setenv("GPU_KERNELS_CONTROLLER", controller.url)
    monkeypatch.setenv("GPU_KERNELS_TOKEN", token("ada"))
    for name in ("JUPYTERHUB_API_TOKEN", "JUPYTERHUB_SERVER_NAME", "GPU_KERNELS_COURSE", "JPY_SESSION_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(leasing, "_clients", {})
    yield controller.client("ada")
    forget_all(KEEPER)


def granted(pool: PoolClient) -> list[tuple[str, str, str]]:
    return [(lease.user, lease.course, lease.size) for lease in pool.list() if lease.in_force]


@pytest.mark.parametrize(
    ("size", "config", "error"),
    [
        ("0.1 V100", {}, SizeLimit),
        ("1 V100", {}, GPUKernelsError),
        (SMALL, {"course": "cv202"}, NotAMember),
        (SMALL, {"course": "ml101-grading"}, NotAMember),
        (SMALL, {"course": "no-such-course"}, UnknownCourse),
        ("1000000000 V100", {}, GPUKernelsError),
    ],
)
async def test_an_edited_kernel_json_entitles_to_nothing(as_ada, make_kernel, specs, size, config, error):
    specs("edited", size, **config)
    with pytest.raises(error):
        await make_kernel("edited").start_kernel()
    assert granted(as_ada) == []


async def test_what_a_kernel_json_invents_is_not_heard(as_ada, make_kernel, specs):
    specs("edited", SMALL, user="bob", admin=True, thousandths=1000, preempt_in=0, max_leases=99)
    kernel = make_kernel("edited")
    await kernel.start_kernel()
    assert granted(as_ada) == [("ada", "ml101", SMALL)]
    await kernel.shutdown_kernel(now=True)
    assert granted(as_ada) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GPU_KERNELS_COURSE", "cv202"),
        ("GPU_KERNELS_COURSE", "ml101-grading"),
        ("GPU_KERNELS_TOKEN", "0" * 64),
        ("GPU_KERNELS_TOKEN", token("ada")[:-1]),
    ],
)
async def test_an_edited_environment_entitles_to_nothing(as_ada, make_kernel, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises((NotAMember, Unauthenticated)):
        await make_kernel().start_kernel()
    assert granted(as_ada) == []


async def test_who_a_server_says_it_is_does_not_count(as_ada, make_kernel, monkeypatch):
    for name, value in (("JUPYTERHUB_USER", "root"), ("JUPYTERHUB_SERVER_NAME", "lab"), ("USER", "root")):
        monkeypatch.setenv(name, value)
    kernel = make_kernel()
    await kernel.start_kernel()
    assert granted(as_ada) == [("ada", "ml101", SMALL)]
    await kernel.shutdown_kernel(now=True)


@pytest.mark.parametrize(
    "invented",
    [
        {"user": "root"},
        {"groups": ["cv202", "ml101-instructors"]},
        {"scopes": ["custom:gpu:admin:pool"]},
        {"preempt_in": -1, "thousandths": 1000},
    ],
)
def test_what_a_request_says_of_who_asks_is_refused_or_not_heard(as_ada, controller, invented):
    body = {"size": SMALL, "course": "cv202", "key": "k", "slot": {"server": "", "path": "x"}, "holder": "h"}
    headers = {"Authorization": f"token {token('ada')}", "X-Forwarded-User": "root", "REMOTE_USER": "root"}
    answer = httpx.post(f"{controller.url}/api/v1/leases", json=body | invented, headers=headers)
    assert answer.status_code in (400, 403), answer.text
    assert granted(as_ada) == []


def test_another_students_lease_is_as_if_it_were_not_there(as_ada, controller):
    lease = reserve(controller.client("bob"), path="bobs.ipynb")
    for attempt in (
        lambda: as_ada.get(lease.id),
        lambda: as_ada.release(lease.id, lease.holder),
        lambda: as_ada.why(lease.id),
    ):
        with pytest.raises(NotFound):
            attempt()
    with pytest.raises(Forbidden):
        as_ada.revoke(lease.id, "mine now")
    renewed = as_ada.renew([(lease.id, lease.epoch)])
    assert renewed.left == {}
    again = as_ada.ask(SMALL, key="a.ipynb", slot=Slot("", "bobs.ipynb"), holder=lease.holder)
    assert again.id != lease.id, "a slot is one of its user"
    assert controller.client("bob").get(lease.id).in_force
    as_ada.release(again.id, again.holder)
    controller.client("bob").release(lease.id, lease.holder)


@pytest.mark.parametrize(
    "attempt",
    [
        lambda pool: pool.set_limit("ml101", {"V100": 1000}),
        lambda pool: pool.set_course_rules("ml101", {"max_size": None}),
        lambda pool: pool.set_rules("ml101", {}),
        lambda pool: pool.put_account("mine", kind="course", parent=None, weight=1.0, rules={}),
        lambda pool: pool.set_quota("ml101-grading", "V100", nominal=0, hard_limit=10),
        lambda pool: pool.course("ml101-grading"),
        lambda pool: pool.end_idle("ml101", 60),
    ],
)
def test_a_students_token_changes_no_rule(as_ada, attempt):
    with pytest.raises(Forbidden):
        attempt(as_ada)


def test_a_course_that_was_renamed_is_told_to_who_asks_for_the_old_name(as_ada, controller):
    """Her group was ml100 before; her server, which was started then, still says so."""
    lease = reserve(as_ada, path="of-before.ipynb")
    with pytest.raises(UnknownCourse, match=r"ml101\.\n.*stop your server and start it for one of yours"):
        as_ada.ask(SMALL, key="k", slot=Slot("", "x"), holder="h", course="ml100")
    assert as_ada.renew([(lease.id, lease.epoch)]).left.keys() == {lease.id}, "what is in force goes on"
    as_ada.release(lease.id, lease.holder)
