"""Who asks: the token file, the hub, scopes with filters, and what is remembered."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application, RequestHandler

from gpu_kernels.errors import AuthenticationUnavailable, Unauthenticated
from gpu_kernels.pool.service import authentication
from gpu_kernels.pool.service.authentication import Authenticator, HubTokens, InsecureFile, TokenFile
from gpu_kernels.pool.service.identity import (
    ADMIN_POOL,
    ADMIN_QUOTA,
    AGENT,
    READ_USAGE,
    USE,
    Identity,
)
from gpu_kernels.pool.service.proofs import Proofs


def who(*scopes: str, groups: tuple[str, ...] = (), admin: bool = False) -> Identity:
    return Identity.from_model({"name": "ada", "groups": groups, "scopes": scopes, "admin": admin})


class TestScopes:
    @pytest.mark.parametrize(
        ("scope", "wanted", "about", "allowed"),
        [
            (USE, USE, {}, True),
            (f"{USE}!user=ada", USE, {}, True),
            (f"{USE}!user", USE, {}, True),
            (f"{USE}!user=bob", USE, {}, False),
            (f"{USE}!server=ada/lab", USE, {"server": "lab"}, True),
            (f"{USE}!server=ada/", USE, {"server": ""}, True),
            (f"{USE}!server=ada/lab", USE, {"server": ""}, False),
            (f"{USE}!server=bob/lab", USE, {"server": "lab"}, False),
            (f"{USE}!group=ml101", USE, {"course": "ml101"}, True),
            (f"{USE}!group=ml101", USE, {"course": "cv202"}, False),
            (f"{USE}!service=x", USE, {}, False),
            (f"{ADMIN_QUOTA}!group=ml101", ADMIN_QUOTA, {"course": "ml101"}, True),
            (f"{ADMIN_QUOTA}!group=ml101", ADMIN_QUOTA, {"course": "cv202"}, False),
            (f"{ADMIN_QUOTA}!group=ml101", ADMIN_QUOTA, {}, False),
            (f"{ADMIN_QUOTA}!group=ml101", READ_USAGE, {"course": "ml101"}, True),
            (ADMIN_POOL, ADMIN_QUOTA, {"course": "ml101"}, False),
            (ADMIN_POOL, READ_USAGE, {}, True),
            (f"{READ_USAGE}!user", READ_USAGE, {}, False),
            (f"{ADMIN_POOL}!user=ada", ADMIN_POOL, {}, False),
            (f"{ADMIN_QUOTA}!user=ada", ADMIN_QUOTA, {"course": "ml101"}, False),
            (ADMIN_QUOTA, ADMIN_POOL, {}, False),
            (ADMIN_POOL, USE, {}, False),
            (ADMIN_POOL, AGENT, {}, False),
            (f"{USE}x", USE, {}, False),
        ],
    )
    def test_a_scope_allows_what_it_says(
        self, scope: str, wanted: str, about: dict[str, str], allowed: bool
    ) -> None:
        assert who(scope).may(wanted, **about) is allowed

    def test_a_token_administers_by_its_scopes_and_not_by_its_owners_being_admin(self) -> None:
        notebook = who(USE, admin=True)
        for scope in (ADMIN_POOL, ADMIN_QUOTA, READ_USAGE, AGENT):
            assert not notebook.may(scope, course="ml101")
        assert notebook.may(USE)
        assert not who(ADMIN_POOL).may(USE)

    def test_instructors_teach_by_their_group(self) -> None:
        assert who(groups=("ml101-instructors",)).teaches("ml101")
        assert not who(groups=("ml101",)).teaches("ml101")


def entry(token: str, **fields: Any) -> dict[str, Any]:
    return {hashlib.sha256(token.encode()).hexdigest(): {"name": "ada", **fields}}


def write(path: Path, content: object, mode: int = 0o600) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    path.chmod(mode)
    return path


class TestTokenFile:
    async def test_it_knows_tokens_and_forgets_expired_ones(self, tmp_path: Path) -> None:
        path = write(
            tmp_path / "tokens.json",
            {
                **entry("good", groups=["ml101"], scopes=[USE], expires_at="2999-01-01T00:00:00Z"),
                **entry("late", expires_at="2020-01-01T00:00:00+01:00"),
            },
        )
        tokens = TokenFile(path)
        identity = await tokens.identify("good")
        assert identity == Identity("ada", frozenset({"ml101"}), frozenset({USE}))
        assert await tokens.identify("late") is None
        assert await tokens.identify("other") is None

    async def test_a_change_is_seen(self, tmp_path: Path) -> None:
        path = write(tmp_path / "tokens.json", entry("one"))
        tokens = TokenFile(path)
        write(tmp_path / "new", entry("two")).rename(path)
        assert await tokens.identify("one") is None
        assert await tokens.identify("two") is not None

    async def test_a_file_that_was_broken_lets_nobody_in(self, tmp_path: Path) -> None:
        path = write(tmp_path / "tokens.json", entry("one"))
        tokens = TokenFile(path)
        write(tmp_path / "new", "{").rename(path)
        with pytest.raises(AuthenticationUnavailable):
            await tokens.identify("one")

    @pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
    def test_a_file_that_others_may_read_is_refused(self, tmp_path: Path, mode: int) -> None:
        path = write(tmp_path / "tokens.json", entry("one"), mode)
        with pytest.raises(InsecureFile, match=f"it has mode 0{mode:o}. Run: chmod 600"):
            TokenFile(path)

    @pytest.mark.parametrize(
        ("content", "text"),
        [
            ([], "must be an object"),
            ({"token-in-clear": {"name": "ada"}}, "is not the SHA-256 of a token"),
            ({"0" * 64: {}}, "has no name"),
            ({"0" * 64: {"name": "ada", "scopes": "custom:gpu:use"}}, "scopes of ada must be a list"),
            ({"0" * 64: {"name": "ada", "role": "x"}}, "unknown fields: role"),
            ({"0" * 64: {"name": "ada", "expires_at": "2027-01-01"}}, "needs a time zone"),
        ],
    )
    def test_a_file_that_makes_no_sense_is_refused(self, tmp_path: Path, content: object, text: str) -> None:
        with pytest.raises(ValueError, match=text):
            TokenFile(write(tmp_path / "tokens.json", content))


class TestKey:
    def test_the_key_is_made_once_and_private(self, tmp_path: Path) -> None:
        path = tmp_path / "key"
        secret = Proofs.from_file(path).secret("lease", 1)
        assert path.stat().st_mode & 0o777 == 0o600
        assert Proofs.from_file(path).secret("lease", 1) == secret
        assert list(tmp_path.iterdir()) == [path]

    def test_secrets_differ_by_lease_epoch_and_key(self) -> None:
        one, other = Proofs(b"1" * 32), Proofs(b"2" * 32)
        secrets = {one.secret("a", 1), one.secret("a", 2), one.secret("b", 1), other.secret("a", 1)}
        assert len(secrets) == 4

    def test_a_key_that_others_may_read_or_that_is_short_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "key"
        path.write_bytes(b"1" * 32)
        path.chmod(0o644)
        with pytest.raises(InsecureFile, match="mode 0600"):
            Proofs.from_file(path)
        path.chmod(0o600)
        path.write_bytes(b"1" * 31)
        with pytest.raises(InsecureFile, match="not a key of 32 bytes"):
            Proofs.from_file(path)


class CountingSource:
    """Knows every token but 'bad', and counts how often it is asked; away while ``away``."""

    def __init__(self) -> None:
        self.asked = 0
        self.away = self.revoked = False
        self.slow = asyncio.Event()
        self.slow.set()

    async def identify(self, token: str) -> Identity | None:
        self.asked += 1
        await self.slow.wait()
        if self.away:
            raise AuthenticationUnavailable("away")
        return None if token == "bad" or self.revoked else Identity(token, frozenset(), frozenset())


class TestMemory:
    async def test_a_token_is_asked_for_once_in_a_while(self) -> None:
        source, now = CountingSource(), [0.0]
        authenticator = Authenticator(source, 15.0, clock=lambda: now[0])
        for _ in range(3):
            assert (await authenticator.identify("token t")).name == "t"
        assert source.asked == 1
        now[0] = 15.0
        await authenticator.identify("Bearer t")
        assert source.asked == 2

    async def test_those_who_come_together_share_one_question(self) -> None:
        source = CountingSource()
        source.slow.clear()
        authenticator = Authenticator(source, 15.0)
        asking = [asyncio.create_task(authenticator.identify("token t")) for _ in range(5)]
        await asyncio.sleep(0)
        asking[0].cancel()
        source.slow.set()
        names = await asyncio.gather(*asking[1:])
        assert {identity.name for identity in names} == {"t"}
        assert source.asked == 1

    async def test_an_outage_is_not_remembered(self) -> None:
        source = CountingSource()
        authenticator = Authenticator(source, 15.0)
        source.away = True
        with pytest.raises(AuthenticationUnavailable):
            await authenticator.identify("token t")
        source.away = False
        assert (await authenticator.identify("token t")).name == "t"

    async def test_who_was_known_goes_on_while_the_source_is_away(self) -> None:
        source, now = CountingSource(), [0.0]
        authenticator = Authenticator(source, 15.0, outage_seconds=3600.0, clock=lambda: now[0])
        await authenticator.identify("token t")
        source.away, now[0] = True, 3599.0
        assert (await authenticator.identify("token t")).name == "t"
        with pytest.raises(AuthenticationUnavailable):
            await authenticator.identify("token unknown")
        now[0] = 3600.0
        with pytest.raises(AuthenticationUnavailable):
            await authenticator.identify("token t")

    async def test_who_was_known_does_not_wait_for_a_source_that_stands_still(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(authentication, "WITHIN_S", 0.01)
        source, now = CountingSource(), [0.0]
        authenticator = Authenticator(source, 15.0, outage_seconds=3600.0, clock=lambda: now[0])
        await authenticator.identify("token t")
        source.slow.clear()
        now[0] = 100.0
        for _ in range(3):
            assert (await authenticator.identify("token t")).name == "t"
        assert source.asked == 2, "one question is on its way"
        source.slow.set()

    async def test_a_token_that_is_taken_back_ends_with_the_sources_word(self) -> None:
        source, now = CountingSource(), [0.0]
        authenticator = Authenticator(source, 15.0, outage_seconds=3600.0, clock=lambda: now[0])
        await authenticator.identify("token t")
        source.revoked, now[0] = True, 15.0
        for away in (False, True):
            source.away = away
            with pytest.raises(Unauthenticated):
                await authenticator.identify("token t")

    async def test_wrong_tokens_do_not_fill_the_memory(self) -> None:
        authenticator = Authenticator(CountingSource(), 15.0, most=3)
        for number in range(10):
            await authenticator.identify(f"token t{number}")
        assert len(authenticator._known) == 3
        with pytest.raises(Unauthenticated):
            await authenticator.identify("token bad")

    @pytest.mark.parametrize("header", [None, "", "token", "token ", "basic abc", "token " + "x" * 4097])
    async def test_a_header_without_a_token_is_refused(self, header: str | None) -> None:
        with pytest.raises(Unauthenticated, match="Authorization: token"):
            await Authenticator(CountingSource(), 15.0).identify(header)


@asynccontextmanager
async def hub(
    answer: Callable[[RequestHandler], None], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[HubTokens]:
    """A hub's ``/user`` endpoint that answers so, and a ``HubTokens`` that asks it."""

    class User(RequestHandler):
        def get(self) -> None:
            answer(self)

    listening, port = bind_unused_port()
    server = HTTPServer(Application([("/hub/api/user", User)]))
    server.add_socket(listening)
    monkeypatch.setenv("JUPYTERHUB_API_URL", f"http://127.0.0.1:{port}/hub/api")
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "the service's own")
    yield HubTokens()
    server.stop()
    await server.close_all_connections()


class TestHub:
    async def test_the_hub_says_who_it_is(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def model(request: RequestHandler) -> None:
            assert request.request.headers["Authorization"] == "token of-ada"
            request.finish({"name": "ada", "groups": ["ml101"], "scopes": [USE], "admin": False})

        async with hub(model, monkeypatch) as tokens:
            identity = await tokens.identify("of-ada")
        assert identity == Identity("ada", frozenset({"ml101"}), frozenset({USE}))

    async def test_a_token_the_hub_refuses_is_nobodys(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async with hub(lambda request: request.send_error(403), monkeypatch) as tokens:
            assert await tokens.identify("wrong") is None

    @pytest.mark.parametrize("status", [500, 502, 404])
    async def test_a_hub_that_fails_is_an_outage_and_no_refusal(
        self, monkeypatch: pytest.MonkeyPatch, status: int
    ) -> None:
        async with hub(lambda request: request.send_error(status), monkeypatch) as tokens:
            with pytest.raises(AuthenticationUnavailable, match="the hub does not answer"):
                await tokens.identify("any")

    async def test_a_hub_that_is_gone_is_an_outage(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with socket.create_server(("127.0.0.1", 0)) as unused:
            port = unused.getsockname()[1]
        monkeypatch.setenv("JUPYTERHUB_API_URL", f"http://127.0.0.1:{port}/hub/api")
        monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "t")
        with pytest.raises(AuthenticationUnavailable):
            await HubTokens().identify("any")


def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    path = write(tmp_path / "tokens.json", entry("one"))
    os.chown(path, 12345, -1)
    with pytest.raises(InsecureFile):
        TokenFile(path)
