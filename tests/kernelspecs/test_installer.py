"""Installing kernel specs: what is written, what is left alone, what is taken back."""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path

import pytest
from jupyter_client.kernelspec import KernelSpecManager

from gpu_kernels import kernelspecs
from gpu_kernels.errors import InvalidSize

NAMES = ["python3", "python3-gpu-0.02-v100", "python3-gpu-0.1-v100", "python3-gpu-1-v100"]


@pytest.fixture
def specs_of(tmp_path):
    """What Jupyter itself finds under the prefix."""

    def look() -> dict:
        folders = [str(tmp_path / "share" / "jupyter" / "kernels")]
        return KernelSpecManager(kernel_dirs=folders, ensure_native_kernel=False).get_all_specs()

    return look


def kernel_json(prefix: Path, name: str) -> dict:
    return json.loads((prefix / "share" / "jupyter" / "kernels" / name / "kernel.json").read_text())


def foreign_spec(prefix: Path, name: str = "python3") -> Path:
    folder = prefix / "share" / "jupyter" / "kernels" / name
    folder.mkdir(parents=True)
    (folder / "kernel.json").write_text(
        json.dumps({"argv": ["x"], "display_name": "Theirs", "language": "x"})
    )
    return folder


def test_jupyter_finds_the_three_sizes_and_the_plain_kernel(tmp_path, specs_of):
    done = kernelspecs.install(prefix=tmp_path)
    assert [(spec.name, spec.state) for spec in done] == [(name, "installed") for name in NAMES]
    found = specs_of()
    assert sorted(found) == NAMES
    assert [found[name]["spec"]["display_name"] for name in NAMES] == [
        "Python 3",
        "Python 3 (0.02 V100)",
        "Python 3 (0.1 V100)",
        "Python 3 (1 V100)",
    ]


def test_a_gpu_kernel_names_its_size_for_the_provisioner_and_a_plain_one_has_none(tmp_path):
    kernelspecs.install(prefix=tmp_path)
    gpu = kernel_json(tmp_path, "python3-gpu-0.02-v100")["metadata"]
    assert gpu["kernel_provisioner"] == {"provisioner_name": "gpu-slice", "config": {"size": "0.02 V100"}}
    assert gpu["supported_encryption"] == ["curve"]
    assert "kernel_provisioner" not in kernel_json(tmp_path, "python3")["metadata"]


def test_kernels_run_on_the_installers_python_unless_told_otherwise(tmp_path):
    kernelspecs.install(prefix=tmp_path, sizes=[])
    assert kernel_json(tmp_path, "python3")["argv"][:3] == [sys.executable, "-m", "ipykernel_launcher"]
    assert "{connection_file}" in kernel_json(tmp_path, "python3")["argv"]
    odd = '/opt/my "python"/bin/python'
    kernelspecs.install(prefix=tmp_path, sizes=[], python=odd)
    assert kernel_json(tmp_path, "python3")["argv"][0] == odd


def test_logos_are_images_of_the_stated_size(tmp_path):
    for spec in kernelspecs.install(prefix=tmp_path):
        for side in (32, 64):
            head = (spec.folder / f"logo-{side}x{side}.png").read_bytes()[:24]
            assert head[:8] == b"\x89PNG\r\n\x1a\n"
            assert struct.unpack(">II", head[16:24]) == (side, side)
        assert (spec.folder / "logo-svg.svg").read_text().startswith("<svg ")


def test_installing_again_changes_nothing_and_leaves_nothing_behind(tmp_path, specs_of):
    kernelspecs.install(prefix=tmp_path)
    before = specs_of()
    kernelspecs.install(prefix=tmp_path)
    assert specs_of() == before
    folder = tmp_path / "share" / "jupyter" / "kernels"
    assert sorted(path.name for path in folder.iterdir()) == NAMES


def test_one_size_written_in_two_ways_is_one_spec(tmp_path):
    done = kernelspecs.install(prefix=tmp_path, sizes=["1/20 V100", "0.05 V100", "0.050  V100"], plain=False)
    assert [spec.name for spec in done] == ["python3-gpu-0.05-v100"]


def test_odd_sizes_get_names_that_jupyter_accepts(tmp_path, specs_of):
    kernelspecs.install(prefix=tmp_path, sizes=["1/3 V100", "2048 MiB", "2 A100_80"], plain=False)
    assert sorted(specs_of()) == ["python3-gpu-1-of-3-v100", "python3-gpu-2-a100_80", "python3-gpu-2048-mib"]


@pytest.mark.parametrize("size", ["", "0 V100", "-1 V100", "1.5 V100", "much", "0.02 V100; rm"])
def test_a_malformed_size_is_refused_before_anything_is_written(tmp_path, size):
    with pytest.raises(InvalidSize, match="A size is"):
        kernelspecs.install(prefix=tmp_path, sizes=["0.02 V100", size])
    assert list(tmp_path.iterdir()) == []


def test_somebody_elses_spec_of_the_same_name_is_left_alone(tmp_path):
    folder = foreign_spec(tmp_path)
    done = {spec.name: spec.state for spec in kernelspecs.install(prefix=tmp_path)}
    assert done["python3"] == "kept"
    assert done["python3-gpu-1-v100"] == "installed"
    assert json.loads((folder / "kernel.json").read_text())["display_name"] == "Theirs"


def test_a_folder_that_is_no_spec_is_left_alone(tmp_path):
    folder = foreign_spec(tmp_path)
    (folder / "kernel.json").write_text("not json")
    assert kernelspecs.install(prefix=tmp_path, sizes=[])[0].state == "kept"
    assert (folder / "kernel.json").read_text() == "not json"


def test_removal_takes_what_was_installed_and_nothing_else(tmp_path, specs_of):
    foreign_spec(tmp_path, "theirs")
    kernelspecs.install(prefix=tmp_path)
    assert [spec.name for spec in kernelspecs.installed(prefix=tmp_path)] == NAMES
    kernelspecs.remove(["python3-gpu-1-v100"], prefix=tmp_path)
    assert [spec.name for spec in kernelspecs.remove(prefix=tmp_path)] == NAMES[:-1]
    assert list(specs_of()) == ["theirs"]
    assert kernelspecs.remove(prefix=tmp_path) == []


def test_removing_what_is_not_ours_is_refused_and_removes_nothing(tmp_path):
    foreign_spec(tmp_path, "theirs")
    kernelspecs.install(prefix=tmp_path)
    with pytest.raises(ValueError, match="Not installed by gpu-kernels: theirs"):
        kernelspecs.remove(["python3", "theirs"], prefix=tmp_path)
    assert len(kernelspecs.installed(prefix=tmp_path)) == 4


def test_only_one_place_can_be_chosen(tmp_path):
    with pytest.raises(ValueError, match="Choose one"):
        kernelspecs.install(user=True, prefix=tmp_path)


@pytest.mark.parametrize(
    ("size", "path"),
    [
        ("1/4 V100", "M32 32V15A17 17 0 0 1 49.00 32.00Z"),
        ("3/4 V100", "M32 32V15A17 17 0 1 1 15.00 32.00Z"),
        ("1 V100", "M32 15A17 17 0 1 1 32 49A17 17 0 1 1 32 15Z"),
    ],
)
def test_the_logo_shows_the_share(tmp_path, size, path):
    (spec,) = kernelspecs.install(prefix=tmp_path, sizes=[size], plain=False)
    assert f'd="{path}"' in (spec.folder / "logo-svg.svg").read_text()


def test_an_environment_is_in_the_names_beside_the_size(tmp_path, specs_of):
    kernelspecs.install(prefix=tmp_path, sizes=["0.02 V100"], environment="PyTorch")
    found = specs_of()
    assert {name: spec["spec"]["display_name"] for name, spec in found.items()} == {
        "python3-pytorch": "Python 3 with PyTorch",
        "python3-pytorch-gpu-0.02-v100": "Python 3 with PyTorch (0.02 V100)",
    }
    config = found["python3-pytorch-gpu-0.02-v100"]["spec"]["metadata"]["kernel_provisioner"]["config"]
    assert config == {"size": "0.02 V100"}


def test_kernels_of_several_environments_stand_beside_each_other_and_are_removed_together(tmp_path, specs_of):
    kernelspecs.install(prefix=tmp_path)
    kernelspecs.install(prefix=tmp_path, sizes=["0.1 V100"], plain=False, environment="Keras and JAX")
    assert sorted(specs_of()) == sorted([*NAMES, "python3-keras-and-jax-gpu-0.1-v100"])
    kernelspecs.remove(prefix=tmp_path)
    assert specs_of() == {}


@pytest.mark.parametrize("name", ["$python", "a" * 41, "../up", "naïve", " "])
def test_a_text_that_names_no_environment_is_refused_before_anything_is_written(tmp_path, name):
    with pytest.raises(ValueError, match="names no environment"):
        kernelspecs.install(prefix=tmp_path, environment=name)
    assert list(tmp_path.iterdir()) == []
