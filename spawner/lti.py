"""From an LTI launch to groups of the hub: who came from which course, and as what.

jupyterhub-ltiauthenticator logs people in and keeps the launch's claims, but puts nobody into a group. With

    c.Authenticator.manage_groups = True
    c.Authenticator.enable_auth_state = True
    c.Authenticator.post_auth_hook = spawner.lti.join_course

a launch from the course 4711 puts its person into `lti-4711-learner` or `lti-4711-instructor`, which the
preset `lti` reads (`PoolController.course_groups`, `GPULabMixin.gpu_slice_course_groups`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

PREFIX = "lti-"
LEARNER, INSTRUCTOR = "learner", "instructor"
LONGEST_COURSE = 100

_CLAIM = "https://purl.imsglobal.org/spec/lti/claim/"
_LIKE_A_DIGEST = re.compile(r"-[0-9a-f]{8}$")
_TEACHING = ("instructor", "teachingassistant", "contentdeveloper")
_IN_THIS_COURSE = re.compile(
    r"(http://purl\.imsglobal\.org/vocab/lis/v2/membership(/(?P<main>\w+))?#|urn:lti:role:ims/lis/)?(?P<role>\w+)(/\w+)?"
)
"""A role in the course that the launch is from. A person may be an instructor of the institution and a
learner in this course: roles of the institution or the system do not count.
"""


def groups_of_launch(claims: Mapping[str, Any]) -> list[str]:
    """The groups that a launch is a proof of: none, where it is from no course."""
    context = claims.get(f"{_CLAIM}context")
    course = context.get("id") if isinstance(context, Mapping) else claims.get("context_id")
    roles = claims.get(f"{_CLAIM}roles") if isinstance(context, Mapping) else claims.get("roles")
    if not isinstance(course, str | int):
        return []
    name = course_name(str(course))
    texts = roles.split(",") if isinstance(roles, str) else roles if isinstance(roles, list) else []
    role = INSTRUCTOR if any(_teaches(text) for text in texts) else LEARNER
    return [f"{PREFIX}{name}-{role}"] if name else []


def course_name(context: str) -> str:
    """What a course is called here, by the id that the learning platform gave it. An id that cannot be a name
    as it is, or that ends as if with a digest, gets a digest besides: two courses never have the same name.
    """
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", context).strip("-")[:LONGEST_COURSE]
    if not name or (name == context and not _LIKE_A_DIGEST.search(name)):
        return name
    return f"{name}-{hashlib.sha256(context.encode(errors='surrogatepass')).hexdigest()[:8]}"


def groups_after(before: Iterable[str], launch: Collection[str]) -> list[str]:
    """A person's groups after a launch: those of other courses stay, the role in this one is the newest."""
    courses = {group.removeprefix(PREFIX).rpartition("-")[0] for group in launch}
    kept = {
        group
        for group in before
        if not group.startswith(PREFIX) or group.removeprefix(PREFIX).rpartition("-")[0] not in courses
    }
    return sorted(kept | set(launch))


def join_course(authenticator: Any, handler: Any, auth_model: dict[str, Any]) -> dict[str, Any]:
    """Called by the hub as ``post_auth_hook`` when somebody has logged in."""
    user = handler.find_user(auth_model["name"])
    before = [group.name for group in user.groups] if user is not None else []
    launch = groups_of_launch(auth_model.get("auth_state") or {})
    return {**auth_model, "groups": groups_after(before, launch)}


def _teaches(text: object) -> bool:
    match = _IN_THIS_COURSE.fullmatch(str(text).strip())
    if match is None or match["role"].casefold() not in _TEACHING:
        return False
    # Of a sub-role the main role counts: a learner who instructs others is a learner.
    return match["main"] is None or match["main"].casefold() in _TEACHING
