"""Asking for a kernel's lease, without a kernel."""

from __future__ import annotations

import threading
from typing import NoReturn

import pytest

from gpu_kernels.client import PoolClient, Slot
from gpu_kernels.errors import TooMany
from gpu_kernels.provisioner import leasing
from gpu_kernels.provisioner.identity import Identity


class ClientThatMayNotWait(PoolClient):
    def get(self, *_: object, **__: object) -> NoReturn:
        raise TooMany("You have 64 requests that wait for an answer.")


def test_a_start_that_is_refused_while_it_waits_leaves_nothing(pool):
    pool.limit(5000)
    blocker = pool.student.ask("1 V100", key="b", slot=Slot("", "b"), holder="blocker")
    client = ClientThatMayNotWait(pool.url, "student-token")
    wish = leasing.Wish("1 V100", None, Identity(None, Slot("", "a"), "a"), "kernel", {})
    with pytest.raises(TooMany):
        leasing.reserve(client, wish, 30.0, threading.Event())
    assert [lease.id for lease in pool.leases()] == [blocker.id]
