"""What a lab page that is open shows while the hub, or the controller, is killed: real processes, SIGKILL.

Screenshots are left in tests/output.
"""

import pytest
from playwright.sync_api import expect

from gpu_kernels.hub_config.lab import accounts
from gpu_kernels.hub_config.lab.supervisor import wait
from gpu_kernels.spawner.ports import is_free
from tests.e2e.conftest import SOON
from tests.e2e.test_browser import page, pytestmark, shoot
from tests.e2e.test_faults import the_process
from tests.e2e.test_lab_pages import arrive, is_live, pages
from tests.pages.test_browser import try_now

__all__ = ["page", "pages", "pytestmark"]


def says_that_it_is_away(page):
    line = page.locator("[data-live-text]")
    expect(line).to_contain_text("Not live: the GPU pool cannot be reached from here.")
    expect(page.locator("[data-live-count]")).to_contain_text("Next try in")
    expect(page.get_by_role("button", name="Try now")).to_be_visible()


@pytest.mark.slow
def test_a_page_outlives_the_hub_that_is_killed_and_started_again(lab, page, pages):
    arrive(lab, page, accounts.INSTRUCTOR, f"{pages}/courses/{accounts.COURSE}")
    is_live(page)
    field = page.get_by_label("Text for the students")
    field.fill("Back at ten")
    lab.hub.kill()
    try:
        says_that_it_is_away(page)
        page.get_by_role("button", name="Pause", exact=True).click()
        trouble = page.get_by_text("This was not sent, because the lab pages could not be reached.")
        expect(trouble).to_be_visible()
        expect(field).to_have_value("Back at ten")
        shoot(page, "pages-hub-killed")
    finally:
        ports = [port for what, port in lab.settings.ports().items() if what != "the GPU server agent"]
        wait(lambda: all(is_free(lab.settings.address, p) for p in ports), SOON, "what the hub had goes on")
        lab.start_hub()
    try_now(page)
    expect(field).to_have_value("Back at ten")
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.locator("#done")).to_contain_text("The course is paused")
    wait(lambda: lab.gpus(), SOON, "the agent did not come back")


def test_a_page_goes_on_by_itself_when_the_controller_is_killed(lab, page, pages):
    arrive(lab, page, accounts.ADMIN, f"{pages}/pool")
    is_live(page)
    page.evaluate(
        """() => {
            const line = document.querySelector("[data-live-text]");
            window.told = [];
            new MutationObserver(() => told.push(line.textContent)).observe(line, { childList: true });
        }"""
    )
    the_process(lab, "gpu_kernels.pool").kill()  # what starts it again does so in a moment
    away = "() => told.some(text => text.startsWith('Not live: the GPU pool cannot be reached'))"
    wait(lambda: page.evaluate(away), SOON, "the page does not notice that the controller is gone")
    is_live(page)
    expect(page.get_by_role("heading", name="The pool", exact=True)).to_be_visible()
