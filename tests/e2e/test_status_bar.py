"""The slice of the notebook in front, in JupyterLab's status bar: shown, given back, asked for, told of.

Screenshots are left in tests/output.
"""

from __future__ import annotations

import re
import shutil

import pytest
from playwright.sync_api import expect

from gpu_kernels.hub_config.lab import accounts
from gpu_kernels.hub_config.lab.settings import CONFIGURATION, LAB_EXTENSION
from gpu_kernels.hub_config.lab.student_path import SPEC
from gpu_kernels.hub_config.lab.supervisor import wait
from tests.e2e.conftest import SOON, set_limit
from tests.e2e.test_browser import log_in, page, pytestmark, shoot

__all__ = ["page", "pytestmark"]

BUILT = LAB_EXTENSION / "gpu-kernels" / "package.json"
AXE = CONFIGURATION / "proxy" / "node_modules" / "axe-core" / "axe.min.js"
needs_the_extension = pytest.mark.skipif(not BUILT.exists(), reason="JupyterLab's extension is not built")
SMALL = "Python 3 (0.02 V100)"


def item(page):
    return page.locator(".jp-GPUSlice-button")


def popup(page):
    return page.get_by_role("dialog", name="Slice of a GPU")


def toast(page, text):
    return page.locator(".Toastify__toast", has_text=text)


def open_fresh_lab(lab, page, name):
    """As somebody who has nothing open yet, whatever an earlier test left open: JupyterLab would open that
    again, and start a kernel for it.
    """
    shutil.rmtree(lab.settings.homes / name / ".jupyter" / "lab" / "workspaces", ignore_errors=True)
    log_in(lab, page, name)
    page.wait_for_selector("#jp-main-dock-panel")
    page.goto(f"{lab.settings.url}/user/{name}/lab?reset")
    page.wait_for_selector(".jp-Launcher")
    expect(page.locator("#jupyterlab-splash")).to_have_count(0)


def violations(page):
    """What axe finds wrong with the item and the popup; JupyterLab's own is left to JupyterLab."""
    if not AXE.exists():
        return []
    page.evaluate(AXE.read_text())
    ours = ".jp-GPUSlice-item, .jp-GPUSlice-popup"
    found = page.evaluate("ours => axe.run(ours, {resultTypes: ['violations']})", ours)["violations"]
    return [(entry["id"], node["html"][:200]) for entry in found for node in entry["nodes"]]


def choose_theme(page, theme):
    page.get_by_role("menuitem", name="Settings", exact=True).click()
    page.get_by_text("Theme", exact=True).hover()
    page.get_by_text(theme, exact=True).click()


def open_notebook(page):
    page.locator(".jp-DirListing-item", has_text="first_steps.ipynb").dblclick()
    expect(page.get_by_text(f"{SMALL} | Idle")).to_be_visible()


@needs_the_extension
def test_the_slice_is_shown_given_back_and_asked_for_in_another_size(lab, page):
    open_fresh_lab(lab, page, "ana")
    expect(item(page)).to_have_count(0)
    open_notebook(page)
    expect(item(page)).to_contain_text(re.compile(r"0\.02 V100.*0 of 655 MiB.*left"))
    shoot(page, "status-bar")

    item(page).click()
    expect(popup(page)).to_be_focused()
    expect(popup(page)).to_contain_text("charged to ml101")
    shoot(page, "status-bar-popup")
    assert violations(page) == []
    popup(page).get_by_role("button", name="Release").press("Enter")
    expect(item(page)).to_have_text("No GPU slice")
    expect(popup(page)).to_contain_text("it costs nothing from now on")
    shoot(page, "status-bar-released")

    popup(page).get_by_label("Another size").select_option("0.1 V100")
    popup(page).get_by_role("button", name="Attach").click()
    expect(item(page)).to_contain_text("0.1 V100")
    page.keyboard.press("Escape")
    expect(popup(page)).to_have_count(0)
    expect(item(page)).to_be_focused()

    page.keyboard.press("Control+Shift+L")
    expect(item(page)).to_be_hidden()


FILL = """
from numba import cuda
import numpy
kept = cuda.device_array(610 * 2**20, numpy.uint8)
"""


@pytest.fixture
def rules(lab):
    """Sets the course's rules, until the test is over."""
    with lab.pool as pool:
        yield lambda **rules: pool.set_rules(accounts.COURSE, rules)
        pool.set_rules(accounts.COURSE, {})


@needs_the_extension
def test_memory_that_is_nearly_full_stands_out_also_in_the_dark_and_not_by_colour_alone(
    lab, page, person, rules
):
    rules(user_hours_per_week=4)
    open_fresh_lab(lab, page, "ana")
    open_notebook(page)
    with person("ana") as ana:
        ana.open_lab()
        (session,) = ana.sessions()
        with ana.channel(session["kernel"]["id"]) as channel:
            assert channel.execute(FILL).error is None
    expect(item(page).locator(".jp-GPUSlice-warned")).to_contain_text("of 655 MiB")
    assert "memory nearly full" in item(page).get_attribute("aria-label")

    choose_theme(page, "JupyterLab Dark")
    expect(page.locator('body[data-jp-theme-light="false"]')).to_have_count(1)
    item(page).click()
    expect(popup(page)).to_contain_text("nearly full")
    expect(popup(page)).to_contain_text("of 4 GPU-hours spent")
    shoot(page, "status-bar-dark")
    assert violations(page) == []
    page.keyboard.press("Escape")
    choose_theme(page, "JupyterLab Light")
    expect(page.locator('body[data-jp-theme-light="true"]')).to_have_count(1)


@needs_the_extension
def test_who_waits_sees_the_line_move_and_is_told_when_the_slice_is_there(lab, page, at_work):
    set_limit(lab, 20)
    other = at_work(accounts.INSTRUCTOR)
    session = other.start_kernel(SPEC, "held.ipynb")
    wait(lambda: [lease.in_force for lease in lab.leases()] == [True], SOON, "the first kernel has no slice")
    open_fresh_lab(lab, page, "ana")
    open_notebook(page)
    expect(item(page)).to_contain_text("0.02 V100")
    expect(item(page)).to_contain_text("number 1")
    item(page).click()
    expect(popup(page).get_by_text(re.compile(r"^([6-9]|\d\d) s$"))).to_be_visible()
    shoot(page, "status-bar-waiting")
    page.keyboard.press("Escape")

    other.end_session(session["id"])
    expect(toast(page, "Your GPU slice of 0.02 V100 is ready")).to_be_visible()
    expect(item(page)).to_contain_text("MiB")
    shoot(page, "status-bar-granted")

    (lease,) = [lease for lease in lab.leases() if lease.user == "ana"]
    with lab.pool as pool:
        pool.revoke(lease.id, "the room is needed")
    expect(toast(page, "The room is needed")).to_be_visible()
    shoot(page, "status-bar-lost")


@needs_the_extension
def test_what_ends_soon_and_what_is_refused_is_told(lab, page, rules):
    rules(longest_life=300)
    open_fresh_lab(lab, page, "ana")
    open_notebook(page)
    ends = toast(page, re.compile(r"0\.02 V100 ends in \d min"))
    expect(ends).to_contain_text("first_steps.ipynb")
    expect(item(page).locator(".jp-GPUSlice-warned")).to_contain_text("min left")
    ends.get_by_role("button", name="Details").click()
    expect(popup(page)).to_contain_text("then it reaches its time limit")

    rules(longest_life=300, paused="The room is needed.")
    popup(page).get_by_label("Another size").select_option("0.1 V100")
    popup(page).get_by_role("button", name="Attach").click()
    expect(toast(page, "ml101")).to_be_visible()
    expect(popup(page)).to_contain_text("You still have 0.02 V100.")
    expect(toast(page, "gives out no GPUs at the moment: The room is needed.")).to_have_count(1)
    shoot(page, "status-bar-refused")


@needs_the_extension
def test_without_a_stream_it_is_asked_for_and_without_an_answer_it_is_called_old(lab, page):
    page.route("**/gpu-lab/api/events*", lambda route: route.abort())
    open_fresh_lab(lab, page, "ana")
    open_notebook(page)
    expect(item(page)).to_contain_text("0.02 V100")
    page.route("**/gpu-lab/api/kernels/*", lambda route: route.abort())
    expect(item(page)).to_contain_text("not up to date")
    shoot(page, "status-bar-old")
    page.unroute_all()
    page.evaluate("window.dispatchEvent(new Event('online'))")
    expect(item(page)).not_to_contain_text("not up to date")


HIDE = """hidden => {
    Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});
    document.dispatchEvent(new Event('visibilitychange'));
}"""


@needs_the_extension
def test_a_page_out_of_sight_listens_to_nothing_and_catches_up_when_it_is_seen_again(lab, page, person):
    open_fresh_lab(lab, page, "ana")
    open_notebook(page)
    expect(item(page)).to_contain_text("MiB")
    with page.expect_event("requestfailed", lambda request: "/gpu-lab/api/events" in request.url):
        page.evaluate(HIDE, True)
    with person("ana") as ana:
        ana.open_lab()
        (session,) = ana.sessions()
        ana.server_fetch("POST", f"gpu-lab/api/kernels/{session['kernel']['id']}/release")
    with page.expect_request("**/gpu-lab/api/events*"):
        page.evaluate(HIDE, False)
    expect(item(page)).to_have_text("No GPU slice")
