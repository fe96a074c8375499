"""``GPUSliceProvisioner``: ask, launch, keep, release.

The slice follows the kernel, not the process: it is asked for in the first ``pre_launch``; slice and place
in the line stay through every restart, and end with ``cleanup(restart=False)`` and every failure of a hook.
``kill`` and ``terminate`` never give it back, since jupyter_client calls them with ``restart=False`` also
when it restarts. What is not given back because no hook was called expires: the keeper renews a lease only
while its kernel lives.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from traitlets import Bool, CaselessStrEnum, Float, Unicode, default

from gpu_kernels.client.lease_request import LeaseRequest
from gpu_kernels.errors import AWAY
from gpu_kernels.identity import identify, printable
from gpu_kernels.provisioner import attachments, kernel_environment, texts
from gpu_kernels.provisioner.attach_point import AttachPoint
from gpu_kernels.provisioner.attachment import Attachment
from gpu_kernels.provisioner.leasing import NoSlice, client_of_this_process
from gpu_kernels.provisioner.watch import StderrTail, died_within, ending

LABEL_LENGTH = 100
START_VARIABLE = "GPU_KERNELS_START"
LAST_WORDS_WITHIN_S = 5.0
"""They are read at once, but where a process that the dead one started still has its standard error."""
SETTLES_S = 30.0
"""More than a patient request takes beyond its wait: a call or two."""

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
    start: str = CaselessStrEnum(
        ["lazy", "patient"],
        config=True,
        help="""How a kernel starts when no slice is free. `lazy`: at once, and its first CUDA call waits.
        `patient`: when there is a slice, within `wait_s`, or not at all. By default GPU_KERNELS_START, which
        the hub's spawner sets as the course wants it; else `lazy`.""",
    )  # type: ignore[assignment]
    first_wait_s: float = Float(
        2.0,
        config=True,
        min=0,
        help="""Seconds that a lazy start waits, so that a slice that is free, or will be in a moment, is
        there when the kernel is.""",
    )  # type: ignore[assignment]
    wait_s: float = Float(
        15.0,
        config=True,
        min=0,
        help="""Seconds that a patient start may wait for a free slice, or for a controller that does not
        answer, before it fails. The user sees nothing meanwhile and cannot cancel, so keep it under half a
        minute; proxies in front of Jupyter often give up after a minute. 0: fail at once.""",
    )  # type: ignore[assignment]
    watch_s: float = Float(
        0.2,
        config=True,
        min=0,
        help="""Seconds that a first start watches the new process: if it ends within them the user is told
        why, instead of looking at a kernel that never answers. A Python kernel takes longer than this to
        answer anyway. 0: do not watch.""",
    )  # type: ignore[assignment]

    gives_token: bool = Bool(
        True,
        config=True,
        help="""Whether the kernel gets the token for the pool, and what else the hub gave this process.
        Without it `%gpu` knows less. `jupyter gpu grade` says no: what a submission shows goes back to its
        student.""",
    )  # type: ignore[assignment]

    keeps_size: bool = Bool(
        False,
        config=True,
        help="""Whether the kernel stays with `size`, and is refused another one (`%gpu attach`). `jupyter gpu
        grade` says yes: a submission must not take what the others are to be run with.""",
    )  # type: ignore[assignment]

    _attachment: Attachment | None = None
    _attach_point: AttachPoint | None = None
    _started = False
    _resumed_pid: int | None = None

    @default("course")
    def _default_course(self) -> str:
        return os.environ.get("GPU_KERNELS_COURSE", "")

    @default("start")
    def _default_start(self) -> str:
        # What the spawner says is a convenience: an unknown word must not keep a kernel from starting.
        return "patient" if os.environ.get(START_VARIABLE) == "patient" else "lazy"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        # The base class shares one dict among all instances: a kernel's keys would show up in another's.
        self.connection_info: KernelConnectionInfo = {}

    # The order of the calls below is jupyter_client's: pre_launch, launch_kernel, post_launch; and at the
    # end shutdown_requested, wait, cleanup. A restart runs cleanup(restart=True) and then from the top, on
    # this instance.

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Called before every launch. Asks for the slice if this is the first, and puts what there is into
        the environment.

        Raises, on a first start, the controller's refusal (a ``PoolError``); a patient start raises
        ``NoSlice`` if none became free in time. A restart is never refused.
        """
        try:
            if self._attachment is None:
                self._attachment = self._attached()
            if self._started:
                await self._keep_for_restart(self._attachment)
            else:
                await self._ask(self._attachment, kwargs)
            kwargs = await super().pre_launch(**kwargs)
            # Only now: the kernel spec's own "env" has been applied over the given one.
            kwargs["env"] = await asyncio.to_thread(self._environment, self._attachment, kwargs["env"])
            if not self.gives_token:
                kwargs["env"] = kernel_environment.without_token(kwargs["env"])
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
                    said = await asyncio.to_thread(tail.text, LAST_WORDS_WITHIN_S)
                    raise self._died_at_once(said, self.process.returncode)
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
        info["lease"] = None if self._attachment is None else self._attachment.public()
        return info

    async def load_provisioner_info(self, provisioner_info: dict[str, Any]) -> None:
        """The inverse: goes on keeping the lease, if it is still in force. Where the kernel's processes ask
        is gone; they have the lease in their environment."""
        await super().load_provisioner_info(provisioner_info)
        self._started = True
        self._resumed_pid = self.pid
        lease = provisioner_info.get("lease")
        if lease is not None:
            self._attachment = self._attached()
            await asyncio.to_thread(self._attachment.resume, self._wish(os.environ), lease["id"])

    def _attached(self) -> Attachment:
        attachment = Attachment(self._holder, self._alive, attachments.changed, self.keeps_size)
        attachments.add(attachment)
        return attachment

    async def _ask(self, attachment: Attachment, kwargs: dict[str, Any]) -> None:
        """Ask without blocking the event loop. Cancelled, what is got after all is given back."""
        wish = self._wish(kwargs.get("env") or os.environ)
        patience = self.wait_s if self.start == "patient" else None
        attachment.ask(wish, patience)
        seconds = self.first_wait_s if patience is None else patience + SETTLES_S
        view = await attachment.settled(seconds)
        if view.error is not None:
            raise view.error
        if patience is not None and view.lease is None:
            raise NoSlice(texts.no_answer(wish.size, seconds))

    async def _keep_for_restart(self, attachment: Attachment) -> None:
        """What the kernel has or waits for stays; a lease that was lost is asked for again, for a moment."""
        await asyncio.to_thread(attachment.restarting)
        view = await attachment.settled(self.first_wait_s)
        if view.error is not None:
            self.log.warning("Kernel %s restarts without a GPU: %s", self.kernel_id, view.error)

    def _environment(self, attachment: Attachment, base: Mapping[str, str]) -> dict[str, str]:
        """Called in a thread: it may ask the controller, and makes a socket."""
        if self._attach_point is None:
            try:
                self._attach_point = AttachPoint(attachment)
            except OSError as error:
                self.log.warning("Kernel %s cannot ask for its slice later: %s", self.kernel_id, error)
        address = None if self._attach_point is None else self._attach_point.address
        return kernel_environment.made(attachment.view(), address, self._pool_is_software, base)

    def _pool_is_software(self) -> bool:
        """Whether the slice that is waited for will be one of a software GPU."""
        try:
            return kernel_environment.all_software(client_of_this_process().pool(), self.size)
        except AWAY:
            return False

    def _wish(self, given: Mapping[str, str]) -> LeaseRequest:
        spec_name = getattr(self.parent, "kernel_name", "")
        course = self.course or None
        identity = identify(self._holder, (spec_name, self.size, course or ""), given, os.environ)
        labels = {"kernel_spec": spec_name[:LABEL_LENGTH]}
        if identity.notebook:
            labels["notebook"] = printable(os.path.basename(identity.notebook))[:LABEL_LENGTH]
        return LeaseRequest(
            self.size,
            identity.slot,
            identity.key,
            self._holder,
            course,
            labels,
            preemptible=True,  # else GPUs would idle for hours before each class
        )

    async def _release(self) -> None:
        attachment, self._attachment = self._attachment, None
        point, self._attach_point = self._attach_point, None
        if attachment is not None:
            try:
                await asyncio.to_thread(_end, attachment, point)
            finally:
                attachments.remove(attachment)

    async def _end_process(self) -> None:
        """After a failed launch: nothing must run that no manager knows."""
        if self.process is not None:
            await self.kill()
            await self.wait()

    def _died_at_once(self, said: str, returncode: int) -> KernelDiedAtOnce:
        name = getattr(self.kernel_spec, "display_name", "The kernel")
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


def _end(attachment: Attachment, point: AttachPoint | None) -> None:
    """Called in a thread: it removes files, and may ask the controller."""
    try:
        if point is not None:
            point.close()
    finally:
        attachment.end()


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
