"""What an installed wheel brings to Jupyter. It is made without the native code, which takes minutes."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

import pytest

from tests.repository.test_imports import LINKED
from tests.repository.test_repository import tracked_files

pytestmark = pytest.mark.timeout(600)

ROOT = Path(__file__).parents[2]
FETCHED = ROOT / "gpu_kernels" / "labextension" / "node_modules" / ".lock"
PROXY = ROOT / "hub_config" / "proxy" / "node_modules" / ".ready"
"""There once its packages are: from then on it is built, or something is wrong."""


def data(archive: zipfile.ZipFile) -> dict[str, str]:
    """What is installed beside the packages, by its path below the environment."""
    names = (name.partition(".data/data/") for name in archive.namelist())
    return {path: whole + mark + path for whole, mark, path in names if mark}


def test_all_that_can_be_imported_from_it_begins_with_gpu_kernels(wheel):
    tops = {name.partition("/")[0] for name in wheel.namelist()}
    assert {name for name in tops if not name.endswith((".dist-info", ".data"))} == {"gpu_kernels"}


def test_it_brings_every_module_of_the_project_once(wheel):
    """Those beside ``gpu_kernels`` too, which are linked there, and not what builds the native code."""
    tracked = {path.relative_to(ROOT) for path in tracked_files() if path.suffix == ".py"}
    modules = {
        str(path if path.parts[0] == "gpu_kernels" else Path("gpu_kernels", path))
        for path in tracked
        if path.parts[0] in ("gpu_kernels", *LINKED) and path.parts[:2] != ("remoting", "native")
    }
    assert sorted(name for name in wheel.namelist() if name.endswith(".py")) == sorted(modules)


def test_its_entry_points_are_there(wheel):
    described = next(name for name in wheel.namelist() if name.endswith(".dist-info/entry_points.txt"))
    named = re.findall(r"= ([\w.]+):\w+$", wheel.read(described).decode(), re.M)
    files = {name.replace(".", "/") for name in named}
    assert len(files) >= 5
    brought = {name.removesuffix(".py").removesuffix("/__init__") for name in wheel.namelist()}
    assert files <= brought


def test_it_enables_the_servers_extension(wheel):
    enabling = data(wheel)["etc/jupyter/jupyter_server_config.d/gpu-kernels.json"]
    enabled = json.loads(wheel.read(enabling))["ServerApp"]["jpserver_extensions"]
    assert enabled == {"gpu_kernels.server": True}
    assert "gpu_kernels/server/extension.py" in wheel.namelist()


@pytest.mark.skipif(not FETCHED.exists(), reason="the packages that build it are not here")
def test_it_brings_jupyterlabs_extension_built(wheel):
    lab = "share/jupyter/labextensions/gpu-kernels"
    brought = data(wheel)
    described = json.loads(wheel.read(brought[f"{lab}/package.json"]))
    assert described["name"] == "gpu-kernels"
    assert f"{lab}/{described['jupyterlab']['_build']['load']}" in brought


def test_it_brings_no_sources_of_the_lab_extension_and_nothing_beside_it(wheel):
    shared = [path for path in data(wheel) if path.startswith("share/")]
    assert [path for path in shared if not path.startswith("share/jupyter/labextensions/gpu-kernels/")] == []
    assert [name for name in wheel.namelist() if name.startswith("gpu_kernels/labextension")] == []


@pytest.mark.skipif(not PROXY.exists(), reason="JupyterHub's proxy is not here")
def test_it_brings_the_labs_proxy_and_notebook_and_of_node_nothing_else(wheel):
    """With what the proxy's lock names for those who run it, each with its licence."""
    lab = "gpu_kernels/hub_config/"
    names = wheel.namelist()
    assert f"{lab}notebooks/first_steps.ipynb" in names
    assert [name for name in names if "/notebooks/" in name and not name.endswith("/")] == [
        f"{lab}notebooks/first_steps.ipynb"
    ]
    locked = json.loads((PROXY.parent.parent / "package-lock.json").read_text())["packages"]
    wanted = {name for name, package in locked.items() if name and not package.get("dev")}
    described = re.compile(rf"{lab}proxy/(.*)/package\.json")
    assert wanted <= {found[1] for name in names if (found := described.fullmatch(name))}
    licence = re.compile(rf"(?i){lab}proxy/(.*)/licen[cs]e(\.\w+)?")
    assert wanted <= {found[1] for name in names if (found := licence.fullmatch(name))}
    brought = {name for name in names if "node_modules" in name and not name.endswith("/")}
    assert {
        name for name in brought if not any(name.startswith(f"{lab}proxy/{package}/") for package in wanted)
    } == set()


def test_it_brings_what_frameworks_need_at_their_start(wheel):
    names = set(wheel.namelist())
    for folder, kinds in (
        ("gpu_kernels/remoting/startup", ("*.py", "*.txt")),
        ("gpu_kernels/pytorch", ("*.py", "*.cc", "*.h")),
    ):
        files = {str(path.relative_to(ROOT)) for kind in kinds for path in (ROOT / folder).rglob(kind)}
        assert files
        assert files <= names
