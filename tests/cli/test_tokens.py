"""``jupyter gpu agents add`` and ``jupyter gpu tokens``: private files, good for whom they name."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_kernels.cli import main
from gpu_kernels.client import PoolClient
from gpu_kernels.errors import Forbidden, Unauthenticated
from gpu_kernels.exits import Exit
from gpu_kernels.private_file import new_private_file, write_private
from tests.cli.command_line import Run, command_line
from tests.pool.controller import Agent, ThreadedController


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[ThreadedController]:
    with ThreadedController(tmp_path / "state") as controller:
        yield controller


@pytest.fixture
def run(pool: ThreadedController, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)
    return command_line(pool, monkeypatch)


@pytest.fixture
def modes(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """With which mode each file that is opened by its number begins, where the umask hides nothing."""
    seen: dict[str, int] = {}
    real = os.open

    def spied(path, flags, mode=0o777, **others):
        there = os.path.lexists(path)
        descriptor = real(path, flags, mode, **others)
        if not there:
            seen[Path(path).name] = stat.S_IMODE(os.fstat(descriptor).st_mode)
        return descriptor

    monkeypatch.setattr(os, "open", spied)
    before = os.umask(0)
    yield seen
    os.umask(before)


def test_a_servers_token_is_private_from_its_first_byte_and_good_for_that_server(
    pool: ThreadedController, run: Run, capsys: pytest.CaptureFixture[str], modes: dict[str, int]
) -> None:
    assert run("root", "agents", "add", "gpu1") == Exit.OK
    assert modes["gpu1.token"] == stat.S_IMODE(Path("gpu1.token").stat().st_mode) == 0o600
    said, token = capsys.readouterr().out, Path("gpu1.token").read_text().strip()
    assert "jupyter gpu agent --name gpu1 --token-file gpu1.token" in said
    assert token not in said
    Agent(PoolClient(pool.url, token, 60.0), "gpu1").register()
    with pytest.raises(Forbidden):
        Agent(PoolClient(pool.url, token, 60.0), "gpu2").register()


def test_no_token_is_made_where_it_could_not_be_kept(
    pool: ThreadedController, run: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    there, link = tmp_path / "there", tmp_path / "link"
    there.write_text("mine")
    link.symlink_to(tmp_path / "elsewhere")
    for path in (there, link, tmp_path / "no" / "folder"):
        assert run("root", "agents", "add", "gpu1", "--file", str(path)) == Exit.USAGE
    assert "exists already, and no token was made" in capsys.readouterr().err
    assert (there.read_text(), (tmp_path / "elsewhere").exists()) == ("mine", False)
    assert pool.client("root").agent_tokens() == ()


def test_no_file_is_left_where_no_token_was_made(pool: ThreadedController, run: Run) -> None:
    assert run("ada", "agents", "add", "gpu1") == Exit.NO_PERMISSION
    assert run("root", "agents", "add", "gpu 1", "--file", "x") == Exit.USAGE
    assert not Path("gpu1.token").exists()
    assert not Path("x").exists()


def test_tokens_are_listed_and_taken_back(
    pool: ThreadedController, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("root", "agents", "add", "gpu1") == run("root", "agents", "add", "gpu2") == Exit.OK
    assert run("root", "agents", "add", "gpu1", "--file", "second") == Exit.OK
    capsys.readouterr()
    assert run("root", "agents", "tokens", "gpu1", "--json") == Exit.OK
    first, second = json.loads(capsys.readouterr().out)
    assert {first["agent"], second["agent"]} == {"gpu1"}
    assert run("root", "agents", "remove-token", "gpu1", "--token", second["id"]) == Exit.OK
    assert run("root", "agents", "tokens") == Exit.OK
    said = capsys.readouterr().out
    assert first["id"] in said
    assert [row.split()[0] for row in said.splitlines()[-2:]] == ["gpu1", "gpu2"]
    assert run("root", "agents", "remove-token", "gpu1") == Exit.OK
    with pytest.raises(Unauthenticated):
        PoolClient(pool.url, Path("gpu1.token").read_text().strip(), 60.0).pool()
    PoolClient(pool.url, Path("gpu2.token").read_text().strip(), 60.0).pool()
    assert run("root", "agents", "remove-token", "gpu1") != Exit.OK
    assert "gpu1 has no token" in capsys.readouterr().err


def alone(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["tokens", *arguments, "--state-dir", "pool"])
    return int(str(ended.value.code))


def test_peoples_tokens_are_private_from_their_first_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, modes: dict[str, int]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert alone("add", "ana", "--group", "ml101") == alone("add", "iris", "--scope", "x") == Exit.OK
    assert {modes[name] for name in modes if "token" in name} == {0o600}
    assert stat.S_IMODE(Path("pool").stat().st_mode) == 0o700
    assert stat.S_IMODE(Path("pool/tokens.json").stat().st_mode) == 0o600
    token = Path("ana.token").read_text().strip()
    entries = json.loads(Path("pool/tokens.json").read_text())
    assert token not in Path("pool/tokens.json").read_text()
    assert entries[hashlib.sha256(token.encode()).hexdigest()] == {
        "name": "ana",
        "groups": ["ml101"],
        "scopes": ["custom:gpu:use"],
    }


def test_a_token_of_a_person_comes_and_goes_while_the_controller_runs(
    pool: ThreadedController, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pool").symlink_to(tmp_path / "state")
    assert alone("add", "zoe", "--group", "ml101") == Exit.OK
    zoe = PoolClient(pool.url, Path("zoe.token").read_text().strip(), 60.0)
    assert [course.name for course in zoe.courses()] == ["ml101"]
    assert alone("list") == Exit.OK
    assert "zoe" in capsys.readouterr().out
    assert alone("remove", "zoe") == Exit.OK
    with pytest.raises(Unauthenticated):
        zoe.courses()
    assert pool.client("ada").courses()
    assert alone("remove", "zoe") != Exit.OK


def test_a_broken_file_of_tokens_is_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pool").mkdir()
    for text in ("{", "[]", '{"a": 1}'):
        Path("pool/tokens.json").write_text(text)
        assert alone("add", "ana") == Exit.USAGE
        assert "nothing was changed" in capsys.readouterr().err
        assert Path("pool/tokens.json").read_text() == text
    assert not Path("ana.token").exists()


def test_what_fails_while_a_secret_is_written_leaves_no_file(tmp_path: Path) -> None:
    def fail() -> None:
        with new_private_file(tmp_path / "secret") as file:
            file.write("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list(tmp_path.iterdir()) == []
    write_private(tmp_path / "secret", "one")
    write_private(tmp_path / "secret", "two")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("secret", "two")]
