"""A student's hour in JupyterLab: from the login to the stop of the server, without reading any document.

Screenshots are left in tests/output.
"""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from gpu_kernels.hub_config.lab import accounts
from gpu_kernels.hub_config.lab.supervisor import wait
from tests.e2e.conftest import ROOMY, SOON, set_limit
from tests.e2e.test_browser import log_in, page, pytestmark, shoot
from tests.e2e.test_lab_pages import pool_of, slice_of

__all__ = ["page", "pool_of", "pytestmark"]

ADD = """
import numpy as np
from numba import cuda

@cuda.jit
def add(a, b, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a[i] + b[i]

a = np.arange(1000, dtype=np.float32)
out = np.zeros_like(a)
add[4, 256](a, 2 * a, out)
print("right:", bool((out == 3 * a).all()))
"""


@pytest.fixture
def course(lab):
    """The course as its instructor sets it: ``course(sizes=[...])``."""

    def say(**rules):
        with lab.pool as pool:
            pool.set_course_rules(accounts.COURSE, rules)

    yield say
    say()


class Notebook:
    """A notebook of one person, cell by cell."""

    def __init__(self, page):
        self.page = page
        self.cells = 0

    def run(self, code):
        """Type a cell and run it; its output."""
        editor = self.page.locator(".jp-Notebook .jp-Cell.jp-mod-active .cm-content")
        editor.click()
        # As from the clipboard: JupyterLab would add brackets and indents to what is typed.
        self.page.keyboard.insert_text(code.strip())
        self.page.keyboard.press("Shift+Enter")
        self.cells += 1
        cell = f'.jp-Notebook .jp-Cell[data-windowed-list-index="{self.cells - 1}"]'
        return self.page.locator(f"{cell} .jp-OutputArea")

    def shows(self, output, *texts):
        for text in texts:
            expect(output).to_contain_text(text)
        output.scroll_into_view_if_needed()


def start_server(lab, page, name, course):
    log_in(lab, page, name)
    page.select_option("#course", course)
    shoot(page, "hour-1-course")
    page.locator("#spawn_form input[type=submit], #spawn_form button[type=submit]").click()
    page.wait_for_selector(".jp-Launcher")
    expect(page.locator("#jupyterlab-splash")).to_have_count(0)


def offered(page):
    """The kernels as the server tells them to its JupyterLab."""
    found = page.evaluate(
        """async () => {
            const { baseUrl } = JSON.parse(document.getElementById("jupyter-config-data").textContent);
            const headers = { "X-XSRFToken": document.cookie.match(/\\b_xsrf=([^;]*)/)?.[1] ?? "" };
            const told = await (await fetch(`${baseUrl}api/kernelspecs`, { headers })).json();
            return Object.values(told.kernelspecs).map(each => each.spec.display_name);
        }"""
    )
    return sorted(found)


def test_a_students_hour(lab, page, pool_of, course):
    course(sizes=["0.02 V100", "0.1 V100"])
    set_limit(lab, 20)
    ana = pool_of("ana")
    with slice_of(ana):
        start_server(lab, page, "ben", accounts.COURSE)
        # Of the two sizes on offer one is more than the course may hold.
        only = ["Python 3", "Python 3 (0.02 V100)"]
        wait(lambda: offered(page) == only, SOON, "the launcher shows other kernels than the course offers")
        page.reload()
        cards = page.locator('.jp-LauncherCard[data-category="Notebook"] .jp-LauncherCard-label')
        expect(cards).to_have_text(only)
        expect(page.locator("#jupyterlab-splash")).to_have_count(0)
        shoot(page, "hour-2-launcher")

        page.locator('.jp-LauncherCard[data-category="Notebook"][title*="0.02 V100"]').first.click()
        # The course is at its limit: the kernel starts at once all the same, and its first CUDA call waits.
        expect(page.get_by_text("Python 3 (0.02 V100) | Idle")).to_be_visible()
        notebook = Notebook(page)
        first = notebook.run(ADD)
        notebook.shows(first, "0.02 V100")
        shoot(page, "hour-3-waiting")
        expect(first).not_to_contain_text("right")
    notebook.shows(first, "right: True")
    shoot(page, "hour-4-went-on")

    notebook.shows(notebook.run("%gpu status"), "A slice of 0.02 V100", "memory", accounts.COURSE)
    notebook.shows(notebook.run("!nvidia-smi"), "V100", "MiB")
    shoot(page, "hour-5-status")
    set_limit(lab, ROOMY)
    notebook.shows(notebook.run("%gpu attach 0.1"), "A slice of 0.1 V100")
    shoot(page, "hour-6-attached")

    notebook.shows(notebook.run("%gpu release"), "The slice of 0.1 V100 was given back", "%gpu wait")
    wait(lambda: not lab.leases(), SOON, "a slice that was released is still there")
    set_limit(lab, 100)
    with slice_of(ana, "0.1 V100"):
        again = notebook.run("%gpu wait")
        notebook.shows(again, "You are next in the line for 0.1 V100", "so far; the interrupt button stops")
        shoot(page, "hour-7-line")
    notebook.shows(again, "A slice of 0.1 V100")
    shoot(page, "hour-8-granted")

    notebook.shows(notebook.run("%gpu release"), "was given back")
    course(user_hours_per_week=0.0)
    refused = notebook.run("%gpu wait")
    notebook.shows(refused, "Your GPU budget in ml101 is used up", "Ask your instructor for one")
    shoot(page, "hour-9-budget")

    page.goto(f"{lab.settings.url}/hub/home")
    page.locator("#stop").click()
    expect(page.locator("#stop")).to_be_hidden()
    shoot(page, "hour-10-stopped")
    wait(lambda: not lab.leases(), SOON, "the server was stopped, and its lease is still there")
