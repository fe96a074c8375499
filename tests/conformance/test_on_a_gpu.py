"""The report about an NVIDIA GPU says what ran on what and what differed; without a GPU there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from remoting.agent.gpus import Gpu, Inventory, NoGpu

from . import on_a_gpu
from .runner import Result
from .suite import Suite

GPU = Gpu("GPU-1", 0, "V100", "nvidia", "Tesla V100-PCIE-32GB", 32768, 32000, "7.0", "00:04.0")
SUITE = Suite(name="it", distribution="pytest", root=Path("/"), folders=(), counted=())


def result(name: str, outcome: str, reason: str = "") -> Result:
    return Result(name, outcome, reason, 0.1)


def test_what_differs_is_what_ended_otherwise_or_ran_once() -> None:
    straight = [result("a", "passed"), result("b", "failed"), result("c", "passed")]
    forwarded = [result("a", "passed"), result("b", "failed", "another text"), result("d", "skipped")]
    rows = [difference.row() for difference in on_a_gpu.differences(straight, forwarded)]
    assert rows == ["| c | passed | not run |  |", "| d | not run | skipped |  |"]


def test_the_report_names_gpu_driver_date_and_differences(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(on_a_gpu, "REPORTS", tmp_path)
    straight = [result("a", "passed"), result("b", "passed")]
    forwarded = [result("a", "passed"), result("b", "failed", "E  x | y")]
    runs = {on_a_gpu.STRAIGHT: straight, on_a_gpu.FORWARDED: forwarded}
    path = on_a_gpu.write(
        SUITE,
        Inventory((GPU,), "550.54.15", 12040),
        runs,
        dict.fromkeys(runs, 60.0),
        on_a_gpu.differences(straight, forwarded),
    )
    assert path.name == "tesla-v100-pcie-32gb-550.54.15.md"
    text = path.read_text()
    assert text.startswith("# Tesla V100-PCIE-32GB, driver 550.54.15\n")
    assert "CUDA 12.4" in text
    assert "| straight | 2 of 2 passed (100.0%) | 60 |" in text
    assert "| forwarded | 1 of 2 passed (50.0%), 1 failed | 60 |" in text
    assert r"| b | passed | failed | x \| y |" in text


def test_without_a_gpu_it_says_so_and_claims_nothing(monkeypatch, capsys) -> None:
    def none() -> Inventory:
        raise NoGpu("NVML shows no GPU on this server.")

    monkeypatch.setattr(on_a_gpu, "nvml_gpus", none)
    suite = on_a_gpu.numba()
    if suite is None or suite.lacks:
        pytest.skip("numba-cuda or what its tests need is not installed")
    assert on_a_gpu.main() == 0
    said = capsys.readouterr().out
    assert said.startswith("Skipped: NVML shows no GPU on this server. Nothing was run")
