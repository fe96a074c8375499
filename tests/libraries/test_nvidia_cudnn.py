"""cuDNN on a real GPU, without one: a library with the ABI of NVIDIA's stands in the worker, and writes down
what it is given. It must be what the program passed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forwarding.minimal_agent import MinimalAgent
from tests.native_build import Build, build_of_make, python_path

HERE = Path(__file__).parent
INVALID_VALUE, NOT_SUPPORTED = 1, 801
pytestmark = [pytest.mark.native, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def native() -> Build:
    return build_of_make("client_cuda", "gpu_worker", "recording_driver", "recording_cudnn", "cudnn9")


def run(agent: MinimalAgent, native: Build) -> subprocess.CompletedProcess[str]:
    environment = agent.client_environment(native.client) | {"PYTHONPATH": python_path()}
    library = native.folder / "libraries/9/libcudnn.so.9"
    return subprocess.run(
        [sys.executable, HERE / "cudnn_passing.py", library],
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
    )


def test_nvidias_cudnn_is_given_what_the_program_passed(native, tmp_path) -> None:
    log = tmp_path / "log"
    with MinimalAgent(
        *(tmp_path, native.worker, native.recording_driver),
        environment=os.environ | {"RECORDING_CUDNN_LOG": str(log)},
        options=("--libraries", str(native.folder / "recording_cublas")),
    ) as agent:
        done = run(agent, native)
    assert done.returncode == 0, done.stdout + done.stderr
    passed, recorded = json.loads(done.stdout), log.read_text().splitlines()

    def said(name: str) -> list[str]:
        return [line.removeprefix(f"{name} ") for line in recorded if line.split()[0] == name]

    one_line = {name: text for name, text in passed.items() if isinstance(text, str)}
    assert {name: said(name) for name in one_line} == {name: [text] for name, text in one_line.items()}
    for name in ("Fused", "Activation"):
        assert said(name) == passed[name]
    # The last is of what is refused then.
    assert (
        said("cudnnGetConvolutionForwardAlgorithm_v7")[:-1]
        == passed["cudnnGetConvolutionForwardAlgorithm_v7"]
    )
    # Of the algorithms the first that works in what the stream has: its own workspace.
    (data,) = said("BackwardData")
    assert data.startswith(passed["BackwardData"][0])
    assert data.endswith(passed["BackwardData"][1])
    assert [line.split()[1] for line in said("stream")][:2] == ["default", "own"]
    # Memory outside the slice never comes there; what the library refuses is the next asked call's error.
    assert passed["outside"] == [0, INVALID_VALUE]
    assert passed["refused"] == passed["swish in half"] == [0, NOT_SUPPORTED]
    assert "swish behind a convolution in half precision could make NaN" in done.stderr
    # What was asked is NVIDIA's answer; what it would lay or keep otherwise than our library said is refused.
    assert passed["states"] == 1000
    assert passed["sizes"] == [5 << 20, 4321]
    assert passed["weights elsewhere"] == passed["little to keep"] == [0, NOT_SUPPORTED]
    assert "cudnnRNNForward: NVIDIA's library has weights elsewhere than the program was told" in done.stderr
    assert "bytes in the reserve space, which has" in done.stderr
    assert said("Live") == ["1"]
    assert len(said("create")) == 1


def test_a_server_without_the_library_says_so_once_and_at_the_first_handle(native, tmp_path) -> None:
    with MinimalAgent(tmp_path, native.worker, native.recording_driver) as agent:
        done = run(agent, native)
    assert done.returncode != 0
    assert done.stderr.count("this GPU server has no libcudnn.so.9") == 1
    assert "cudnnConvolutionForward is not supported" in done.stderr
