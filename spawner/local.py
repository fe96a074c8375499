"""Ready spawners for one machine."""

from __future__ import annotations

from typing import Any

from jupyterhub.spawner import LocalProcessSpawner, SimpleLocalProcessSpawner
from traitlets import default

from gpu_kernels.spawner.mixin import GPULabMixin
from gpu_kernels.spawner.ports import port_for_server


class GPUSimpleLocalProcessSpawner(GPULabMixin, SimpleLocalProcessSpawner):  # type: ignore[misc]
    """Servers as processes of the hub's own account, for demos and tests; registered as `gpu-simple`.

    Like its base class it isolates nobody: every server can read every other's files and environment,
    tokens and secrets of leases included. For students that are strangers to each other, mix
    `GPULabMixin` into a spawner that isolates.
    """

    port: int

    async def start(self) -> Any:
        """Called by the hub. The course shows as "Profile" in the hub's admin panel."""
        if self.port == 0:
            self.port = port_for_server(self.ip or "127.0.0.1")
        address = await super().start()
        self.user_options = {**self.user_options, "profile": self.gpu_slice_course or "no GPU"}
        return address

    @default("apply_user_options")
    def _course_is_all_there_is(self) -> Any:
        return _warn_of_others


class GPULocalProcessSpawner(GPULabMixin, LocalProcessSpawner):  # type: ignore[misc]
    """Servers as processes of their users' own accounts on the hub's machine; registered as `gpu-local`.

    The hub needs the right to become them (root). Users cannot read each other's files; nothing bounds the
    memory or the processor time of one.
    """

    port: int

    async def start(self) -> Any:
        """Called by the hub."""
        if self.port == 0:
            self.port = port_for_server(self.ip or "127.0.0.1")
        return await super().start()


def _warn_of_others(spawner: Any, user_options: dict[str, Any]) -> None:
    """Called by the hub before `start`, which reads the course."""
    others = sorted(set(user_options) - {"course", "profile"})
    if others:
        spawner.log.warning("User options that nothing reads: %s", ", ".join(others))
