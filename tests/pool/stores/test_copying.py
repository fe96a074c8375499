"""A ledger moves from one database into another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_kernels.pool.ledger.state.rows import TABLES
from gpu_kernels.pool.ledger.stores import Deposed
from gpu_kernels.pool.ledger.stores.copying import NotEmpty, copy, main
from gpu_kernels.pool.ledger.stores.sql import SqlStore, rows_of
from tests.pool.stores.examples import ONE_OF_EACH, ended, event, part, write


@pytest.fixture
def other(tmp_path: Path) -> SqlStore:
    return SqlStore(f"sqlite:///{tmp_path / 'other.sqlite'}")


def everything(store: SqlStore) -> set[str]:
    return {repr(row) for row in rows_of(store, TABLES)}


def test_everything_is_there_and_back(
    opened: Callable[[], SqlStore], other: SqlStore, tmp_path: Path
) -> None:
    first = opened()
    first.lead("one", "")
    write(first, *ONE_OF_EACH, ended("o"), part("o"), *(event(n) for n in range(2, 5000)))
    before = everything(first)
    first.close()
    first = opened()
    assert copy(first, other) == len(before)
    assert everything(other) == before
    back = SqlStore(f"sqlite:///{tmp_path / 'back.sqlite'}")
    other.close()
    other = SqlStore(f"sqlite:///{tmp_path / 'other.sqlite'}")
    assert copy(other, back) == len(before)
    assert everything(back) == before
    for store in (first, other, back):
        store.close()


def test_a_ledger_that_is_served_or_full_is_left_alone(
    opened: Callable[[], SqlStore], other: SqlStore
) -> None:
    serving = opened()
    serving.lead("one", "")
    write(serving, *ONE_OF_EACH)
    with pytest.raises(Deposed):
        copy(opened(), other)
    serving.close()
    source = opened()
    copy(source, other)
    with pytest.raises(NotEmpty, match="Nothing was changed"):
        copy(source, other)
    assert len(everything(other)) == len(ONE_OF_EACH)
    other.close()


def test_its_command_says_what_is_wrong(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["sqlite:///x"]) == 2
    assert main(["mysql://h/x", "sqlite:///x"]) == 1
    said = capsys.readouterr().err
    assert "FROM TO" in said
    assert "A ledger cannot be kept in 'mysql://h/x'" in said
    assert main([f"sqlite:///{tmp_path}/a.sqlite", f"sqlite:///{tmp_path}/b.sqlite"]) == 0
    assert capsys.readouterr().out == "0 rows copied\n"
