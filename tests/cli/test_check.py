"""``jupyter gpu check`` names what does not work, and what to do."""

from __future__ import annotations

import json

import pytest

from tests.cli.lab import Lab


def verdicts(text: str) -> dict[str, bool]:
    return {check["name"]: check["ok"] for check in json.loads(text)}


@pytest.mark.native
@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"GPU_KERNELS_CONTROLLER": "http://127.0.0.1:9"}, {"controller": False}),
        ({"GPU_KERNELS_CONTROLLER": ""}, {"controller": False}),
        ({"GPU_KERNELS_TOKEN": "wrong"}, {"controller": True, "token": False}),
        (
            {"GPU_KERNELS_COURSE": "art7"},
            {"controller": True, "token": True, "GPU servers": True, "lease": False},
        ),
    ],
)
def test_the_first_thing_that_fails_is_named(lab: Lab, env, expected):
    done = lab.gpu("check", "--json", **env)
    assert done.returncode == 1
    assert verdicts(done.stdout) == {"native libraries": True, **expected}
    shown = lab.gpu("check", **env)
    assert "FAILED" in shown.stdout
    assert "->" in shown.stdout, "what to do about it"


def test_missing_libraries_are_listed(lab: Lab):
    done = lab.gpu("check", "--software", GPU_KERNELS_NATIVE="/nonexistent")
    assert done.returncode == 1
    assert "client/libcuda.so.1" in done.stdout
    assert "bin/gpu-worker" in done.stdout


@pytest.mark.native
def test_a_worker_that_speaks_no_cuda_fails_the_addition_and_the_slice_comes_back(lab: Lab):
    done = lab.gpu("check", "--json")
    assert done.returncode == 1
    assert verdicts(done.stdout)["lease"] is True
    assert verdicts(done.stdout)["vector addition"] is False


@pytest.mark.native
def test_the_software_gpu_adds_vectors(lab: Lab):
    done = lab.gpu("check", "--software", "--json")
    assert (done.returncode, verdicts(done.stdout)) == (0, {"native libraries": True, "software GPU": True})


def test_a_size_that_cannot_be_read_is_a_usage_error(lab: Lab):
    assert lab.gpu("check", "--size", "a bit").returncode == 2
