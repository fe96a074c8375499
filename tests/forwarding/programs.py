"""Programs as text, in processes of their own."""

from __future__ import annotations

import subprocess
import sys
import textwrap

from .minimal_agent import MinimalAgent

PRELUDE = "import ctypes, os, sys, threading\nfrom tests.forwarding.driver_api import *\n"


class Programs:
    """Runs Python programs after ``prelude``, in the environment that a subclass gives."""

    prelude = PRELUDE
    within_s = 100
    agent: MinimalAgent

    def environment_of(self, **extra: str) -> dict[str, str]:
        raise NotImplementedError

    def start(self, program: str, **extra: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", self.prelude + textwrap.dedent(program)],
            env=self.environment_of(**extra),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, program: str, **extra: str) -> subprocess.CompletedProcess[str]:
        with self.start(program, **extra) as process:
            out, err = process.communicate(timeout=self.within_s)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def check(self, program: str, **extra: str) -> str:
        """Runs a program that must succeed; what it printed."""
        done = self.run(program, **extra)
        assert done.returncode == 0, done.stderr + self.agent.log.read_text()
        return done.stdout
