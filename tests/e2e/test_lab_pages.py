"""An instructor's and an admin's hour on the lab pages, signed in through the hub, beside a student at work.

Screenshots are left in tests/output.
"""

from contextlib import contextmanager

import pytest
from playwright.sync_api import expect

from gpu_kernels.client import Slot
from gpu_kernels.errors import CourseLimit, CoursePaused
from gpu_kernels.hub_config.lab import accounts
from gpu_kernels.hub_config.lab.supervisor import wait
from tests.e2e.conftest import ROOMY, SOON
from tests.e2e.test_browser import log_in, page, pytestmark, shoot

__all__ = ["page", "pytestmark"]

NOTEBOOK = "first_steps.ipynb"


@pytest.fixture
def pages(lab):
    yield f"{lab.settings.url}/services/gpu-lab"
    with lab.pool as pool:
        pool.set_course_rules(accounts.COURSE, {})


@pytest.fixture
def pool_of(lab, person):
    """`pool_of("ana")` is the pool as ana's programs reach it."""
    pools = []

    def connect(name):
        pools.append(person(name).pool_client(lab.settings.controller_url))
        return pools[-1]

    yield connect
    for pool in pools:
        pool.close()


@contextmanager
def slice_of(pool, size="0.02 V100", course=None):
    """A slice that is renewed as a kernel's is, and what its owner is told when it is lost."""
    lost = []
    reserved = pool.reserve(size, course=course, slot=Slot("", NOTEBOOK), on_lost=lost.append)
    with reserved as lease:
        yield lease, lost


def ask(pool):
    return pool.ask("0.02 V100", key="other.ipynb", slot=Slot("", "other.ipynb"), holder="ana")


def arrive(lab, page, name, address):
    """Log in at the hub, and open a page, which goes through the hub's OAuth."""
    log_in(lab, page, name)
    page.wait_for_load_state()
    page.goto(address)


def is_live(page):
    expect(page.locator("[data-live-text]")).to_have_text("Live: this page changes by itself.")


def told(page, text):
    expect(page.locator("#done")).to_contain_text(text)


def test_an_instructors_hour(lab, page, pages, pool_of):
    arrive(lab, page, accounts.INSTRUCTOR, f"{pages}/")
    page.get_by_role("link", name=accounts.COURSE, exact=True).click()
    is_live(page)
    ana = pool_of("ana")
    with slice_of(ana) as (lease, lost):
        expect(page.locator("[data-fragment=students]")).to_contain_text(NOTEBOOK)
        shoot(page, "lab-pages-instructor")
        set_limit_on_the_page(page, "0.02")
        with pytest.raises(CourseLimit):
            ask(ana)
        set_limit_on_the_page(page, "0.5")
        pause_and_go_on(page, ana)
        page.locator("[data-fragment=students]").get_by_role("link", name="0.02 V100").click()
        take_back(page, "The lab is over.")
        wait(lambda: lost, SOON, "ana did not hear that her slice was taken back")
        assert "The lab is over." in ana.get(lease.id).reason
    page.goto(f"{pages}/pool")
    expect(page.get_by_role("heading", name="That is not possible")).to_be_visible()
    expect(page.get_by_role("link", name="Audit log")).to_have_count(0)


def set_limit_on_the_page(page, gpus):
    page.locator("#limit-limit\\.V100").fill(gpus)
    page.get_by_role("button", name="Set the limit").click()
    told(page, "The limit holds from now on.")
    is_live(page)


def pause_and_go_on(page, ana):
    page.get_by_label("Text for the students").fill("The lecture is on; back at ten.")
    page.get_by_role("button", name="Pause", exact=True).click()
    told(page, "The course is paused")
    with pytest.raises(CoursePaused, match="back at ten"):
        ask(ana)
    page.get_by_role("button", name="Go on").click()
    told(page, "The course goes on")


def take_back(page, reason):
    page.get_by_label("Reason, for the user to read").fill(reason)
    page.get_by_role("button", name="Take it back").click()
    told(page, "The slice was taken back.")


def test_an_admins_hour(lab, page, pages, pool_of):
    arrive(lab, page, accounts.ADMIN, f"{pages}/pool")
    is_live(page)
    (gpu,) = lab.gpus()
    with slice_of(pool_of("ana"), "0.1 V100") as (lease, _lost):
        picture = page.locator("[data-fragment=gpus] svg").first
        expect(picture).to_have_attribute("aria-label", f"{gpu.agent}, GPU 0: 0.1 of 1 in use; ml101 0.1")
        shoot(page, "lab-pages-admin")
        page.locator("[data-fragment=servers]").get_by_role("link", name=gpu.agent).click()
        page.get_by_label("cordoned: nothing new").check()
        page.get_by_role("button", name="Set", exact=True).click()
        told(page, "The server is cordoned")
        page.get_by_label("open: slices are placed there").check()
        page.get_by_role("button", name="Set", exact=True).click()
        told(page, "The server is open")
        page.goto(f"{pages}/leases/{lease.id}")
        take_back(page, "maintenance")
    page.get_by_role("link", name="Audit log").click()
    expect(page.locator("tbody tr", has_text="revoked").first).to_contain_text(accounts.ADMIN)


def test_a_form_without_the_xsrf_token_changes_nothing(lab, page, pages):
    arrive(lab, page, accounts.INSTRUCTOR, f"{pages}/courses/{accounts.COURSE}")
    is_live(page)
    form = {"do": "limit", "limit.V100": "0.5"}
    answer = page.request.post(f"{pages}/courses/{accounts.COURSE}", form=form)
    assert answer.status == 403
    with lab.pool as pool:
        assert pool.course(accounts.COURSE).limits == {lab.settings.gpu_class: ROOMY}


def test_a_course_whose_group_is_removed_keeps_its_slices_and_says_who_is_no_member(
    lab, page, pages, person, pool_of
):
    course, adam = accounts.OTHER_COURSE, person(accounts.ADMIN)
    group = f"/hub/api/groups/{course}"
    with slice_of(pool_of("ben"), course=course) as (_lease, lost):
        adam.hub_fetch("DELETE", group)
        try:
            arrive(lab, page, "ben", f"{pages}/")
            kernels = page.locator("[data-fragment=kernels]")
            expect(kernels).to_contain_text(NOTEBOOK)
            page.goto(f"{pages}/courses/{course}/class-hours")
            expect(page.get_by_text(f"ben is not a member of {course}")).to_be_visible()
            page.goto(f"{pages}/")
            kernels.get_by_role("button", name="Give back").click()
            told(page, "The slice was given back.")
            wait(lambda: lost, SOON, "ben's program did not hear that its slice is gone")
        finally:
            adam.hub_fetch("POST", group)
            adam.hub_fetch("POST", f"{group}/users", json={"users": ["ben"]})
