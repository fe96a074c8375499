"""What an admin types into the hub's own admin panel holds in the pool, and what is bad is said."""

import httpx
import pytest
from playwright.sync_api import expect

from gpu_kernels.client import Slot
from gpu_kernels.errors import SizeLimit
from gpu_kernels.hub_config.lab import accounts
from gpu_kernels.hub_config.lab.supervisor import wait
from tests.e2e.test_browser import log_in, page, pytestmark, shoot
from tests.e2e.test_lab_pages import NOTEBOOK, slice_of

__all__ = ["page", "pytestmark"]


def read_groups(lab):
    """Have the controller read the hub's groups now; how many properties it cannot carry out."""
    headers = {"Authorization": f"token {lab.runner_token}"}
    answer = httpx.post(f"{lab.settings.controller_url}/api/v1/groups/read", headers=headers, timeout=60)
    return answer.json()["faulty"]


def open_group(lab, page, group):
    page.goto(f"{lab.settings.url}/hub/admin#/groups")
    page.reload()
    page.get_by_role("link", name=group, exact=True).click()
    expect(page.get_by_role("heading", name=f"Editing Group {group}")).to_be_visible()
    return page.locator(".properties-table tbody tr")


def apply(page):
    with page.expect_response(lambda answer: "/properties" in answer.url) as answered:
        page.get_by_test_id("submit").click()
    assert answered.value.ok


@pytest.fixture
def ana(lab, person):
    with person("ana").pool_client(lab.settings.controller_url) as pool:
        yield pool


def ask(pool, size):
    return pool.ask(size, key=f"panel {size}", slot=Slot("", "panel.ipynb"), holder="ana")


def test_a_property_typed_in_the_admin_panel_holds_in_the_pool(lab, page, ana):
    log_in(lab, page, accounts.ADMIN)
    page.wait_for_load_state()
    rows = open_group(lab, page, accounts.COURSE)
    rows.last.locator("input").nth(0).fill("gpu_max_size")
    rows.last.locator("input").nth(1).fill("0.05")
    page.get_by_test_id("add-item").click()
    shoot(page, "group-properties")
    apply(page)
    assert read_groups(lab) == 0
    with pytest.raises(SizeLimit, match=r"0\.1 V100 is more than one lease of ml101 may have: 0\.05 V100"):
        ask(ana, "0.1 V100")
    lease = ask(ana, "0.05 V100")
    ana.release(lease.id, lease.holder)

    rows = open_group(lab, page, accounts.COURSE)
    rows.first.locator("input").nth(1).fill("0,1")
    apply(page)
    assert read_groups(lab) == 1
    with pytest.raises(SizeLimit, match=r"0\.05 V100"):
        ask(ana, "0.1 V100")
    headers = {"Authorization": f"token {lab.runner_token}"}
    health = httpx.get(f"{lab.settings.controller_url}/health", headers=headers, timeout=60).json()["groups"]
    assert (health["fault"], health["faulty_properties"]) == (None, 1)
    with lab.pool as pool:
        course = pool.course(accounts.COURSE)
    assert course.rules["max_size"] == {lab.settings.gpu_class: 50}
    (fault,) = course.faults
    assert fault.faulty_value == "0,1"
    assert "write decimals with a point, as in '0.1'" in fault.fault

    rows = open_group(lab, page, accounts.COURSE)
    rows.first.get_by_role("button", name="Delete").click()
    apply(page)
    assert read_groups(lab) == 0
    lease = ask(ana, "0.1 V100")
    ana.release(lease.id, lease.holder)


def test_a_servers_details_tell_its_course_and_its_slices(lab, page, ana, at_work):
    at_work("ana")
    log_in(lab, page, accounts.ADMIN)
    page.wait_for_load_state()
    said = page.get_by_text(f"0.1 V100 granted on lab ({NOTEBOOK})")

    def told():
        page.goto(f"{lab.settings.url}/hub/admin")
        page.reload()
        page.get_by_test_id("ana-collapse-button").click()
        expect(page.get_by_text("gpu_course")).to_be_visible()
        return said.count() > 0

    with slice_of(ana, "0.1 V100"):
        wait(told, 120, "the admin panel does not tell of the slice")
        said.first.scroll_into_view_if_needed()
        shoot(page, "admin-panel-server")
