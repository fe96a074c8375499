"""The extension as the Jupyter server loads it: its addresses, and its end."""

from __future__ import annotations

from jupyter_server.extension.application import ExtensionApp

from gpu_kernels import offer
from gpu_kernels.server import handlers
from gpu_kernels.server.asking import Asker
from gpu_kernels.server.streams import Streams

API = "gpu-lab/api"
KERNEL = r"(?P<kernel_id>[^/]{1,64})"


class GPULab(ExtensionApp):
    """``asker`` and ``streams`` live as long as the server."""

    name = "gpu_lab"
    load_other_extensions = True

    def initialize_handlers(self) -> None:
        """Called once, before the server listens."""
        self.asker = Asker()
        self.streams = Streams(self.asker)
        lab = {"asker": self.asker, "streams": self.streams}
        self.handlers.extend(
            [
                (rf"/{API}/kernels", handlers.Kernels, lab),
                (rf"/{API}/kernels/{KERNEL}", handlers.Kernel, lab),
                (rf"/{API}/kernels/{KERNEL}/(?P<do>{handlers.CHANGES})", handlers.Change, lab),
                (rf"/{API}/course", handlers.Course, lab),
                (rf"/{API}/events", handlers.Events, lab),
            ]
        )
        offer.OFFERS.now()  # so that the sizes are there before somebody asks for them

    async def stop_extension(self) -> None:
        """Called when the server stops, before its kernels do: open streams would outlive them."""
        self.streams.close()
        self.asker.close()
