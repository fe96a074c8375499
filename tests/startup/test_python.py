"""A Python that starts under the runtime, and one that starts without."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpu_kernels.remoting.environment import client_environment, software_environment, without_gpu
from tests.agent.leases import lease

BASE = {"PATH": "/usr/bin:/bin"}
SAYS = """
import os, sys
before = dict(os.environ)
try:
    import {0}
except ImportError:
    pass
print(sorted(set(os.environ) - set(before)))
"""

COUNTS = """
from torch import _C
print(_C._cuda_getDeviceCount(), _C._cuda_getDeviceCount())
try:
    _C._cuda_init()
except RuntimeError as error:
    print(str(error).partition(",")[0])
"""
CHANGES_ITS_MIND = """
from jax._src import xla_bridge
print(xla_bridge._discover_and_register_pjrt_plugins(again=True))
xla_bridge._PLATFORM_NAME.value = ""
try:
    xla_bridge._discover_and_register_pjrt_plugins(again=True)
except RuntimeError as error:
    print(str(error).partition(",")[0])
"""

LOOKS_TWICE = """
from tensorflow.python import pywrap_tfe
for _ in range(2):
    try:
        print(pywrap_tfe.TF_ListPhysicalDevices())
    except RuntimeError as error:
        print(str(error).partition(",")[0])
"""


def run(env: dict[str, str], program: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    return done


def framework(folder: Path, name: str, version: str) -> Path:
    """A package that is installed under a framework's name, in a release that was not tried."""
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text("")
    about = folder / f"{name}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return folder


def test_nothing_is_set_before_a_framework_is_imported() -> None:
    assert run(software_environment(BASE), SAYS.format("json")).stdout == "[]\n"


def test_a_framework_that_was_not_tried_gets_no_flags_and_one_line(tmp_path) -> None:
    env = software_environment(BASE | {"PYTHONPATH": str(framework(tmp_path, "jaxlib", "0.0.1"))})
    done = run(env, SAYS.format("jaxlib"))
    assert "'CUDA_ROOT'" in done.stdout
    assert "XLA_FLAGS" not in done.stdout
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("gpu-kernels: jaxlib 0.0.1: ")


def test_nothing_leaks_into_a_process_without_a_slice(tmp_path) -> None:
    base = BASE | {"PYTHONPATH": str(framework(tmp_path, "jaxlib", "0.0.1"))}
    env = without_gpu(client_environment(lease(), base))
    env.pop("GPU_KERNELS_COURSE")
    assert env == base
    done = run(env, SAYS.format("jaxlib"))
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.native
@pytest.mark.parametrize(
    ("variables", "looked"),
    [({}, ["there is no GPU for this"] * 2), ({"CUDA_VISIBLE_DEVICES": "-1"}, ["devices"] * 2)],
)
def test_a_framework_looks_for_devices_once_there_is_a_slice_or_the_user_wants_none(
    tmp_path, variables, looked
) -> None:
    """Asked a second time it asks again. On a lease whose agent is not there."""
    within = framework(tmp_path, "tensorflow", "0.0.1") / "tensorflow" / "python"
    within.mkdir()
    (within / "pywrap_tfe.py").write_text("def TF_ListPhysicalDevices(): return 'devices'\n")
    env = client_environment(lease(), BASE | {"PYTHONPATH": str(tmp_path)})
    assert run(env | variables, LOOKS_TWICE).stdout.splitlines() == looked


@pytest.mark.native
def test_pytorch_counts_no_device_and_does_not_begin_without_a_slice(tmp_path) -> None:
    """It counts once in a process: without a slice nobody asks it."""
    (framework(tmp_path, "torch", "0.0.1") / "torch" / "_C.py").write_text(
        "def _cuda_getDeviceCount(): return 'counted'\ndef _cuda_init(): print('began')\n"
    )
    env = client_environment(lease(), BASE | {"PYTHONPATH": str(tmp_path)})
    assert run(env, COUNTS).stdout.splitlines() == ["0 0", "there is no GPU for this"]
    hidden = run(env | {"CUDA_VISIBLE_DEVICES": "-1"}, COUNTS)
    assert hidden.stdout.splitlines() == ["counted counted", "began"]


@pytest.mark.native
def test_jax_that_was_told_to_use_the_cpu_looks_without_a_slice_until_it_is_told_otherwise(tmp_path) -> None:
    within = framework(tmp_path, "jax", "0.0.1") / "jax" / "_src"
    within.mkdir()
    (within / "xla_bridge.py").write_text(
        "from types import SimpleNamespace\n"
        "config = SimpleNamespace(jax_platforms=SimpleNamespace(value=None))\n"
        "_PLATFORM_NAME = SimpleNamespace(value='cpu')\n"
        "def _discover_and_register_pjrt_plugins(*, again): return 'plugins'\n"
    )
    env = client_environment(lease(), BASE | {"PYTHONPATH": str(tmp_path)})
    assert run(env, CHANGES_ITS_MIND).stdout.splitlines() == ["plugins", "there is no GPU for this"]


def test_the_users_own_start_of_python_runs_too(tmp_path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.mine = __file__")
    env = software_environment(BASE | {"PYTHONPATH": str(tmp_path)})
    assert run(env, "import sys; print(sys.mine)").stdout == f"{tmp_path / 'sitecustomize.py'}\n"


def test_on_a_software_gpu_it_says_where_its_packages_are():
    """There the stand-ins for NVIDIA's compilers look for NVIDIA's own. Another Python's are not its own."""
    says = "import os; print(os.environ.get('GPU_KERNELS_PACKAGES', '').split(':'))"
    packages = [path for path in sys.path if path.endswith("-packages")]
    inherited = {"GPU_KERNELS_PACKAGES": "/of/another"}
    assert run(software_environment(BASE) | inherited, says).stdout == f"{packages}\n"
    real = client_environment(lease(device="nvidia"), software_environment(BASE) | inherited)
    assert run(real, says).stdout == "['']\n"
