"""What of ``grants`` must outlive this process, on disk: the floors (for each lease the lowest epoch that
this agent may still serve), and the highest epoch of all.

Written whole to a new file, synced, and renamed over the old one, so that a crash leaves one or the other.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

FILE_NAME = "floors.json"


class FloorsFile:
    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME

    def load(self) -> tuple[dict[str, int], int]:
        """The floors kept, and the highest epoch. Raises ``ValueError`` for a file that is damaged,
        ``OSError`` as usual."""
        try:
            data = json.loads(self._path.read_text())
        except FileNotFoundError:
            return {}, 0
        fields = data if isinstance(data, dict) else {}
        floors, epoch = fields.get("floors"), fields.get("epoch", 0)
        if not isinstance(floors, dict) or not all(type(value) is int for value in (*floors.values(), epoch)):
            raise ValueError(
                f"{self._path} is damaged; an agent without leases may be started after removing it"
            )
        return floors, epoch

    def keep(self, floors: Mapping[str, int], epoch: int) -> None:
        """Put these on disk; returns when they are there. Raises ``OSError``."""
        fresh = self._path.with_suffix(".new")
        with fresh.open("w") as file:
            json.dump({"floors": dict(floors), "epoch": epoch}, file)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
