"""A kernel manager for Jupyter servers that closes what the stock one leaves open when kernels fail.

Opt in with ``c.ServerApp.kernel_manager_class = "gpu_kernels.kernels.GPUMappingKernelManager"``. Without it
nothing leaks for good either (a dead kernel's lease is not renewed), but later, and the server is slow to
stop.

The stock manager (jupyter_client 8.10, jupyter_server 2.21)

- keeps a failed start among the pending kernels, so that a server with another live kernel then hangs on
  SIGTERM;
- lets go of a kernel's ports before the kernel has bound them, see ``kernel_ports``;
- does not call the provisioner's ``cleanup(restart=False)`` for a kernel that died again and again until the
  restarter gave up, for a failed first start, nor for one whose restart failed and which is then deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from jupyter_client.manager import KernelManager
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager

import gpu_kernels.provisioner  # noqa: F401 - now, and not in the event loop when the first kernel starts
from gpu_kernels.kernel_ports import hold_ports
from gpu_kernels.priority import yield_as_we_do


def start_failed(manager: KernelManager) -> bool:
    """Whether this kernel's last start (or restart) ended in an error."""
    ready = manager.ready
    return ready.done() and (ready.cancelled() or ready.exception() is not None)


class GPUMappingKernelManager(AsyncMappingKernelManager):
    """``AsyncMappingKernelManager`` that ends failed kernels completely, whatever their provisioner."""

    def __init__(self, **kwargs: Any) -> None:
        hold_ports()
        super().__init__(**kwargs)  # type: ignore[no-untyped-call]
        self._endings: set[asyncio.Task[None]] = set()

    async def _add_kernel_when_ready(
        self, kernel_id: str, km: KernelManager, kernel_awaitable: Awaitable[Any]
    ) -> None:
        """Called once a start, as its task. With pending kernels the failed one stays listed, with its
        reason.
        """
        await super()._add_kernel_when_ready(kernel_id, km, kernel_awaitable)
        if start_failed(km):
            self._pending_kernels.pop(kernel_id, None)
            await self._end(km)
        elif pid := getattr(km.provisioner, "pid", None):
            asyncio.get_running_loop().run_in_executor(None, yield_as_we_do, pid)  # never raises

    def _handle_kernel_died(self, kernel_id: str) -> None:
        """Called by the restarter when it gives up."""
        km = self._kernels.get(kernel_id)
        super()._handle_kernel_died(kernel_id)  # type: ignore[no-untyped-call]
        if km is not None:
            task = asyncio.get_running_loop().create_task(self._end(km))
            self._endings.add(task)
            task.add_done_callback(self._endings.discard)

    async def _async_shutdown_kernel(
        self, kernel_id: str, now: bool | None = False, restart: bool | None = False
    ) -> None:
        """Called by DELETE and at the server's end; the stock one drops a kernel whose restart failed."""
        km = self._kernels.get(kernel_id)
        failed = km is not None and start_failed(km)
        await super()._async_shutdown_kernel(kernel_id, now, restart)  # type: ignore[no-untyped-call]
        if km is not None and failed and not restart:
            await self._end(km)

    shutdown_kernel = _async_shutdown_kernel  # type: ignore[assignment]

    async def _end(self, km: KernelManager) -> None:
        """End what is left of a failed kernel. Harmless if nothing is; never raises."""
        try:
            km.shutting_down = True  # or the restarter would bring it back
            km.stop_restarter()
            if km.has_kernel:
                await km._async_kill_kernel()
            await km._async_cleanup_resources(restart=False)
        except Exception:
            self.log.exception("Could not clean up after kernel %s", km.kernel_id)
