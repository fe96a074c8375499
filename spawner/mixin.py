"""What a JupyterHub spawner needs so that the kernels of its servers get slices of GPUs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from jupyterhub import orm
from jupyterhub.utils import maybe_future
from traitlets import Float, List, TraitError, Unicode, Union, default, validate
from traitlets.config import LoggingConfigurable

from gpu_kernels.client import AsyncPoolClient
from gpu_kernels.client.preload import preload_httpx
from gpu_kernels.spawner.courses import (
    NO_COURSE,
    choose_course,
    course_in_form,
    courses_of,
    options_form,
    told_of_course,
)
from gpu_kernels.spawner.slices import ServersSlices, slices_of_servers
from gpu_kernels.vocabulary.properties import STARTS
from gpu_kernels.vocabulary.roles import STUDENT, Patterns

preload_httpx()  # now, and not when the first server of a hub stops

RELEASE_TOKEN_S = 120
"""Life of the token with which the hub gives a stopped server's leases back; used within seconds."""


class GPULabMixin(LoggingConfigurable):
    """Gives a server its course, the pool controller's address and a token that may reserve.

    Mix it in before any spawner class; it changes no process, only environment and scopes, and it
    cooperates: every hook it takes part in calls the next class's.

        class GPUKubeSpawner(GPULabMixin, KubeSpawner):
            pass

        c.JupyterHub.spawner_class = GPUKubeSpawner
        c.GPULabMixin.gpu_slice_controller = "http://hub.example:8081/services/gpu"

    The hub must know the scope `custom:gpu:use` (`c.JupyterHub.custom_scopes`) and grant it to users
    (`c.JupyterHub.extra_user_scopes`), beside access to the controller's service.

    A slice belongs to a kernel, not to the server: nothing is reserved here. When the server has stopped,
    by whatever cause, the hub asks the controller to end what leases it still had. That is the fast way;
    if it fails, the leases expire.
    """

    gpu_slice_controller = Unicode(
        config=True,
        help="""URL of the pool controller, without `/api/v1`, as servers and the hub reach it.

        For example `http://127.0.0.1:8083/services/gpu`. Empty: servers start without access to GPUs.
        """,
    )

    gpu_slice_service = Unicode(
        "gpu",
        config=True,
        help="Name of the controller among the hub's services; servers get the scope to access it.",
    )

    gpu_slice_courses = List(
        Unicode(),
        config=True,
        help="""Names of the groups that are courses.

        Empty (the default): every group is one. Set it where groups also mean other things.
        """,
    )

    gpu_slice_course_groups = Union(
        [Unicode(), List()],
        default_value="plain",
        config=True,
        help="""What the names of groups mean; the same as the controller's `course_groups`.

        A preset (`plain`: `ml101` and `ml101-instructors`; `nbgrader`, `lti`, `canvas`, `e2x`), or a list of
        presets and of pairs of a regular expression with `(?P<course>...)` and a role, `student` or
        `instructor`. Instructors may use the GPUs of their course.
        """,
    )

    gpu_slice_token_scopes = List(
        Unicode(),
        ["custom:gpu:use", "custom:gpu:read:usage", "custom:gpu:admin:quota"],
        config=True,
        help="""Scopes to ask for a server's token, beside those of the hub's `server` role.

        The token gets those of them that its user holds: a student's never gets `admin:quota`. Leave that
        one out if instructors should set limits outside their servers only. `custom:gpu:admin:pool` does
        not belong here: all code that runs in a notebook can use the token.
        """,
    )

    gpu_slice_release_timeout = Float(
        5.0,
        config=True,
        help="""Seconds that the stop of a server may wait for the controller to end its leases.

        After that they end by expiry. Longer delays stops while the controller is away; shorter leaves
        slices unused for up to a lease's time to live.
        """,
    )

    gpu_slice_panel_token = Unicode(
        config=True,
        help="""Token with which the hub asks what its servers hold of GPUs, for its admin panel.

        Of a service with the scopes `custom:gpu:read:usage` and access to the controller's service. Empty:
        the panel shows a server's course, and not its slices. One question in twenty seconds, in a thread.
        """,
    )

    gpu_slice_course = NO_COURSE
    """The course of the running server; NO_COURSE if it may have no GPU."""

    user: Any
    user_options: Any
    orm_spawner: Any

    @validate("gpu_slice_course_groups")
    def _checked_course_groups(self, proposal: Any) -> Any:
        try:
            Patterns.of(proposal["value"])
        except ValueError as error:
            raise TraitError(f"GPULabMixin.gpu_slice_course_groups: {error}") from None
        return proposal["value"]

    def gpu_slice_courses_of_user(self) -> list[str]:
        """The courses that this server could be charged to."""
        return courses_of(
            (group.name for group in self.user.groups),
            known=self.gpu_slice_courses,
            patterns=Patterns.of(self.gpu_slice_course_groups),
        )

    async def start(self) -> Any:
        """Called by the hub. Raises SpawnException with a text for the user if the course is not theirs."""
        wanted = self.user_options.get("course") if isinstance(self.user_options, dict) else None
        self.gpu_slice_course = choose_course(self.gpu_slice_courses_of_user(), wanted)
        return await maybe_future(super().start())  # type: ignore[misc]

    def get_env(self) -> dict[str, str]:
        """Called by the base class in `start`."""
        env: dict[str, str] = super().get_env()  # type: ignore[misc]
        if self.gpu_slice_controller:
            env["GPU_KERNELS_CONTROLLER"] = self.gpu_slice_controller
            if self.gpu_slice_course:
                env["GPU_KERNELS_COURSE"] = self.gpu_slice_course
                if start := self._gpu_slice_start():
                    env["GPU_KERNELS_START"] = start
        return env

    def _gpu_slice_start(self) -> str | None:
        """How the course wants kernels to start where no GPU is free, as its group's property says."""
        patterns = Patterns.of(self.gpu_slice_course_groups)
        for group in self.user.groups:
            start = (getattr(group, "properties", None) or {}).get("gpu_start")
            if start in STARTS and patterns.course_of(group.name) == (self.gpu_slice_course, STUDENT):
                return str(start)
        return None

    async def progress(self) -> AsyncIterator[dict[str, Any]]:
        """Called by the page that waits for the server: first what it will have of GPUs, then the base's."""
        if self.gpu_slice_controller:
            yield {"progress": 1, "message": told_of_course(self.gpu_slice_course)}
        async for event in super().progress():  # type: ignore[misc]
            yield event

    @default("server_token_scopes")
    def _gpu_slice_server_token_scopes(self) -> Any:
        return gpu_token_scopes

    async def get_options_form(self) -> str:
        """Called by the page that starts a server: the course, if a choice, above the base's form."""
        base = await super().get_options_form()  # type: ignore[misc]
        remembered = (self.orm_spawner.user_options or {}).get("course")
        ours = options_form(self.gpu_slice_courses_of_user(), remembered)
        return "\n".join(part for part in (ours, base) if part)

    async def run_options_from_form(self, form_data: dict[str, list[str]]) -> Any:
        """Called with what the form says."""
        base = await maybe_future(super().run_options_from_form(form_data))  # type: ignore[misc]
        return {**base, **course_in_form(form_data)}

    async def options_from_query(self, query_data: dict[str, list[str]]) -> Any:
        """Called with what the address of the page says: `/hub/spawn?opt-course=ml101`."""
        base = await maybe_future(super().options_from_query(query_data))  # type: ignore[misc]
        return {**base, **course_in_form(query_data)}

    def get_state(self) -> dict[str, Any]:
        """Called by the hub after a start, and by the admin panel, which shows it as part of the server."""
        state: dict[str, Any] = super().get_state()  # type: ignore[misc]
        if self.gpu_slice_course:
            state["gpu_course"] = self.gpu_slice_course
        if (panel := self._gpu_slice_panel()) is not None:
            panel.freshen()
            slices = panel.of(self.user.name, self.name)  # type: ignore[attr-defined]
            if slices is not None:
                state["gpu_slices"] = slices
        return state

    async def poll(self) -> Any:
        """Called by the hub every half minute while the server runs, and now and then besides."""
        status = await maybe_future(super().poll())  # type: ignore[misc]
        if status is None and (panel := self._gpu_slice_panel()) is not None:
            panel.freshen()
        return status

    def _gpu_slice_panel(self) -> ServersSlices | None:
        if not (self.gpu_slice_controller and self.gpu_slice_panel_token):
            return None
        return slices_of_servers(self.gpu_slice_controller, self.gpu_slice_panel_token)

    def load_state(self, state: dict[str, Any]) -> None:
        """Called when the hub has restarted and finds the server running."""
        super().load_state(state)  # type: ignore[misc]
        self.gpu_slice_course = state.get("gpu_course", NO_COURSE)

    def clear_state(self) -> None:
        """Called before a start and after a stop."""
        super().clear_state()  # type: ignore[misc]
        self.gpu_slice_course = NO_COURSE

    async def run_post_stop_hook(self) -> None:
        """Called by the hub once the server has ended: stopped, crashed, or failed to start."""
        await maybe_future(super().run_post_stop_hook())  # type: ignore[misc]
        if self.gpu_slice_controller:
            await self._release_leases()

    async def _release_leases(self) -> None:
        """Ends what the server still holds, in bounded time. Never raises: a stop must not fail for this."""
        name = self._log_name  # type: ignore[attr-defined]
        try:
            token = self.user.new_api_token(
                note="Gives back the GPU slices of a stopped server",
                expires_in=RELEASE_TOKEN_S,
                scopes=[f"access:services!service={self.gpu_slice_service}", "custom:gpu:use!user"],
            )
            async with (
                asyncio.timeout(self.gpu_slice_release_timeout),
                AsyncPoolClient(self.gpu_slice_controller, token, self.gpu_slice_release_timeout) as pool,
            ):
                released = await pool.release_server(self.name)  # type: ignore[attr-defined]
        except Exception as error:
            self.log.warning(
                "The GPU leases of %s were not released (%s: %s); they end when they expire.",
                name, type(error).__name__, error,
            )  # fmt: skip
        else:
            if released:
                self.log.info("Released %d GPU lease(s) that %s had left.", len(released), name)


def gpu_token_scopes(spawner: Any) -> list[str]:
    """The scopes of a server's token: what the hub's `server` role gives, and what the pool asks for.

    Called by the hub as `server_token_scopes`. A configuration that sets its own adds the result of this.
    """
    role = orm.Role.find(spawner.user.db, "server")
    scopes = list(role.scopes) if role else ["users:activity!user", "access:servers!server"]
    if spawner.gpu_slice_controller:
        scopes += [f"access:services!service={spawner.gpu_slice_service}", *spawner.gpu_slice_token_scopes]
    return scopes
