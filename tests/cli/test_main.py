"""What ``jupyter gpu`` itself answers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpu_kernels import __version__
from tests.cli.lab import command, outside_environment


def gpu(*arguments: str, program: list[str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*program, *arguments] if program else command(*arguments),
        env=outside_environment() | {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.parametrize("name", ["run", "status", "check", "kernelspec"])
def test_every_command_has_help_with_examples(name):
    done = gpu(name, "--help")
    assert done.returncode == 0
    assert "examples:" in done.stdout
    assert f"jupyter gpu {name}" in done.stdout


@pytest.mark.parametrize(("name", "word"), [("agent", "NVML"), ("controller", "ledger")])
def test_the_services_have_command_lines_of_their_own(name, word):
    done = gpu(name, "--help")
    assert done.returncode == 0
    assert word in done.stdout


def test_it_is_a_subcommand_of_jupyter():
    done = gpu("gpu", "--version", program=["jupyter"])
    assert done.stdout.strip() == f"gpu-kernels {__version__}"


@pytest.mark.parametrize("arguments", [[], ["fly"], ["status", "--fast"], ["status", "extra"]])
def test_what_is_not_understood_is_a_usage_error(arguments):
    done = gpu(*arguments)
    assert done.returncode == 2
    assert "usage: jupyter gpu" in done.stderr
