"""From an LTI launch to groups of the hub: who came from which course, and as what.

jupyterhub-ltiauthenticator logs people in and keeps the launch's claims, but puts nobody into a group. With

    c.Authenticator.manage_groups = True
    c.Authenticator.enable_auth_state = True
    c.Authenticator.post_auth_hook = gpu_kernels.spawner.lti.join_course

a launch from the course 4711 puts its person into `lti-4711-<digest>-learner` or `-instructor`, which the
preset `lti` reads (`PoolController.course_groups`, `GPULabMixin.gpu_slice_course_groups`). The digest is of
the platform and the course: a platform knows its own ids only, and another's 4711 is another course. Of one
platform, `joins(plain=...)` leaves the names as they are on it: `lti-4711-learner`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

PREFIX = "lti-"
LEARNER, INSTRUCTOR = "learner", "instructor"
LONGEST_COURSE = 100

_CLAIM = "https://purl.imsglobal.org/spec/lti/claim/"
_LIKE_A_DIGEST = re.compile(r"-([0-9a-f]{8}|[0-9a-f]{16})$")
_TEACHING = ("instructor", "teachingassistant", "contentdeveloper")
_IN_THIS_COURSE = re.compile(
    r"(http://purl\.imsglobal\.org/vocab/lis/v2/membership(/(?P<main>\w+))?#|urn:lti:role:ims/lis/)?(?P<role>\w+)(/\w+)?"
)
"""A role in the course that the launch is from. A person may be an instructor of the institution and a
learner in this course: roles of the institution or the system do not count.
"""


def platform_of(claims: Mapping[str, Any], consumer: str | None = None) -> str:
    """Whose courses a launch is about, as something that no other platform can say of itself. LTI 1.3: issuer
    and deployment, within which ids of courses are unique. LTI 1.1: the key that signed the launch
    (``consumer``), which the hub knows; only where that is not told, what the platform calls itself.
    """
    if f"{_CLAIM}context" in claims or "iss" in claims:
        issuer = str(claims.get("iss", "")).replace(" ", "%20")  # the first space ends it
        return f"{issuer} {claims.get(f'{_CLAIM}deployment_id', '')}".strip()
    return str(consumer or claims.get("tool_consumer_instance_guid") or "")


def groups_of_launch(
    claims: Mapping[str, Any], *, consumer: str | None = None, plain: str | None = None
) -> list[str]:
    """The groups that a launch is a proof of: none, where it is from no course. ``plain``: the platform whose
    courses are called by their ids alone.
    """
    context = claims.get(f"{_CLAIM}context")
    course = context.get("id") if isinstance(context, Mapping) else claims.get("context_id")
    roles = claims.get(f"{_CLAIM}roles") if isinstance(context, Mapping) else claims.get("roles")
    if not isinstance(course, str | int):
        return []
    platform = platform_of(claims, consumer)
    name = course_name(str(course), None if platform == plain else platform)
    texts = roles.split(",") if isinstance(roles, str) else roles if isinstance(roles, list) else []
    role = INSTRUCTOR if any(_teaches(text) for text in texts) else LEARNER
    return [f"{PREFIX}{name}-{role}"] if name else []


def course_name(context: str, platform: str | None) -> str:
    """What a course is called here, by its platform and the id that it has there: the id as far as it can be
    a name, and 64 bits of a digest of both. Without a platform, an id that can be a name as it is has none,
    unless it ends as if with a digest. Two courses never have the same name.
    """
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", context).strip("-")[:LONGEST_COURSE]
    if not name:
        return name
    if platform is not None:
        # The lengths keep a platform's name from running into an id.
        return f"{name}-{_digest(f'{len(platform)} {platform} {context}')[:16]}"
    if name == context and not _LIKE_A_DIGEST.search(name):
        return name
    return f"{name}-{_digest(context)[:8]}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def groups_after(before: Iterable[str], launch: Collection[str]) -> list[str]:
    """A person's groups after a launch: those of other courses stay, the role in this one is the newest."""
    courses = {group.removeprefix(PREFIX).rpartition("-")[0] for group in launch}
    kept = {
        group
        for group in before
        if not group.startswith(PREFIX) or group.removeprefix(PREFIX).rpartition("-")[0] not in courses
    }
    return sorted(kept | set(launch))


def joins(*, plain: str | None = None) -> Callable[[Any, Any, dict[str, Any]], dict[str, Any]]:
    """A ``post_auth_hook`` that leaves the names of one platform's courses without a digest. ``plain``: that
    platform, as ``platform_of`` says it: "ISSUER DEPLOYMENT" of LTI 1.3, the consumer key of LTI 1.1.
    """

    def join(authenticator: Any, handler: Any, auth_model: dict[str, Any]) -> dict[str, Any]:
        """Called by the hub when somebody has logged in; gives ``auth_model`` with the groups."""
        user = handler.find_user(auth_model["name"])
        before = [group.name for group in user.groups] if user is not None else []
        claims = auth_model.get("auth_state") or {}
        launch = groups_of_launch(claims, consumer=_consumer(handler), plain=plain)
        return {**auth_model, "groups": groups_after(before, launch)}

    return join


join_course = joins()
"""The hook for ``c.Authenticator.post_auth_hook``: called by the hub when somebody has logged in."""


def _consumer(handler: Any) -> str | None:
    """The key of a launch by LTI 1.1, whose signature the authenticator has checked. It is not among the
    claims that it keeps.
    """
    values = getattr(getattr(handler, "request", None), "arguments", {}).get("oauth_consumer_key") or [b""]
    return values[0].decode(errors="replace") or None


def _teaches(text: object) -> bool:
    match = _IN_THIS_COURSE.fullmatch(str(text).strip())
    if match is None or match["role"].casefold() not in _TEACHING:
        return False
    # Of a sub-role the main role counts: a learner who instructs others is a learner.
    return match["main"] is None or match["main"].casefold() in _TEACHING
