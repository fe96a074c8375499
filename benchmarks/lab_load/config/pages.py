"""The lab's pages, watched."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from benchmarks.lab_load.loop_watch import watch
from benchmarks.lab_load.plan import folder_of_loops
from gpu_kernels.hub_config.lab.services import CONFIGURATION
from gpu_kernels.hub_config.lab.settings import Settings

load_subconfig(str(CONFIGURATION / "pages_config.py"))  # type: ignore[name-defined]  # noqa: F821
watch("pages", folder_of_loops(Settings.of_this_process()) / "pages.jsonl")
