"""``jupyter gpu check`` names what does not work, and what to do."""

from __future__ import annotations

import json
import venv

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


@pytest.fixture
def environment(tmp_path):
    """Makes an environment whose packages are no more than their names and versions; gives its Python."""
    venv.create(tmp_path / "venv", with_pip=False)
    (site,) = (tmp_path / "venv").glob("lib/python3*/site-packages")

    def with_packages(**versions: str) -> str:
        for name, version in {"ipykernel": "7.4", "gpu_kernels": "0.1", **versions}.items():
            (site / f"{name}.py").touch()
            (folder := site / f"{name}-{version}.dist-info").mkdir()
            (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        return str(tmp_path / "venv" / "bin" / "python")

    return with_packages


@pytest.mark.native
def test_the_frameworks_of_another_environment_are_named_with_whether_they_were_tried(lab: Lab, environment):
    python = environment(torch="2.15.0+cu132", jaxlib="0.9.9", tensorflow="2.21.0", keras="3.15.1")
    done = lab.gpu("check", "--software", "--json", "--python", python)
    told = {check["name"]: check for check in json.loads(done.stdout)}
    assert done.returncode == 0, "a release that was not tried is no fault"
    assert told["environment"]["ok"] is True
    assert told["PyTorch"]["ok"] is True
    assert told["PyTorch"]["detail"].startswith("2.15.0 was tried.")
    assert told["TensorFlow"]["detail"] == "2.21.0 was tried. Keras is 3.15.1."
    assert told["JAX"]["ok"] is None
    assert told["JAX"]["detail"].startswith("0.9.9 was not tried in a slice; ")
    assert "0.12.0.1" in told["JAX"]["detail"]
    assert "unknown   JAX" in lab.gpu("check", "--software", "--python", python).stdout


@pytest.mark.native
def test_of_cupys_and_cudfs_wheels_it_says_why_they_do_not_run_and_what_does(lab: Lab, environment):
    python = environment(cupy_cuda13x="14.2.0", libcudf_cu13="26.10.2")
    done = lab.gpu("check", "--software", "--json", "--python", python)
    told = {check["name"]: check for check in json.loads(done.stdout)}
    assert told["CuPy"]["ok"] is None
    assert "built from source with the shared one" in told["CuPy"]["detail"]
    assert "NVIDIA's driver only" in told["cuDF"]["detail"]


@pytest.mark.native
def test_a_python_whose_kernels_would_end_at_once_fails(lab: Lab, tmp_path):
    venv.create(tmp_path / "venv", with_pip=False)
    done = lab.gpu("check", "--software", "--python", str(tmp_path / "venv" / "bin" / "python"))
    assert done.returncode == 1
    assert "lacks ipykernel, gpu_kernels" in done.stdout
    assert lab.gpu("check", "--software", "--python", "/nonexistent").returncode == 1
