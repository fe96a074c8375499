from __future__ import annotations

import json
import subprocess

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
