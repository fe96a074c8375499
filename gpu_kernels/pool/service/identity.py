"""Who asks, and what they may do. An identity comes from a token and from nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpu_kernels.vocabulary.roles import PLAIN, STUDENT, Patterns, graded_course

USE = "custom:gpu:use"
READ_USAGE = "custom:gpu:read:usage"
ADMIN_QUOTA = "custom:gpu:admin:quota"
ADMIN_POOL = "custom:gpu:admin:pool"
AGENT = "custom:gpu:agent"

IMPLIED_BY = {READ_USAGE: (ADMIN_QUOTA, ADMIN_POOL)}
"""What each right comes with: whoever changes something sees it. Nothing else comes with anything: who takes
leases back or drains servers need not say who may have how much, and the other way round.
"""


@dataclass(frozen=True, slots=True)
class Identity:
    """A token's user or service, as the hub or the token file describes it. ``patterns``: what the names of
    groups mean here.
    """

    name: str
    groups: frozenset[str]
    scopes: frozenset[str]
    patterns: Patterns = PLAIN

    @classmethod
    def from_model(cls, model: Mapping[str, Any], patterns: Patterns = PLAIN) -> Identity:
        """From a hub's model of a token's owner.

        Only ``scopes`` are the token's. ``admin`` and ``roles`` are the owner's, and the hub tells them for
        every token, a notebook server's included; an admin's notebook is not to administer the pool, so
        they count for nothing here.
        """
        return cls(
            name=str(model["name"]),
            groups=frozenset(str(group) for group in model.get("groups") or ()),
            scopes=frozenset(str(scope) for scope in model.get("scopes") or ()),
            patterns=patterns,
        )

    def may(self, scope: str, *, course: str | None = None, server: str | None = None) -> bool:
        """Whether the token allows this; a filtered scope only where its filter is met.

        ``course`` is the course that it is about, which a filter names itself or by its students' group; a
        course's filter is met by its grading account too;
        ``server`` is the Jupyter server's name.
        """
        wanted = (scope, *IMPLIED_BY.get(scope, ()))
        held = (s.partition("!") for s in self.scopes)
        return any(name in wanted and self._meets(name, where, course, server) for name, _, where in held)

    def may_somewhere(self, scope: str) -> bool:
        """Whether the token has this scope with any filter, or one that comes with it."""
        if self.may(scope):
            return True
        wanted = (scope, *IMPLIED_BY.get(scope, ()))
        return any(held.partition("!")[0] in wanted for held in self.scopes)

    def speaks_for(self, agent: str) -> bool:
        """Whether the token is bound to this GPU server's name: by the filter of its scope, or, where that
        has none, by belonging to a service of that very name.
        """
        bound = (f"{AGENT}!server={agent}", *((AGENT,) if self.name == agent else ()))
        return any(scope in self.scopes for scope in bound)

    def _meets(self, name: str, where: str, course: str | None, server: str | None) -> bool:
        kind, _, value = where.partition("=")
        if kind == "":
            return True
        if kind == "user":
            # One's own leases; no other right is about a user, so its filter is met by nothing.
            return name == USE and value in ("", self.name)
        if kind == "group":
            if course is None:
                return False
            taught = graded_course(course) or course
            return value in (course, taught) or self.patterns.course_of(value) == (taught, STUDENT)
        if kind == "server":
            user, _, server_name = value.partition("/")
            return user == self.name and server is not None and server_name == server
        return False

    def teaches(self, course: str) -> bool:
        """Whether the course's limit is theirs to set."""
        return self.patterns.teaches(self.groups, course) or self.may(ADMIN_QUOTA, course=course)

    def belongs_to(self, course: str) -> bool:
        return self.patterns.belongs(self.groups, course)
