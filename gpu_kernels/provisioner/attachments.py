"""All attachments of this process, by kernel id: what the server extension shows and changes.

An attachment is here from before its kernel's first start until the kernel is gone for good.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from gpu_kernels.provisioner.attachment import Attachment, View
from gpu_kernels.provisioner.leasing import log

Listener = Callable[[Attachment, View], object]

_lock = threading.Lock()
_attachments: dict[str, Attachment] = {}
_listeners: list[Listener] = []


def all() -> list[Attachment]:
    with _lock:
        return list(_attachments.values())


def get(kernel_id: str) -> Attachment | None:
    with _lock:
        return _attachments.get(kernel_id)


def listen(listener: Listener) -> Callable[[], None]:
    """Call ``listener`` with an attachment whenever one has changed, and how it stood then, from any thread:
    it must not block. Returns what ends that.
    """
    with _lock:
        _listeners.append(listener)

    def unlisten() -> None:
        with _lock:
            if listener in _listeners:
                _listeners.remove(listener)

    return unlisten


def add(attachment: Attachment) -> None:
    with _lock:
        _attachments[attachment.kernel_id] = attachment


def remove(attachment: Attachment) -> None:
    """Its kernel has ended; listeners are told, and find it here no longer."""
    with _lock:
        known = _attachments.get(attachment.kernel_id) is attachment
        if known:
            del _attachments[attachment.kernel_id]
    if known:
        changed(attachment, attachment.view())


def changed(attachment: Attachment, view: View) -> None:
    """Tell all listeners; one that fails is logged and does not hold up the others."""
    with _lock:
        listeners = list(_listeners)
    for listener in listeners:
        try:
            listener(attachment, view)
        except Exception:
            log.exception("A listener to GPU attachments failed")


def _forget() -> None:
    global _lock
    _lock = threading.Lock()
    _attachments.clear()
    _listeners.clear()


os.register_at_fork(after_in_child=_forget)
