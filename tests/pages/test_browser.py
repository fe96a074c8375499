"""The lab pages in a real browser: live, with a stream that breaks, by keyboard, on a phone, without scripts.

Screenshots are left in tests/output.
"""

import contextlib
from pathlib import Path

import pytest
from playwright.sync_api import TimeoutError, expect
from tornado.web import create_signed_value

from gpu_kernels.pool.service.feed import MOST_EACH
from gpu_kernels.spawner.ports import free_port
from tests.browser import OUTPUT, PATIENCE_MS, launched, needs_chromium
from tests.pages.site import PREFIX, SECRET, Site, in_days
from tests.pool.controller import Agent, ThreadedController, reserve, token
from tests.provisioner.pool import wait_until

ROOT = Path(__file__).parents[2]
AXE = ROOT / "hub_config" / "proxy" / "node_modules" / "axe-core" / "axe.min.js"
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
LOOKS = {"wide-light": (WIDE, "light"), "phone-dark": (PHONE, "dark")}

pytestmark = [
    pytest.mark.browser,
    needs_chromium,
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module")
def chromium():
    with launched() as browser:
        yield browser


@pytest.fixture
def open_page(chromium):
    """`open_page(site, "ada", "pool")` is ada's browser at that page."""
    with contextlib.ExitStack() as stack:

        def visit(site, who, address, *, viewport=WIDE, scheme="light", scripts=True, before=""):
            context = chromium.new_context(
                viewport=viewport, color_scheme=scheme, java_script_enabled=scripts, base_url=site.url
            )
            stack.callback(context.close)
            signed = create_signed_value(SECRET, site.cookie_name, token(who)).decode()
            context.add_cookies([{"name": site.cookie_name, "value": signed, "url": site.url}])
            page = context.new_page()
            page.set_default_timeout(PATIENCE_MS)
            page.complaints = complaints_of(page)
            page.add_init_script(before)
            page.status = page.goto(PREFIX + address).status
            return page

        yield visit


def complaints_of(page):
    """What the browser will say of scripts that fail and of what the pages' policy forbids; what a slow
    machine could not fetch in time is told on the page, and comes later.
    """
    complaints = []

    def said(message):
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            complaints.append(message.text)

    page.on("console", said)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    return complaints


class Servers:
    """All of the pool's GPU servers. Where a slice lands is the pool's choice, and heeds class hours of the
    next hours: so all of them carry out what there is, whatever the time is.
    """

    def __init__(self, *agents):
        self._agents = agents

    def carry_out(self):
        for agent in self._agents:
            agent.carry_out()


@pytest.fixture(scope="module")
def servers(controller, gpu):
    other = Agent(controller.client("other-server"), name="gpu2")
    other.register(uuid="GPU-2")
    return Servers(gpu, other)


@pytest.fixture(scope="module")
def lesson(controller, servers):
    """A course at work: some hold, one waits, a class hour is booked."""
    with (
        controller.client("root") as root,
        controller.client("ada") as ada,
        controller.client("bob") as bob,
        controller.client("eve") as eve,
        controller.client("grace") as grace,
    ):
        root.set_limit("ml101", {"V100": 600})
        root.set_limit("cv202", {"V100": 2000})
        root.set_rules("ml101", {"hours_per_week": 40.0, "user_hours_per_week": 4.0, "max_leases": 5})
        hour = grace.add_class_hour(
            course="ml101", size="0.02 V100", seats=5, weekdays=["monday", "thursday"], start="10:00",
            minutes=90, last_date=in_days(100),
        )  # fmt: skip
        leases = [
            (ada, reserve(ada, "week1/first_steps.ipynb", "0.1 V100")),
            (bob, reserve(bob, "week1/first_steps.ipynb", "0.2 V100")),
            (eve, reserve(eve, "vision.ipynb", "0.6 V100")),
            (eve, reserve(eve, "more vision.ipynb", "0.7 V100")),
            (eve, reserve(eve, "most vision.ipynb", "0.5 V100", wait=600)),
        ]
        servers.carry_out()
        root.put_account(
            "ml101-grading", kind="course", parent=None, weight=1.0, rules={"hours_per_week": 10}
        )
        root.set_limit("ml101-grading", {"V100": 100})
        yield
        for pool, lease in leases:
            pool.release(lease.id, lease.holder)
        root.remove_account("ml101-grading")
        grace.cancel_class_hour(hour.id)
        root.set_rules("ml101", {})
        root.set_limit("ml101", {"V100": 100})
        servers.carry_out()


PAGES = {
    "home": ("ada", "", "My GPUs"),
    "course": ("grace", "courses/ml101", "ml101"),
    "class-hours": ("grace", "courses/ml101/class-hours", "Class hours"),
    "pool": ("root", "pool", "The pool"),
    "server": ("root", "servers/gpu1", "gpu1"),
    "history": ("root", "history", "History"),
    "audit": ("root", "audit", "Audit log"),
    "missing": ("root", "nowhere", "There is no such page"),
}


def shoot(page, name):
    page.screenshot(path=OUTPUT / f"lab-pages-{name}.png", full_page=True)


def is_live(page):
    expect(page.locator("[data-live-text]")).to_have_text("Live: this page changes by itself.")


def try_now(page):
    """Press the button; the page may have tried again by itself since, and then there is none."""
    button = page.get_by_role("button", name="Try now")

    def lives():
        if not button.is_visible():
            return page.locator("[data-live-text]").inner_text() == "Live: this page changes by itself."
        with contextlib.suppress(TimeoutError):
            button.click(timeout=1000)
        return False

    wait_until(lives, PATIENCE_MS / 1000)


@pytest.mark.parametrize("looks", LOOKS)
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_serious_and_nothing_is_wider_than_the_screen(open_page, site, lesson, name, looks):
    viewport, scheme = LOOKS[looks]
    who, address, heading = PAGES[name]
    page = open_page(site, who, address, viewport=viewport, scheme=scheme)
    assert page.status == (404 if name == "missing" else 200)
    expect(page.get_by_role("heading", level=1)).to_have_text(heading)
    if page.locator("main[data-live]").count():
        is_live(page)
    shoot(page, f"{name}-{looks}")
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    assert page.complaints == []
    assert serious_violations(page) == []


def serious_violations(page):
    if not AXE.exists():
        pytest.skip("axe-core is not installed here (npm ci in hub_config/proxy)")
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
    return [
        (entry["id"], node["html"][:200], node["failureSummary"][:300])
        for entry in found
        if entry["impact"] in ("serious", "critical")
        for node in entry["nodes"]
    ]


def test_a_page_shows_what_changes_while_somebody_types_in_it(open_page, site, lesson, controller, servers):
    page = open_page(site, "grace", "courses/ml101")
    is_live(page)
    reason = page.get_by_label("Text for the students")
    reason.fill("Back at ten")
    page.locator("summary", has_text="as a table").first.evaluate_all(
        "all => all.forEach(one => one.click())"
    )
    with controller.client("bob") as bob:
        lease = reserve(bob, "surprise.ipynb")
        servers.carry_out()
        students = page.locator("[data-fragment=students]")
        expect(students).to_contain_text("surprise.ipynb")
        expect(reason).to_be_focused()
        expect(reason).to_have_value("Back at ten")
        bob.release(lease.id, lease.holder)
        servers.carry_out()
        expect(students).not_to_contain_text("surprise.ipynb")
    assert page.complaints == []


SOONER = "const own = window.setInterval; window.setInterval = (what, _) => own(what, 300);"


def test_a_page_shows_what_no_event_tells_its_visitor(open_page, site, lesson, controller, servers):
    """Another student's slice is none of ada's business, and what the course holds is."""
    page = open_page(site, "ada", "", before=SOONER)
    is_live(page)
    course = page.locator("[data-fragment=budgets] tbody tr", has_text="The course now")
    expect(course).to_contain_text("0.3")
    with controller.client("bob") as bob:
        lease = reserve(bob, "of another.ipynb", "0.05 V100")
        expect(course).to_contain_text("0.35")
        bob.release(lease.id, lease.holder)
        servers.carry_out()
    assert page.complaints == []


def test_the_focus_stays_on_a_link_of_a_part_that_is_made_anew(open_page, site, lesson, controller, servers):
    page = open_page(site, "root", "pool")
    is_live(page)
    link = page.locator("[data-fragment=servers] a", has_text="gpu2")
    link.focus()
    with controller.client("bob") as bob:
        lease = reserve(bob, "another.ipynb")
        servers.carry_out()
        expect(page.locator("[data-fragment=leases] tbody tr").first).to_contain_text("bob")
        expect(link).to_be_focused()
        bob.release(lease.id, lease.holder)
        servers.carry_out()


def test_a_refused_form_keeps_what_was_typed_and_is_looked_at(open_page, site, lesson):
    page = open_page(site, "grace", "courses/ml101")
    field = page.locator("#limit-limit\\.V100")
    field.fill("1e9")
    page.get_by_role("button", name="Set the limit").click()
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_have_value("1e9")
    expect(field).to_be_focused()
    expect(page.get_by_text("A number from 0 to 100000, such as 0.5")).to_be_visible()
    shoot(page, "course-refused")
    field.fill("0.55")
    page.get_by_role("button", name="Set the limit").click()
    expect(page.locator("#done")).to_contain_text("The limit holds from now on.")
    is_live(page)


def test_a_form_of_several_buttons_is_sent_by_script(open_page, site, lesson):
    page = open_page(site, "grace", "courses/ml101?student=eve")
    page.fill("#override-override\\.max_leases", "1")
    page.locator("#form-override").get_by_role("button", name="Set", exact=True).click()
    expect(page.locator("#done")).to_contain_text("The student's own rules hold from now on.")
    page.goto(page.url.partition("?")[0] + "?student=eve")
    page.get_by_role("button", name="Remove own rules").click()
    expect(page.locator("#done")).to_contain_text("The course's rules hold for the student again.")


def test_forms_work_without_scripts(open_page, site, lesson):
    page = open_page(site, "grace", "courses/ml101", scripts=False)
    page.fill("#limit-limit\\.V100", "much")
    page.get_by_role("button", name="Set the limit").click()
    expect(page.locator("#limit-limit\\.V100")).to_have_value("much")
    expect(page.get_by_text("A number from 0 to 100000, such as 0.5")).to_be_visible()
    page.fill("#limit-limit\\.V100", "0.6")
    page.get_by_role("button", name="Set the limit").click()
    expect(page.locator("#done")).to_contain_text("The limit holds from now on.")


def test_the_keyboard_reaches_the_content_first_and_every_form(open_page, site, lesson):
    page = open_page(site, "grace", "courses/ml101")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    field = page.locator("#limit-limit\\.V100")
    field.focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("0.6")
    page.keyboard.press("Enter")
    expect(page.locator("#done")).to_be_visible()


def test_the_controller_away_is_said_and_what_is_typed_is_kept_until_it_is_back(open_page, tmp_path):
    port = free_port()
    with ThreadedController(tmp_path / "state", port=port) as controller:
        Agent(controller.client("gpu-server")).register()
        site = Site(controller.url, tmp_path)
        site.__enter__()
        try:
            page = open_page(site, "grace", "courses/ml101")
            is_live(page)
            controller.stop()
            line = page.locator("[data-live-text]")
            expect(line).to_contain_text("the GPU pool cannot be reached")
            field = page.locator("#limit-limit\\.V100")
            field.fill("0.33")
            page.get_by_role("button", name="Set the limit").click()
            trouble = page.locator("#form-limit").locator("xpath=..").locator("[data-form-trouble]")
            expect(trouble).to_contain_text("The GPU pool does not answer")
            expect(field).to_have_value("0.33")
            shoot(page, "course-away")
            with ThreadedController(tmp_path / "state", port=port) as again:
                Agent(again.client("gpu-server"), boot="2").register()
                try_now(page)
                expect(field).to_have_value("0.33")
                page.get_by_role("button", name="Set the limit").click()
                expect(page.locator("#done")).to_be_visible()
                with again.client("grace") as pool:
                    assert pool.course("ml101").limits == {"V100": 330}
        finally:
            site.__exit__()


def test_a_page_that_could_not_be_made_comes_by_itself_when_the_controller_does(open_page, tmp_path):
    port = free_port()
    with Site(f"http://127.0.0.1:{port}", tmp_path) as site:
        page = open_page(site, "root", "pool")
        expect(page.get_by_role("heading", name="The GPU pool does not answer")).to_be_visible()
        expect(page.locator("[data-retry-line]")).to_contain_text("tries again by itself")
        shoot(page, "pool-away")
        with ThreadedController(tmp_path / "state", port=port):
            expect(page.get_by_role("heading", name="The pool", exact=True)).to_be_visible()


def test_the_pages_away_leave_what_is_typed(open_page, controller, gpu, tmp_path):
    site = Site(controller.url, tmp_path)
    with site:
        page = open_page(site, "grace", "courses/ml101")
        is_live(page)
        page.get_by_label("Text for the students").fill("Back at ten")
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.get_by_text("This was not sent, because the lab pages could not be reached.")).to_be_visible()
    expect(page.get_by_label("Text for the students")).to_have_value("Back at ten")


def readers(controller, who):
    """How many streams of changes somebody has."""
    return controller.app.service.desk.feed._readers[who]


def test_a_page_that_nobody_sees_leaves_its_connection_to_the_others(
    open_page, site, lesson, controller, servers
):
    wait_until(lambda: readers(controller, "bob") == 0)
    page = open_page(site, "bob", "")
    is_live(page)
    assert readers(controller, "bob") == 1

    def look(hidden):
        page.evaluate(
            "hidden => {"
            " Object.defineProperty(document, 'hidden', { get: () => hidden, configurable: true });"
            " document.dispatchEvent(new Event('visibilitychange')); }",
            hidden,
        )

    look(hidden=True)
    wait_until(lambda: readers(controller, "bob") == 0)
    with controller.client("bob") as bob:
        lease = reserve(bob, "while hidden.ipynb", "0.01 V100")
        look(hidden=False)
        expect(page.get_by_text("while hidden.ipynb").first).to_be_visible()
        wait_until(lambda: readers(controller, "bob") == 1)
        bob.release(lease.id, lease.holder)
        servers.carry_out()


def test_one_page_too_many_says_so_and_is_live_when_another_is_closed(open_page, site, lesson, controller):
    streams = []
    wait_until(lambda: readers(controller, "root") == 0)  # an earlier test's page may count a moment longer
    with contextlib.ExitStack() as others:
        root = site.visitor("root")
        others.callback(root.http.close)
        for _ in range(MOST_EACH):
            stream = others.enter_context(root.http.stream("GET", f"{PREFIX}events?topics=pool"))
            assert stream.status_code == 200
            streams.append(stream.iter_lines())  # kept: one that is forgotten is hung up
            next(streams[-1])
        page = open_page(site, "root", "pool")
        expect(page.locator("[data-live-text]")).to_have_text(
            "Not live: too many pages of yours follow the pool. Close some of them."
        )
        expect(page.locator("[data-live-count]")).to_contain_text("Next try in")
        expect(page.get_by_role("heading", name="The pool", exact=True)).to_be_visible()
        shoot(page, "too-many")
    wait_until(lambda: readers(controller, "root") == 0)
    try_now(page)
