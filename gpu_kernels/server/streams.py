"""Who listens to the changes of attachments: one stream for each page of a browser that is in sight.

A change is told by whatever thread made it and noted on the event loop, so a stream holds the kernels that
have changed since it was last written, and no more of them than there are. A listener that is slow is told
less often; one that takes nothing for a while is closed by its handler.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from gpu_kernels.errors import TooMany
from gpu_kernels.provisioner import attachments
from gpu_kernels.provisioner.attachment import Attachment, View
from gpu_kernels.provisioner.leasing import log
from gpu_kernels.provisioner.snapshot import snapshot
from gpu_kernels.resources.lab import Gone, KernelSlice
from gpu_kernels.server.asking import Asker, Busy

MOST_STREAMS = 32
LOOK_EACH_S = 30.0
"""How often the ends of all leases are asked for while somebody listens; a class may be booked meanwhile."""


class Stream:
    """One listener: the kernels to tell it of, and whether there is something to do."""

    def __init__(self) -> None:
        self.closed = False
        self._changed: dict[str, None] = {}
        self._wake = asyncio.Event()

    def note(self, kernel_id: str) -> None:
        self._changed[kernel_id] = None
        self._wake.set()

    def close(self) -> None:
        self.closed = True
        self._wake.set()

    async def next(self, seconds: float) -> list[str]:
        """The kernels that have changed, once there are any; none if so long nothing has, or it is closed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        self._wake.clear()
        changed, self._changed = list(self._changed), {}
        return changed


class Streams:
    """All of them; to be used from the event loop, but for what attachments call."""

    def __init__(self, asker: Asker, most: int = MOST_STREAMS, look_each: float = LOOK_EACH_S) -> None:
        self.most, self.look_each = most, look_each
        self._asker = asker
        self._streams: list[Stream] = []
        self._closed = False
        self._unlisten: Callable[[], None] = lambda: None
        self._looking: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._streams)

    def open(self) -> Stream:
        """A stream that begins with every kernel. Raises ``TooMany``."""
        if len(self._streams) >= self.most:
            raise TooMany(
                f"{self.most} pages listen to this Jupyter server's slices already, which is all that it"
                " serves.\nClose some of your JupyterLab tabs, and reload this one.",
                retry_after=60,
            )
        stream = Stream()
        if self._closed:
            stream.close()
            return stream
        if not self._streams:
            self._begin()
        self._streams.append(stream)
        for attachment in attachments.all():
            stream.note(attachment.kernel_id)
        return stream

    def end(self, stream: Stream) -> None:
        stream.close()
        if stream in self._streams:
            self._streams.remove(stream)
            if not self._streams:
                self._rest()

    def close(self) -> None:
        """No stream is open from now on."""
        self._closed = True
        for stream in list(self._streams):
            self.end(stream)

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()

        def changed(attachment: Attachment, _: View) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the server has ended
                loop.call_soon_threadsafe(self._note, attachment.kernel_id)

        self._unlisten = attachments.listen(changed)
        self._looking = loop.create_task(self._look_now_and_then())

    def _rest(self) -> None:
        self._unlisten()
        if self._looking is not None:
            self._looking.cancel()

    def _note(self, kernel_id: str) -> None:
        for stream in self._streams:
            stream.note(kernel_id)

    async def _look_now_and_then(self) -> None:
        """So that the end of a slice is known also where nobody has its notebook in front."""
        while True:
            for attachment in attachments.all():
                if attachment.view().state == "attached":
                    try:
                        await self._asker.look(attachment)
                    except Busy:
                        log.debug("the pool is asked enough without this")
                    else:
                        self._note(attachment.kernel_id)
            await asyncio.sleep(self.look_each)


def told(kernel_id: str) -> KernelSlice | Gone:
    """The event that says how a kernel's slice stands, or that the kernel is gone."""
    attachment = attachments.get(kernel_id)
    if attachment is None:
        return Gone(kernel_id)
    attachment.explained()
    return snapshot(attachment)
