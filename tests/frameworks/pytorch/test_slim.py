"""PyTorch without NVIDIA's libraries: an environment of requirements/frameworks-pytorch-slim.txt alone."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_kernels.remoting.environment import without_gpu
from tests.frameworks.slim import environment_of, site_of
from tests.native_build import ROOT

from . import places

pytestmark = [pytest.mark.slow, pytest.mark.native, pytest.mark.timeout(1800)]

PINS = ROOT / "requirements" / "frameworks-pytorch-slim.txt"
PROFILES = """
import torch
from torch.profiler import ProfilerActivity, profile
x = torch.ones(8, 8, device="cuda")
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as found:
    print((x @ x).sum().item())
print("aten::mm" in {row.key for row in found.key_averages()})
"""
ONE_RANK = """
import sys
import torch
from torch import distributed
distributed.init_process_group("nccl", init_method="file://" + sys.argv[1], rank=0, world_size=1)
x, gathered = torch.arange(4.0, device="cuda"), [torch.zeros(4, device="cuda")]
distributed.all_reduce(x)
distributed.all_gather(gathered, x)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2).cuda(), device_ids=[0])
model(x).sum().backward()
print(x.tolist(), gathered[0].tolist(), next(model.parameters()).grad.sum().item())
distributed.destroy_process_group()
"""


@pytest.fixture(params=["straight", "forwarded"])
def place(request: pytest.FixtureRequest) -> str:
    """Those libraries have no part in how operands come to the processor, mapped or copied."""
    return str(request.param)


def pinned() -> list[str]:
    return sorted(set(re.findall(r"^([a-z0-9-]+)==", PINS.read_text(), re.MULTILINE)))


@pytest.fixture(scope="module")
def slim(pytorch: str) -> Iterator[str]:
    """The Python of such an environment."""
    with environment_of(pytorch, pinned()) as python:
        project = next((ROOT / ".venv" / "lib").glob("python3*")) / "site-packages"
        link = f"import site; site.addsitedir({str(project)!r})\n"
        Path(site_of(python), "project.pth").write_text(link)
        yield python


def test_the_pins_are_those_of_the_whole_environment() -> None:
    whole = (ROOT / "requirements" / "frameworks-pytorch.txt").read_text()
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    command = re.search(
        r"^(awk .*requirements/frameworks-pytorch\.txt) > requirements/frameworks-pytorch-slim\.txt$",
        guide,
        re.M,
    )
    assert command
    made = subprocess.run(["sh", "-c", command[1]], cwd=ROOT, check=True, capture_output=True, text=True)
    assert made.stdout == PINS.read_text()
    left_out = set(re.findall(r"^([a-z0-9-]+)==", whole, re.M)) - set(pinned())
    assert {name for name in left_out if not name.startswith("nvidia-")} == {
        "cuda-toolkit",
        "expecttest",
        "scipy",
    }
    assert [name for name in pinned() if name.startswith("nvidia-")] == ["nvidia-cuda-nvrtc"]


def test_networks_train_with_the_cpus_losses(slim: str, place: str) -> None:
    done = places.run(slim, place, "training.py")
    assert done.returncode == 0, done.stderr
    losses = {name: pair for name, pair in json.loads(done.stdout).items() if "autocast" not in name}
    assert len(losses) == 18
    assert {
        name: pair for name, pair in losses.items() if pair[1] != pytest.approx(pair[0], rel=1e-4, abs=1e-4)
    } == {}


def test_the_profiler_shows_operators_and_says_that_there_are_no_kernels(slim: str, place: str) -> None:
    done = places.run(slim, place, "-c", PROFILES)
    assert done.stdout.splitlines() == ["512.0", "True"], done.stderr
    assert done.stderr.count("kernels and copies are not recorded on a slice of a GPU") == 1


def test_a_world_of_one_trains_through_nccl(slim: str, place: str, tmp_path: Path) -> None:
    done = places.run(slim, place, "-c", ONE_RANK, str(tmp_path / "store"))
    assert done.stdout == "[0.0, 1.0, 2.0, 3.0] [0.0, 1.0, 2.0, 3.0] 12.0\n", done.stderr


def test_without_a_slice_there_is_no_pytorch(slim: str) -> None:
    done = subprocess.run(
        [slim, "-c", "import torch"], env=without_gpu(os.environ), capture_output=True, text=True, timeout=600
    )
    assert done.returncode != 0
    assert "cannot open shared object file" in done.stderr
