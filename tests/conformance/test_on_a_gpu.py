"""The report about an NVIDIA GPU says what ran on what and what differed; without a GPU there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_kernels.remoting.agent.gpus import Gpu, Inventory, NoGpu
from tests.frameworks.installed import NotInstalled

from . import on_a_gpu
from .runner import Result
from .suite import Suite
from .training import Training

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
        ["| ResNet-50, images | 300 a second | 290 a second |"],
    )
    assert path.name == "tesla-v100-pcie-32gb-550.54.15.md"
    text = path.read_text()
    assert text.startswith("# Tesla V100-PCIE-32GB, driver 550.54.15\n")
    assert "CUDA 12.4" in text
    assert "| straight | 2 of 2 passed (100.0%) | 60 |" in text
    assert "| forwarded | 1 of 2 passed (50.0%), 1 failed | 60 |" in text
    assert r"| b | passed | failed | x \| y |" in text
    assert text.endswith("|---|---|---|\n| ResNet-50, images | 300 a second | 290 a second |\n")


def test_each_framework_is_trained_both_ways_or_said_to_be_missing(monkeypatch, capsys) -> None:
    def train_in(places, framework, *, smallest):
        assert (places, smallest) == ((on_a_gpu.STRAIGHT, on_a_gpu.FORWARDED), False)
        if framework == "jax":
            raise NotInstalled("jax is not here")
        return [Training(framework, (2.0, 1.0), 10.0)], [Training(framework, failure="exit 1: no engine")]

    monkeypatch.setattr(on_a_gpu.training, "train_in", train_in)
    listed, different = on_a_gpu.trainings()
    assert different == 2
    assert listed[0] == "| pytorch | 10 a second, loss 2.0000 to 1.0000 | exit 1: no engine |"
    assert listed[2] == "| jax | not run | jax is not here |"
    assert capsys.readouterr().out.splitlines() == listed


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
