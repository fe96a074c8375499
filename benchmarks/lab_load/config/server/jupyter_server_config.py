"""Watches the Jupyter servers that the hub told to; beside the lab's own configuration of servers."""

import os
import sys
from pathlib import Path

if os.environ.get("LAB_LOAD_LOOP_FILE"):
    sys.path.insert(0, str(Path(__file__).resolve().parents[4]))

    from benchmarks.lab_load.loop_watch import FILE_VARIABLE, watch

    watch("server", Path(os.environ.pop(FILE_VARIABLE)))
