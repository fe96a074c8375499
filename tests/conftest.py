"""For the whole suite."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import settings

from tests.native_build import ROOT
from tests.origin import refusal
from tests.tiers import Tiers

# The same examples in each run, so that the suite is as good as its last run; to look for new ones:
# `pytest --hypothesis-profile=random`.
settings.register_profile("suite", derandomize=True, database=None, deadline=None)
settings.register_profile("random", deadline=None)
settings.load_profile("suite")

# A shell that runs the suite in the background has it ignore Ctrl-C, or a hang-up, and so would every process
# under test, since what is ignored is inherited. What the tests say of these holds for programs that do not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


# Agents and software GPUs under test have this much of the machine's memory each, whatever it has and whoever
# else runs one here; what they do by themselves is in tests/agent/test_promised_memory.py.
os.environ["GPU_KERNELS_MACHINE_MEMORY_MIB"] = "65536"


def pytest_configure(config: pytest.Config) -> None:
    if refused := refusal(ROOT):
        raise pytest.UsageError(refused)
    config.pluginmanager.register(Tiers(config), "tiers")
    if config.pluginmanager.hasplugin("xdist"):
        from tests import spreading

        config.pluginmanager.register(spreading, "spreading")
