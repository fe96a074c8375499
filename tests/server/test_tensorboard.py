"""TensorBoard behind a user's own server: one click in the launcher, the server's login, no others' runs."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Page, expect
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from tests.browser import OUTPUT, PATIENCE_MS, needs_chromium, one_page
from tests.docs.documents import ROOT, code
from tests.provisioner.pool import Pool, wait_until
from tests.server.conftest import TOKEN, Server

GUIDE = ROOT / "docs" / "how-to" / "use-tensorboard.md"

pytestmark = pytest.mark.timeout(600)


def configuration(home: Path) -> str:
    """As the guide has it, but TensorBoard is in the server's own environment."""
    (given,) = code(GUIDE, "python")
    return given.replace('"/opt/pytorch/bin/python"', f"folder={str(home)!r}")


def started(home: Path, pool: Pool) -> Server:
    return Server(home, pool, configuration(home))


def write_run(folder: Path, name: str, values: list[float]) -> None:
    """A training run's losses, as a framework writes them."""
    writer = EventFileWriter(str(folder / "runs" / name))
    for step, value in enumerate(values):
        scalar = Summary(value=[Summary.Value(tag="loss", simple_value=value)])
        writer.add_event(Event(step=step, wall_time=1.8e9 + step, summary=scalar))
    writer.close()


@pytest.fixture(scope="module")
def ada(tmp_path_factory: pytest.TempPathFactory, pool: Pool) -> Iterator[Server]:
    server = started(tmp_path_factory.mktemp("ada"), pool)
    write_run(server.folder, "digits", [2.0, 1.0, 0.5])
    yield server
    server.close()


@pytest.fixture(scope="module")
def bob(tmp_path_factory: pytest.TempPathFactory, pool: Pool) -> Iterator[Server]:
    server = started(tmp_path_factory.mktemp("bob"), pool)
    write_run(server.folder, "faces", [3.0])
    yield server
    server.close()


def runs(server: Server) -> list[str]:
    """What TensorBoard has found by now."""
    return server.http.get("/tensorboard/data/runs").raise_for_status().json()


def board_of(server: Server) -> psutil.Process:
    """TensorBoard's process; it is started at the first visit."""
    server.http.get("/tensorboard/").raise_for_status()
    (board,) = [
        child
        for child in psutil.Process(server.process.pid).children(recursive=True)
        if "gpu_kernels.tensorboard" in child.cmdline()
    ]
    return board


def test_it_shows_the_losses_of_the_users_own_runs_and_of_nobody_elses(ada: Server, bob: Server) -> None:
    wait_until(lambda: runs(ada) == ["runs/digits"])
    wait_until(lambda: runs(bob) == ["runs/faces"])
    told = ada.http.get(
        "/tensorboard/data/plugin/scalars/scalars", params={"run": "runs/digits", "tag": "loss"}
    )
    assert [(step, value) for _, step, value in told.raise_for_status().json()] == [
        (0, 2.0),
        (1, 1.0),
        (2, 0.5),
    ]


def test_a_run_that_goes_on_is_seen(ada: Server) -> None:
    wait_until(lambda: "runs/digits" in runs(ada))
    write_run(ada.folder, "later", [1.0])
    wait_until(lambda: "runs/later" in runs(ada))
    shutil.rmtree(ada.folder / "runs" / "later")


@pytest.mark.parametrize("address", ["/tensorboard/", "/tensorboard/data/runs"])
def test_who_is_not_logged_in_sees_nothing(ada: Server, address: str) -> None:
    with ada.visitor() as stranger:
        answer = stranger.get(address)
        assert answer.status_code in (302, 403)
        assert "digits" not in answer.text
    with ada.visitor(headers={"Authorization": "token wrong"}) as stranger:
        assert stranger.get(address).status_code in (302, 403)


def test_it_listens_on_no_port_and_tells_nobody_on_the_machine(ada: Server) -> None:
    board = board_of(ada)
    everything = [board, *board.children(recursive=True)]
    assert [each for process in everything for each in process.net_connections("inet")] == []
    (path,) = {each.laddr for each in board.net_connections("unix") if each.laddr}
    folder = Path(path).parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert folder.stat().st_uid == os.getuid()
    told = Path(os.environ.get("TMPDIR", "/tmp")) / ".tensorboard-info" / f"pid-{board.pid}.info"
    assert not told.exists(), "TensorBoard's own command would tell where the runs are"


def test_it_ends_with_its_server(tmp_path: Path, pool: Pool) -> None:
    server = started(tmp_path, pool)
    board = board_of(server)
    server.process.kill()
    server.process.wait()
    wait_until(lambda: not board.is_running() or board.status() == psutil.STATUS_ZOMBIE)
    server.http.close()


@pytest.fixture
def page() -> Iterator[Page]:
    with one_page() as page:
        yield page


@pytest.mark.browser
@pytest.mark.slow
@needs_chromium
def test_one_click_in_the_launcher_shows_the_curve(ada: Server, page: Page) -> None:
    wait_until(lambda: "runs/digits" in runs(ada))
    page.goto(f"{ada.url}/lab?token={TOKEN}")
    card = page.locator(".jp-LauncherCard", has_text="TensorBoard")
    expect(card).to_be_visible()
    expect(page.locator("#jupyterlab-splash")).to_have_count(0)
    page.screenshot(path=OUTPUT / "tensorboard-launcher.png")
    with page.context.expect_page() as opened:
        card.click()
    board = opened.value
    board.set_default_timeout(PATIENCE_MS)
    expect(board.get_by_text("runs/digits").first).to_be_visible()
    expect(board.locator("line-chart svg, line-chart canvas").first).to_be_visible()
    expect(board.get_by_text("0.9286").first).to_be_visible()  # the last loss, smoothed
    board.screenshot(path=OUTPUT / "tensorboard.png")


def test_a_server_without_the_entry_has_none(server: Server) -> None:
    assert server.http.get("/tensorboard/", follow_redirects=True).status_code == 404
