"""JupyterLab in a real browser: the launcher's cards, a notebook's output, the refusal's dialog.

Screenshots are left in tests/output.
"""

import contextlib

import pytest
from playwright.sync_api import expect

from gpu_kernels.hub_config.lab import accounts
from gpu_kernels.hub_config.lab.supervisor import wait
from tests import browser
from tests.e2e.conftest import SOON

pytestmark = [
    pytest.mark.hub,
    pytest.mark.native,
    pytest.mark.browser,
    browser.needs_chromium,
    pytest.mark.timeout(600),
]


@pytest.fixture
def page():
    with browser.one_page() as page:
        yield page


def shoot(page, name):
    page.screenshot(path=browser.OUTPUT / f"{name}.png")


def log_in(lab, page, name):
    login = accounts.logins(lab.settings.secrets)[name]
    page.goto(f"{lab.settings.url}/hub/login")
    page.fill("#username_input", login.name)
    page.fill("#password_input", login.password)
    page.click("#login_submit")


def open_lab(lab, page, name):
    log_in(lab, page, name)
    page.wait_for_selector(".jp-Launcher")
    # The splash screen fades out above the launcher.
    expect(page.locator("#jupyterlab-splash")).to_have_count(0)


def test_a_person_in_several_courses_chooses_one(lab, page):
    log_in(lab, page, "ben")
    expect(page.locator("#course option")).to_have_text(["ds200", "ml101", "none (a server without GPUs)"])
    shoot(page, "course")


@pytest.fixture
def spend_the_budget(lab):
    """Gives each student of the course so many GPU-hours a week, until the test is over."""
    with lab.pool as pool:
        yield lambda hours: pool.set_course_rules(accounts.COURSE, {"user_hours_per_week": hours})
        pool.set_course_rules(accounts.COURSE, {})


@pytest.mark.slow
def test_the_launcher_the_notebook_and_the_refusal(lab, page, spend_the_budget):
    open_lab(lab, page, "ana")
    cards = page.locator('.jp-LauncherCard[data-category="Notebook"] .jp-LauncherCard-label')
    expect(cards).to_have_text(
        ["Python 3", "Python 3 (0.02 V100)", "Python 3 (0.1 V100)", "Python 3 (1 V100)"]
    )
    shoot(page, "launcher")

    run_the_notebook(page)
    shoot(page, "notebook")

    page.keyboard.press("Control+Shift+L")
    # Waiting would not help, so the kernel does not start.
    spend_the_budget(0.0)
    page.locator('.jp-LauncherCard[data-category="Notebook"][title*="0.1 V100"]').last.click()
    dialog = page.locator(".jp-Dialog-content")
    expect(dialog).to_contain_text("Error Starting Kernel")
    expect(dialog).to_contain_text(accounts.COURSE)
    expect(dialog).to_contain_text("Python 3")
    shoot(page, "refusal")


def run_the_notebook(page):
    page.locator(".jp-DirListing-item", has_text="first_steps.ipynb").dblclick()
    notebook = page.locator(".jp-Notebook")
    expect(notebook).to_be_visible()
    expect(page.get_by_text("Python 3 (0.02 V100) | Idle")).to_be_visible()
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_text("Run All Cells", exact=True).click()
    expect(notebook).to_contain_text("ILLEGAL_ADDRESS")
    shoot(page, "fault")
    # Only what is near the visible part of a notebook is in the page; and JupyterLab scrolls to the cell with
    # the error when its output is there already.
    first = notebook.get_by_text("A slice of 0.02 V100")

    def scrolled_up() -> bool:
        page.locator(".jp-WindowedPanel-outer").evaluate("panel => { panel.scrollTop = 0 }")
        with contextlib.suppress(AssertionError):
            expect(first).to_be_in_viewport(timeout=1000)
            return True
        return False

    wait(scrolled_up, SOON, "the first cell's output does not come into sight")
