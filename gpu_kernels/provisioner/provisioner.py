"""``GPUSliceProvisioner``: reserve, launch, keep, release.

The lease follows the kernel, not the process: it is taken in the first ``pre_launch``, stays through every
restart, and is given back by ``cleanup(restart=False)`` and by every failure of a hook. ``kill`` and
``terminate`` never give it back, since jupyter_client calls them with ``restart=False`` also when it
restarts. What is not given back because no hook was called expires: the keeper renews a lease only while
its kernel lives.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Mapping
from typing import Any

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from traitlets import Float, Unicode, default

from gpu_kernels.errors import GPUKernelsError
from gpu_kernels.provisioner import leasing
from gpu_kernels.provisioner.identity import identify, printable
from gpu_kernels.provisioner.leasing import HeldLease, NoSlice, Wish
from gpu_kernels.provisioner.watch import StderrTail, died_within, ending

LABEL_LENGTH = 100

__all__ = ["GPUSliceProvisioner", "KernelDiedAtOnce", "NoSlice"]


class KernelDiedAtOnce(RuntimeError):
    """The kernel's process ended while it started. The text, which JupyterLab shows, has the end of its
    stderr.
    """


class GPUSliceProvisioner(LocalProvisioner):
    """Runs a kernel on this machine under the CUDA-forwarding runtime, on a leased slice of a remote GPU.

    One instance serves one kernel, from before its first start until after its last. A kernel.json names it::

        "metadata": {"kernel_provisioner": {"provisioner_name": "gpu-slice", "config": {"size": "0.02 V100"}}}

    The traits may stand in that ``config``, which beats the server's configuration. They are wishes: what a
    user may have is decided by the controller alone.
    """

    size: str = Unicode(
        "",
        config=True,
        help="The slice to ask for: '0.02 V100', '1/20 V100', '2048 MiB', '2 V100'. Set by the kernel spec.",
    )  # type: ignore[assignment]
    course: str = Unicode(
        config=True,
        help="""The course that the slice is charged to. By default GPU_KERNELS_COURSE, which the hub's
        spawner sets. Empty: the user's only course.""",
    )  # type: ignore[assignment]
    wait_s: float = Float(
        15.0,
        config=True,
        min=0,
        help="""Seconds that the first start of a kernel may wait for a free slice, or for a controller that
        does not answer, before it fails. The user sees nothing meanwhile and cannot cancel, so keep it
        under half a minute; proxies in front of Jupyter often give up after a minute. 0: fail at once. A
        restart never waits.""",
    )  # type: ignore[assignment]
    watch_s: float = Float(
        0.2,
        config=True,
        min=0,
        help="""Seconds that a first start watches the new process: if it ends within them the user is told
        why, instead of looking at a kernel that never answers. A Python kernel takes longer than this to
        answer anyway. 0: do not watch.""",
    )  # type: ignore[assignment]

    _held: HeldLease | None = None
    _refusal: str | None = None
    _started = False
    _resumed_pid: int | None = None

    @default("course")
    def _default_course(self) -> str:
        return os.environ.get("GPU_KERNELS_COURSE", "")

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        # The base class shares one dict among all instances: a kernel's keys would show up in another's.
        self.connection_info: KernelConnectionInfo = {}

    # The order of the calls below is jupyter_client's: pre_launch, launch_kernel, post_launch; and at the
    # end shutdown_requested, wait, cleanup. A restart runs cleanup(restart=True) and then from the top, on
    # this instance.

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Called before every launch. Takes the lease if none is held, and puts it into the environment.

        Raises, on a first start, the controller's refusal (a ``PoolError``), or ``NoSlice`` if none became
        free in time. A restart is never refused: when the lease was lost and no other is to be had at once,
        the kernel starts without a GPU and ``%gpu`` says why.
        """
        try:
            if self._started:
                await self._ensure_lease_for_restart(kwargs)
            elif self._held is None:
                self._held = await self._reserve(kwargs, self.wait_s)
            kwargs = await super().pre_launch(**kwargs)
            # Only now: the kernel spec's own "env" has been applied over the given one.
            kwargs["env"] = leasing.environment(self._held, self._refusal, kwargs["env"])
        except BaseException:
            await self._release()
            raise
        return kwargs

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """Called after ``pre_launch``. Starts the process and, on a first start, watches it for ``watch_s``.

        Raises ``KernelDiedAtOnce``, or what starting the process raised. A restart is not watched:
        jupyter_client's restarter counts deaths, but would try for ever if the launch itself failed.
        """
        tail = None
        if not self._started and self.watch_s > 0 and kwargs.get("stderr") is None:
            tail = StderrTail()
            kwargs["stderr"] = tail.child_end
        try:
            try:
                info = await super().launch_kernel(cmd, **kwargs)
            finally:
                if tail is not None:
                    tail.started()
            if tail is not None:
                assert self.process is not None
                if await died_within(self.process, self.watch_s):
                    raise self._died_at_once(tail, self.process.returncode)
        except BaseException:
            await self._end_process()
            await self._release()
            raise
        self._started = True
        return info

    async def cleanup(self, restart: bool = False) -> None:
        """Called when the process has ended; with ``restart=False`` the kernel is gone for good."""
        try:
            await super().cleanup(restart=restart)
        finally:
            if not restart:
                await self._release()

    async def get_provisioner_info(self) -> dict[str, Any]:
        """For applications that keep kernels over their own restart. Names the lease, not its secret."""
        info = await super().get_provisioner_info()
        info["lease"] = None if self._held is None else self._held.public()
        return info

    async def load_provisioner_info(self, provisioner_info: dict[str, Any]) -> None:
        """The inverse: goes on keeping the lease, if it is still in force."""
        await super().load_provisioner_info(provisioner_info)
        self._started = True
        self._resumed_pid = self.pid
        lease = provisioner_info.get("lease")
        if lease is not None:
            self._held = await asyncio.to_thread(leasing.resume, lease["id"], self._holder, self._alive)

    async def _reserve(self, kwargs: dict[str, Any], wait_s: float) -> HeldLease:
        """Take a lease without blocking the event loop. Cancelled, it gives back what it gets after all."""
        client = leasing.client_of_this_process()
        wish = self._wish(kwargs.get("env") or os.environ)
        abandoned = threading.Event()
        try:
            lease = await asyncio.to_thread(leasing.reserve, client, wish, wait_s, abandoned)
        except asyncio.CancelledError:
            abandoned.set()
            raise
        return leasing.hold(client, lease, wish.holder, self._alive)

    async def _ensure_lease_for_restart(self, kwargs: dict[str, Any]) -> None:
        """Keep the lease, or take a new one without waiting, or note why there is none."""
        if self._held is not None and await asyncio.to_thread(self._held.still_in_force):
            self._held.starting()
            return
        lost = self._held.gone if self._held is not None else None
        self._held = None
        try:
            self._held = await self._reserve(kwargs, 0.0)
            self._refusal = None
        except GPUKernelsError as error:
            reason = f"The slice was lost: {lost}\n" if lost else ""
            self._refusal = f"{reason}{error}"
            self.log.warning("Kernel %s restarts without a GPU: %s", self.kernel_id, error.log_message)

    def _wish(self, given: Mapping[str, str]) -> Wish:
        spec_name = getattr(self.parent, "kernel_name", "")
        course = self.course or None
        identity = identify(self._holder, (spec_name, self.size, course or ""), given, os.environ)
        labels = {"kernel_spec": spec_name[:LABEL_LENGTH]}
        if identity.notebook:
            labels["notebook"] = printable(os.path.basename(identity.notebook))[:LABEL_LENGTH]
        return Wish(self.size, course, identity, self._holder, labels)

    async def _release(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            await asyncio.to_thread(held.release)

    async def _end_process(self) -> None:
        """After a failed launch: nothing must run that no manager knows."""
        if self.process is not None:
            await self.kill()
            await self.wait()

    def _died_at_once(self, tail: StderrTail, returncode: int) -> KernelDiedAtOnce:
        name = getattr(self.kernel_spec, "display_name", "The kernel")
        said = tail.text(wait_s=0.2)
        lines = [f"{name} ended as soon as it started ({ending(returncode)})."]
        if said:
            lines += ["The last it said:", *(f"    {line}" for line in said.splitlines())]
        lines.append("Its slice was given back. The server's log has the rest.")
        return KernelDiedAtOnce("\n".join(lines))

    @property
    def _holder(self) -> str:
        return str(self.kernel_id)

    def _alive(self) -> bool:
        """Whether the kernel's process lives. Called by the keeper's thread."""
        if self.process is not None:
            return self.process.poll() is None
        return self._resumed_pid is not None and _exists(self._resumed_pid)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
