"""When a controller tries to become the active one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpu_kernels.pool.ledger.stores.sql import SqlStore
from gpu_kernels.pool.service.role import Role, StateLock
from gpu_kernels.pool.service.waiting import Bells

Open = Callable[[], SqlStore]


@pytest.fixture
def controller(migrated_url: str) -> Iterator[Open]:
    """Makes stores of one new ledger, each a controller's."""
    made: list[SqlStore] = []

    def open_store() -> SqlStore:
        made.append(SqlStore(migrated_url))
        made[-1].open()
        return made[-1]

    yield open_store
    for store in made:
        store.close()


class Overtaken:
    """A desk of a controller; ``before`` happens in the moment in which it is about to take the term."""

    def __init__(self, store: SqlStore, before: Callable[[], object]) -> None:
        self._store, self._before = store, before
        self.ledger = SimpleNamespace(incarnation="")

    async def lead(self, courses: Mapping[str, Any], *, alone: bool) -> None:
        self._before()
        self.ledger.incarnation = self._store.lead("two", "http://two", alone=alone).incarnation


def role_of(desk: Overtaken, store: SqlStore, folder: Path) -> Role:
    return Role(desk, store, StateLock(folder), Bells(), courses={}, term_ttl=60.0)  # type: ignore[arg-type]


async def test_of_two_that_begin_a_new_ledger_at_once_the_first_leads(
    controller: Open, tmp_path: Path
) -> None:
    one, two = controller(), controller()
    second = role_of(Overtaken(two, lambda: one.lead("one", "http://one")), two, tmp_path)
    await second.once()
    assert not second.active
    leader, _ = one.leader()
    assert leader is not None
    assert (leader.term, leader.holder) == (1, "one")


async def test_a_controller_started_again_on_its_state_folder_waits_for_no_term(
    controller: Open, tmp_path: Path
) -> None:
    before, again = controller(), controller()
    died = StateLock(tmp_path)
    assert died.hold()
    died.write(before.lead("one", "http://one").incarnation)
    died.release()
    role = role_of(Overtaken(again, lambda: None), again, tmp_path)
    await role.once()
    assert role.active
