"""How this process's memory is looked after: by counting references, as far as that goes.

A book is millions of objects without a cycle among them. The garbage collector would go through all of them
again and again, and hold up every decision meanwhile.
"""

from __future__ import annotations

import gc

NEW_OBJECTS = 50_000
"""So many objects more than have gone, before the collector looks at the young ones."""
OLDER = 20
"""So many looks at the younger ones, before it looks at the older ones."""


def count_references() -> None:
    """Let the collector leave alone what is there now, and look at the rest seldom. For the process that
    keeps a book, once it is loaded.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, OLDER, OLDER)
