"""GPU-hours on the pages that start a server: from a real controller, and from controllers with a fault."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from jinja2 import ChoiceLoader, DictLoader, Environment, FileSystemLoader

from gpu_kernels.resources.accounts import Spent
from gpu_kernels.resources.courses import Course
from gpu_kernels.spawner import budgets
from gpu_kernels.spawner.budgets import Shown, StartPageBudgets, shown_of
from tests.pool.controller import Agent, ThreadedController, token

TEMPLATES = Path(__file__).parents[2] / "hub_config" / "templates"
UTC = ZoneInfo("UTC")


class User:
    """A user of the hub whose tokens the controller's file knows."""

    def __init__(self, name: str = "ada") -> None:
        self.name = name
        self.made: list[dict[str, Any]] = []

    def new_api_token(self, **asked: Any) -> str:
        self.made.append(asked)
        return token(self.name)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def pages_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow this machine is, but where a test says otherwise."""
    monkeypatch.setattr(budgets, "WAIT_S", 60.0)


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedController]:
    with ThreadedController(tmp_path_factory.mktemp("pool")) as running:
        agent = Agent(running.client("gpu-server"))
        agent.register()
        rules = {
            "hours_per_week": 40,
            "user_hours_per_week": 4,
            "user_hours_rolling": {"hours": 0, "window": 24},
        }
        running.client("root").set_rules("ml101", rules)
        yield running


@asynccontextmanager
async def silent_controller() -> AsyncIterator[tuple[str, list[int]]]:
    """Takes every connection and never answers."""
    came: list[int] = []
    gone = asyncio.Event()

    async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(1)
        await gone.wait()
        writer.close()

    server = await asyncio.start_server(keep, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", came
        gone.set()


async def test_the_budgets_are_those_that_the_controller_tells(controller: ThreadedController) -> None:
    user = User()
    shown = await StartPageBudgets(controller.url).of(user)
    lines = {(line.course, line.whose, line.window): line for line in shown.lines}
    assert lines.keys() == {("ml101", "user", None), ("ml101", "user", 24), ("ml101", "course", None)}
    assert (lines["ml101", "user", None].left, lines["ml101", "course", None].most) == (4.0, 40.0)
    assert lines["ml101", "user", 24].level == "danger"
    assert [line.whose for line in shown.lines][-1] == "course", "one's own come first"
    (asked,) = user.made
    assert asked["scopes"] == ["access:services!service=gpu", "custom:gpu:use!user"]
    assert asked["expires_in"] == budgets.TOKEN_S


async def test_it_is_asked_once_in_a_while_and_with_one_token(controller: ThreadedController) -> None:
    user, clock = User(), Clock()
    start = StartPageBudgets(controller.url, clock=clock)
    first = await asyncio.gather(*(start.of(user) for _ in range(5)))
    assert all(shown is first[0] for shown in first)
    clock.now += budgets.KEEP_S
    assert await start.of(user) is not first[0]
    assert len(user.made) == 1
    clock.now += budgets.TOKEN_S
    await start.of(user)
    assert len(user.made) == 2


async def test_a_controller_that_does_not_answer_holds_no_page_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "WAIT_S", 0.05)
    async with silent_controller() as (url, came):
        start = StartPageBudgets(url)
        pages = await asyncio.gather(*(start.of(User()) for _ in range(20)))
        assert pages == [Shown(away=True)] * 20, "told while the question still waits"
        assert len(came) <= 1, "all pages of one user ask once"
        for task in start._asking.values():
            task.cancel()


async def test_a_controller_that_is_away_is_told_and_not_asked_for_each_page() -> None:
    clock, user = Clock(), User()
    start = StartPageBudgets("http://127.0.0.1:9", clock=clock)
    assert await start.of(user) == Shown(away=True)
    assert await start.of(user) == Shown(away=True)
    assert len(user.made) == 1


async def test_who_may_not_use_the_pool_and_who_is_not_logged_in_see_nothing(caplog: Any) -> None:
    class Unscoped(User):
        def new_api_token(self, **asked: Any) -> str:
            raise ValueError("not their scopes")

    start = StartPageBudgets("http://127.0.0.1:9")
    assert await start.of(Unscoped()) == Shown()
    assert await start.of(None) == Shown()


async def test_what_is_remembered_is_bounded(controller: ThreadedController, monkeypatch: Any) -> None:
    monkeypatch.setattr(budgets, "MOST_USERS", 2)
    start = StartPageBudgets(controller.url)
    for name in ("ada", "bob", "eve"):
        await start.of(User(name))
    assert list(start._known) == ["bob", "eve"]
    assert set(start._tokens) == {"bob", "eve"}


def test_times_are_by_the_institutions_clocks() -> None:
    spent = Spent("hours_per_week", "course", 4.0, 4.0, "2027-02-28T23:00:00+00:00")
    course = Course(
        name="ml101", limit={}, held={}, quota={}, rules={"hours_per_week": 4.0}, budgets=(spent,),
        faults=(), instructor=False,
    )  # fmt: skip
    (line,) = shown_of([course], ZoneInfo("Europe/Berlin")).lines
    assert line.until == "Mon 01 Mar, 00:00"
    assert (line.left, line.percent, line.level) == (0.0, 100, "danger")


async def page(template: str, shown: Shown, **given: Any) -> str:
    """A page of the hub as it is rendered there, with the stock page left out."""
    stock = DictLoader({f"templates/{template}": "{% block main %}stock{% endblock %}"})
    loader = ChoiceLoader([stock, FileSystemLoader(str(TEMPLATES))])
    environment = Environment(loader=loader, autoescape=True, enable_async=True)

    async def told() -> Shown:
        return shown

    return await environment.get_template(template).render_async(gpu_budgets=told, **given)


@pytest.mark.parametrize("template", ["home.html", "spawn.html", "not_running.html"])
async def test_the_pages_that_start_a_server_show_what_is_left(template: str) -> None:
    nasty = "<script>alert(1)</script>"
    budget = budgets.Line(nasty, "user", 1.25, 4.0, "", None)
    text = await page(template, Shown([budget], [("ds200", nasty)]), user=SimpleNamespace(name="ada"))
    assert "stock" in text
    assert "<strong>2.8</strong> of 4.0 left" in " ".join(text.split())
    assert nasty not in text
    assert text.count("&lt;script&gt;") == 2
    away = await page(template, Shown(away=True), user=SimpleNamespace(name="ada"))
    assert "The GPU pool does not answer now" in away
    assert "GPU" not in await page(template, Shown(), user=SimpleNamespace(name="ada"))


async def test_an_admin_who_starts_a_server_for_somebody_is_not_shown_the_own_budgets() -> None:
    shown = Shown([budgets.Line("ml101", "user", 1.0, 4.0, "", None)])
    people = {"user": SimpleNamespace(name="adam"), "for_user": SimpleNamespace(name="ada")}
    assert "GPU" not in await page("spawn.html", shown, **people)
