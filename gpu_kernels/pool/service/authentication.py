"""From a token to an identity: by the hub that issued it, or by a token file where there is no hub."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import stat
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from gpu_kernels.durations import duration
from gpu_kernels.errors import AuthenticationUnavailable, GPUKernelsError, RateLimited, Unauthenticated
from gpu_kernels.extras import how_to_install
from gpu_kernels.limits.known_tokens import KnownTokens
from gpu_kernels.limits.questions import USUAL, Questions, Rates, TooFast
from gpu_kernels.pool.service.identity import ADMIN_POOL, ADMIN_QUOTA, Identity
from gpu_kernels.vocabulary.roles import PLAIN, Patterns

log = logging.getLogger("gpu_kernels.pool")

MAX_TOKEN = 4096
WITHIN_S = 2.0
"""How long one who was known a moment ago waits for the source's word; clients wait for ten."""


class TokenSource(Protocol):
    """Knows tokens. ``identify`` raises ``AuthenticationUnavailable`` when it cannot tell now."""

    async def identify(self, token: str) -> Identity | None: ...


class InsecureFile(GPUKernelsError):
    """A file that holds secrets can be read by others, or is not what it should be."""

    code = "insecure_file"


class HubMissing(GPUKernelsError):
    """The hub's package, by which it is asked, is not installed."""

    code = "hub_missing"


def require_private(path: Path) -> None:
    """Refuse a secret file that others may read. Raises ``InsecureFile``."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o077 or status.st_uid != os.geteuid():
        raise InsecureFile(
            f"{path} must be a file of the controller's own user with mode 0600; "
            f"it has mode {stat.S_IMODE(status.st_mode):04o}. Run: chmod 600 {path}"
        )


class HubTokens:
    """Asks the hub. The service's own credential and the hub's address come from the hub's environment."""

    def __init__(self) -> None:
        try:
            from jupyterhub.services.auth import HubAuth
        except ModuleNotFoundError:
            raise HubMissing(
                "The controller is to ask a JupyterHub who somebody is, and speaks to it by JupyterHub's own "
                f"package, which is not installed. {how_to_install('controller,hub')}"
            ) from None
        self._auth = HubAuth()

    async def identify(self, token: str) -> Identity | None:
        from tornado.web import HTTPError

        try:
            model = await self._auth.user_for_token(token, use_cache=False, sync=False)
        except HTTPError as error:
            raise _hub_away(str(error.log_message)) from None
        except (TimeoutError, OSError, ValueError) as error:
            raise _hub_away(f"{type(error).__name__}: {error}") from None
        return None if model is None else Identity.from_model(model)


def _hub_away(why: str) -> AuthenticationUnavailable:
    return AuthenticationUnavailable(
        "The GPU pool cannot check who you are: the hub does not answer.\n"
        "Try again in a minute, or choose 'Python 3' to work without a GPU.",
        log_message=f"hub authentication: {why}",
        retry_after=10.0,
    )


class TokenFile:
    """A file (mode 0600) that maps the SHA-256 of tokens to name, groups, scopes, and when they expire.

    ``{"<hex>": {"name": "ada", "groups": ["ml101"], "scopes": ["custom:gpu:use"], "expires_at":
    "2027-01-31T00:00Z"}}`` It is read again when it changes. A file that has become unreadable lets nobody
    in.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._entries: dict[str, tuple[Identity, datetime | None]] = {}
        self.load()

    def load(self) -> None:
        """Read the file. Raises ``InsecureFile``, ``OSError``, or ``ValueError`` with what is wrong in it."""
        require_private(self._path)
        status = self._path.stat()
        content = json.loads(self._path.read_text())
        if not isinstance(content, dict):
            raise ValueError(f"{self._path}: must be an object of SHA-256 digests")
        self._entries = {digest: _entry(self._path, digest, value) for digest, value in content.items()}
        self._stamp = (status.st_mtime_ns, status.st_ino)

    async def identify(self, token: str) -> Identity | None:
        try:
            status = self._path.stat()
            if (status.st_mtime_ns, status.st_ino) != self._stamp:
                self.load()
        except (OSError, ValueError, GPUKernelsError) as error:
            raise AuthenticationUnavailable(
                "The GPU pool cannot check who you are now.\nTry again in a minute.",
                log_message=f"token file: {error}",
                retry_after=10.0,
            ) from None
        entry = self._entries.get(hashlib.sha256(token.encode()).hexdigest())
        if entry is None:
            return None
        identity, expires_at = entry
        return identity if expires_at is None or datetime.now(UTC) < expires_at else None


def _entry(path: Path, digest: str, value: Any) -> tuple[Identity, datetime | None]:
    if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
        raise ValueError(f"{path}: {digest[:70]!r} is not the SHA-256 of a token in hex")
    if not isinstance(value, dict) or not isinstance(value.get("name"), str) or not value["name"]:
        raise ValueError(f"{path}: the entry {digest[:8]}... has no name")
    unknown = value.keys() - {"name", "groups", "scopes", "admin", "expires_at"}
    if unknown:
        raise ValueError(
            f"{path}: the entry of {value['name']} has unknown fields: {', '.join(sorted(unknown))}"
        )
    for name in ("groups", "scopes"):
        texts = value.get(name, [])
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"{path}: {name} of {value['name']} must be a list of texts")
    expires_at = None
    if value.get("expires_at") is not None:
        expires_at = datetime.fromisoformat(value["expires_at"])
        if expires_at.tzinfo is None:
            raise ValueError(f"{path}: expires_at of {value['name']} needs a time zone, such as Z")
    admin = (ADMIN_POOL, ADMIN_QUOTA) if value.get("admin") is True else ()
    scopes = [*value.get("scopes", ()), *admin]
    return Identity.from_model({**value, "scopes": scopes}), expires_at


class Authenticator:
    """Identifies tokens, asking the source once a token and remembering the answer shortly. ``patterns``:
    what the names of groups mean.

    While the source cannot be asked, its last good word on a token counts for ``outage_seconds``: leases are
    renewed with tokens, and agents report with one, so nobody must lose a slice because the hub is started
    again. What the source refuses ends at once, and a token that it has not vouched for is let in by nobody.

    The source is asked about unknown tokens at a bounded rate (``rates``); for known ones nobody waits for
    that. The memory is bounded (``KnownTokens``), and one question is shared by requests that come together.
    """

    def __init__(
        self,
        source: TokenSource,
        keep_seconds: float,
        *,
        outage_seconds: float = 0.0,
        patterns: Patterns = PLAIN,
        most: int = 10_000,
        rates: Rates = USUAL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._keep, self._outage = keep_seconds, outage_seconds
        self._patterns = patterns
        self._clock = clock
        self._known: KnownTokens[Identity] = KnownTokens(most)
        self._questions = Questions(rates, clock)
        self._asking: dict[bytes, asyncio.Task[Identity | None]] = {}
        self._away = False

    async def identify(self, header: str | None, peer: str = "") -> Identity:
        """The identity of an ``Authorization`` header that came from the address ``peer``.

        Raises ``Unauthenticated``, ``RateLimited``, or what the source raises.
        """
        token = _token(header)
        digest = hashlib.sha256(token.encode()).digest()
        now, known = self._clock(), self._known.good(digest)
        if now - self._known.refused_at(digest) < self._keep:
            raise _unknown()
        if known is not None and now - known.at < self._keep:
            return known.said
        task = self._ask_once(digest, token, None if known is not None else peer)
        if known is None or now - known.at >= self._outage:
            identity = await asyncio.shield(task)
        elif await self._answered(task):
            identity = task.result()
        else:
            identity = known.said
        if identity is None:
            raise _unknown()
        return identity

    def forget(self, sha256: str) -> None:
        """Believe no earlier word on the token of this digest (hex): its source has just taken it back."""
        self._known.forget(bytes.fromhex(sha256))

    def _ask_once(self, digest: bytes, token: str, stranger: str | None) -> asyncio.Task[Identity | None]:
        """``stranger``: the peer that a token comes from of which nothing good is known."""
        task = self._asking.get(digest)
        if task is None:
            if stranger is not None:
                self._begin(stranger)
            task = self._asking[digest] = asyncio.ensure_future(self._identify(token))
            task.add_done_callback(lambda done: self._remember(digest, done, stranger))
        return task

    def _begin(self, stranger: str) -> None:
        try:
            self._questions.begin(stranger)
        except TooFast as error:
            again = max(1.0, error.again)
            raise RateLimited(
                "Too many unknown tokens come to the GPU pool at once, so it looks at no new ones now.\n"
                f"Nothing was done. Try again in {duration(again)}; what runs is not affected.",
                log_message=f"too many unknown tokens of {stranger}",
                retry_after=again,
            ) from None

    async def _identify(self, token: str) -> Identity | None:
        identity = await self._source.identify(token)
        return None if identity is None else replace(identity, patterns=self._patterns)

    def _remember(self, digest: bytes, done: asyncio.Task[Identity | None], stranger: str | None) -> None:
        del self._asking[digest]
        failed = done.cancelled() or done.exception() is not None
        if stranger is not None:
            self._questions.end(stranger, good=not failed and done.result() is not None)
        if failed:
            if not done.cancelled() and isinstance(error := done.exception(), AuthenticationUnavailable):
                self._note_away(error.log_message)
            return
        self._away = False
        if (identity := done.result()) is None:
            self._known.refuse(digest, self._clock())
        else:
            self._known.add(digest, self._clock(), identity.name, identity)

    async def _answered(self, task: asyncio.Task[Identity | None]) -> bool:
        """Whether the source says something, and shortly. Once it has not, nobody waits for it until it does
        again: agents and keepers have little time.
        """
        if not self._away:
            await asyncio.wait({task}, timeout=WITHIN_S)
        if not task.done():
            self._note_away("the hub takes long to say whose tokens they are")
            return False
        return not (task.cancelled() or isinstance(task.exception(), AuthenticationUnavailable))

    def _note_away(self, why: str) -> None:
        if not self._away:
            log.warning("%s; its last word counts for %g s", why, self._outage)
        self._away = True


def _unknown() -> Unauthenticated:
    return Unauthenticated(
        "The GPU pool does not know this token, or it has expired.\n"
        "Start the server again from the hub, or ask the hub's administrator."
    )


def _token(header: str | None) -> str:
    scheme, _, token = (header or "").strip().partition(" ")
    token = token.strip()
    if scheme.lower() not in ("token", "bearer") or not token or len(token) > MAX_TOKEN:
        raise Unauthenticated("The GPU pool needs a token: send the header 'Authorization: token ...'.")
    return token
