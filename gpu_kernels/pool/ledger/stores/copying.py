"""``python -m gpu_kernels.pool.ledger.stores.copying FROM TO``: copy a ledger into another, empty database.

For moving from SQLite to PostgreSQL or back. Both URLs are SQLAlchemy's. The copy is one transaction of the
new database: interrupted, it leaves that empty.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from gpu_kernels.errors import GPUKernelsError
from gpu_kernels.pool.ledger.state.rows import TABLES, Change
from gpu_kernels.pool.ledger.stores.sql import SqlStore

CHUNK = 2000
"""Rows in memory at a time."""


class NotEmpty(GPUKernelsError):
    """The target holds a ledger already."""

    code = "not_empty"


def copy(source: SqlStore, target: SqlStore) -> int:
    """Copy all rows; how many. The source's term is held meanwhile, so that no controller decides on it.

    Raises ``Deposed`` where a controller serves one of the two, and ``NotEmpty``.
    """
    for store in (source, target):
        store.open()
        store.lead("a copy of the ledger", "")
    source.begin(writes=True)
    target.begin(writes=True)
    try:
        if any(True for _ in target.load(0).rows) or target.load(0).last_event:
            raise NotEmpty("The new database holds a ledger already; give an empty one. Nothing was changed.")
        copied = 0
        for table in TABLES:
            for rows in source.chunks(table, CHUNK):
                target.write([Change(None, row) for row in rows])
                copied += len(rows)
        target.commit()
        return copied
    finally:
        target.rollback()
        source.rollback()


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    stores: list[SqlStore] = []
    try:
        stores += (SqlStore(url) for url in arguments)
        print(f"{copy(*stores)} rows copied")
    except GPUKernelsError as error:
        print(error.log_message, file=sys.stderr)
        return 1
    finally:
        for store in stores:
            store.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
