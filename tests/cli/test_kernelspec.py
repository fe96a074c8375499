from __future__ import annotations

import json
import subprocess
import venv

from tests.cli.lab import command, outside_environment


def gpu(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command("kernelspec", *arguments),
        env=outside_environment(),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_specs_are_installed_listed_and_removed(tmp_path):
    prefix = ["--prefix", str(tmp_path)]
    assert gpu("install", *prefix, "--size", "0.05 T4", "--no-plain").returncode == 0
    (written,) = tmp_path.glob("share/jupyter/kernels/*/kernel.json")
    assert json.loads(written.read_text())["display_name"] == "Python 3 (0.05 T4)"
    listed = gpu("list", *prefix)
    assert "Python 3 (0.05 T4)" in listed.stdout
    assert gpu("remove", *prefix).returncode == 0
    assert "(none)" in gpu("list", *prefix).stdout


def test_mistakes_are_told(tmp_path):
    wrong_size = gpu("install", "--prefix", str(tmp_path), "--size", "much")
    assert (wrong_size.returncode, "cannot be read" in wrong_size.stderr) == (2, True)
    unknown = gpu("remove", "--prefix", str(tmp_path), "python3-elsewhere")
    assert (unknown.returncode, "Not installed by gpu-kernels" in unknown.stderr) == (2, True)
    file = tmp_path / "file"
    file.write_text("")
    unwritable = gpu("install", "--prefix", str(file))
    assert (unwritable.returncode, "Traceback" in unwritable.stderr) == (1, False)


def test_an_environment_is_named_in_the_launcher_and_asked_whether_it_can_run_kernels(tmp_path):
    python = tmp_path / "venv" / "bin" / "python"
    venv.create(tmp_path / "venv", with_pip=False)
    install = ["install", "--prefix", str(tmp_path), "--size", "0.02 V100", "--with", "PyTorch"]
    empty = gpu(*install, "--python", str(python))
    assert (empty.returncode, "lacks ipykernel and gpu_kernels" in empty.stderr) == (2, True)
    nothing = gpu(*install, "--python", str(tmp_path / "nothing"))
    assert (nothing.returncode, "is no Python that answers" in nothing.stderr) == (69, True)
    assert not (tmp_path / "share").exists()
    (site,) = (tmp_path / "venv").glob("lib/python3*/site-packages")
    for name in ("ipykernel", "gpu_kernels"):
        (site / f"{name}.py").touch()
    done = gpu(*install, "--python", str(python))
    assert "Python 3 with PyTorch (0.02 V100)" in done.stdout
    (written,) = tmp_path.glob("share/jupyter/kernels/python3-pytorch-gpu-0.02-v100/kernel.json")
    assert json.loads(written.read_text())["argv"][0] == str(python)
    wrong = gpu("install", "--prefix", str(tmp_path), "--with", "../up")
    assert (wrong.returncode, "names no environment" in wrong.stderr) == (2, True)
