"""What the hub's own pages say of GPU-hours before a server starts. Screenshots are left in tests/output."""

import pytest
from playwright.sync_api import expect

from gpu_kernels.hub_config.lab import accounts
from gpu_kernels.hub_config.lab.supervisor import wait
from tests.e2e.conftest import SOON
from tests.e2e.test_browser import log_in, page, pytestmark, shoot

__all__ = ["page", "pytestmark"]


@pytest.fixture
def budget(lab):
    with lab.pool as pool:
        pool.set_rules(accounts.COURSE, {"hours_per_week": 40, "user_hours_per_week": 4})
        pool.set_rules(accounts.OTHER_COURSE, {"user_hours_per_week": 0, "paused": "The exam is on."})
    yield
    with lab.pool as pool:
        pool.set_rules(accounts.COURSE, {})
        pool.set_rules(accounts.OTHER_COURSE, {})


@pytest.mark.usefixtures("budget")
def test_the_form_and_the_home_page_show_what_is_left(lab, page):
    log_in(lab, page, "ben")
    page.wait_for_load_state()
    banner = page.get_by_role("region", name="Your GPU-hours")

    def is_told() -> bool:
        """A page waits a second for the controller, and shows for two what it said to an earlier one."""
        told = banner.count() and "The exam is on." in banner.inner_text()
        return bool(told or not page.reload())

    wait(is_told, SOON, "the page does not show what the controller says now")
    expect(banner).to_contain_text("ds200 is paused: The exam is on.")
    expect(banner).to_contain_text("4.0 of 4.0 left")
    expect(banner).to_contain_text("40.0 of 40.0 left")
    expect(banner).to_contain_text("ds200, yours this week none")
    shoot(page, "start-form")
    page.goto(f"{lab.settings.url}/hub/home")
    expect(banner).to_contain_text("ml101, yours this week")
    shoot(page, "start-home")
    page.evaluate("document.documentElement.setAttribute('data-bs-theme', 'dark')")
    shoot(page, "start-home-dark")
