"""The notebooks of a first course with frameworks: stored as they should be, and executed on this machine's
CPU, straight on a software GPU, and in a GPU kernel on a slice of a pool. Their results are compared.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
import pytest

from gpu_kernels import kernelspecs
from gpu_kernels.kernel_ports import hold_ports
from gpu_kernels.remoting.environment import software_environment, without_gpu
from tests.cli.lab import Lab, wait_until
from tests.frameworks import installed
from tests.native_build import ROOT
from tests.notebooks.executing import SIZE, execute, install, path_with, text_of

FOLDER = ROOT / "docs" / "notebooks" / "frameworks"
MEMORY_MIB = 655
"""Of 0.02 V100."""


@dataclass(frozen=True)
class Course:
    """A notebook: its kernel's environment, what it computes, and how near the CPU it must come."""

    environment: str
    results: tuple[str, ...]
    tolerance: float = 1e-4
    on_the_cpu: bool = True


COURSE = {
    "digits_pytorch": Course("PyTorch", ("losses", "accuracy")),
    "digits_keras": Course("Keras", ("losses", "accuracy"), tolerance=1e-2),
    "transformer_pytorch": Course("PyTorch", ("losses", "right")),
    "first_steps_jax": Course("JAX", ("losses", "accuracy", "inside"), tolerance=1e-2),
    "own_kernel_triton": Course("PyTorch", ("losses", "accuracy"), on_the_cpu=False),
    "profiler_pytorch": Course("PyTorch", ("calls", "slow_loss", "fast_loss")),
}
INSTALLED_AS = {"PyTorch": ("pytorch", "torch"), "Keras": ("tensorflow",) * 2, "JAX": ("jax",) * 2}
"""The folder of `make frameworks`, and the package."""
EVERY_NOTEBOOK = pytest.mark.parametrize("name", COURSE)


def stored(name: str) -> nbformat.NotebookNode:
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


@cache
def python_with(environment: str) -> str:
    """The Python of ``make frameworks`` in which kernels can start; else a skip."""
    framework, package = INSTALLED_AS[environment]
    found = f"import ipykernel, matplotlib, gpu_kernels, importlib.util as u; assert u.find_spec({package!r})"
    try:
        return installed.python_with(framework, f"GPU_KERNELS_{package.upper()}_PYTHON", found)
    except installed.NotInstalled as error:
        pytest.skip(str(error))


@pytest.mark.quick
@EVERY_NOTEBOOK
def test_it_is_valid_stored_without_outputs_and_opens_with_the_smallest_kernel(name: str) -> None:
    notebook, environment = stored(name), COURSE[name].environment
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)
    assert notebook.metadata.kernelspec.name == kernelspecs.spec_name(SIZE, environment)
    assert notebook.metadata.kernelspec.display_name == f"Python 3 with {environment} ({SIZE})"
    assert "## Your turn" in notebook.cells[-1].source, "a lesson ends with exercises"


@pytest.mark.quick
def test_each_notebook_there_is_executed_here() -> None:
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == {*COURSE}


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where kernel specs go so that Jupyter finds them."""
    monkeypatch.setenv("JUPYTER_PATH", path_with(tmp_path))
    hold_ports()
    return tmp_path


@pytest.fixture(scope="module")
def on_the_cpu(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What a notebook computes without any GPU, once a notebook."""

    @cache
    def results(name: str) -> dict[str, Any]:
        folder = tmp_path_factory.mktemp(name)
        environment = COURSE[name].environment
        install(folder, environment, python_with(environment))
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("JUPYTER_PATH", path_with(folder))
            env = without_gpu(os.environ) | {"JAX_PLATFORMS": "cpu"}
            plain = kernelspecs.plain_name(environment)
            return execute(stored(name), plain, env, folder, COURSE[name].results)

    return results


def assert_as_on_the_cpu(name: str, here: dict[str, Any], on_the_cpu: Any) -> None:
    course = COURSE[name]
    assert here.get("accuracy", 1.0) > 0.95
    if course.on_the_cpu:
        expected = on_the_cpu(name)
        for result in course.results:
            near = pytest.approx(expected[result], rel=course.tolerance, abs=course.tolerance)
            assert here[result] == near, result


@EVERY_NOTEBOOK
@pytest.mark.slow
@pytest.mark.native
@pytest.mark.timeout(3600)
def test_straight_on_a_software_gpu_it_computes_what_the_cpu_does(
    name: str, kernels: Path, on_the_cpu: Any
) -> None:
    course = COURSE[name]
    install(kernels, course.environment, python_with(course.environment))
    notebook = stored(name)
    env = software_environment(os.environ, memory_mib=MEMORY_MIB)
    plain = kernelspecs.plain_name(course.environment)
    here = execute(notebook, plain, env, kernels, course.results)
    assert_as_on_the_cpu(name, here, on_the_cpu)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    made = Lab(tmp_path_factory.mktemp("lab"), 300.0, worker="gpu-worker")
    yield made
    made.close()


@pytest.fixture
def gpu_kernels_on(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """GPU kernels of this process get their slices from ``lab``."""
    for variable in [each for each in os.environ if each.startswith(("GPU_KERNELS_", "JUPYTERHUB_"))]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("GPU_KERNELS_CONTROLLER", lab.url)
    monkeypatch.setenv("GPU_KERNELS_TOKEN", "ada-token")
    return lab


@EVERY_NOTEBOOK
@pytest.mark.slow
@pytest.mark.native
@pytest.mark.timeout(3600)
def test_in_a_gpu_kernel_it_computes_what_the_cpu_does_on_a_slice_that_comes_back(
    name: str, kernels: Path, on_the_cpu: Any, gpu_kernels_on: Lab
) -> None:
    course = COURSE[name]
    install(kernels, course.environment, python_with(course.environment))
    notebook = stored(name)
    here = execute(notebook, notebook.metadata.kernelspec.name, os.environ, kernels, course.results)
    shown = next(text_of(cell) for cell in notebook.cells if cell.source == "%gpu")
    assert f"A slice of {SIZE}" in shown
    assert_as_on_the_cpu(name, here, on_the_cpu)
    wait_until(gpu_kernels_on.nothing_in_use)


USES = {
    "PyTorch": ("import torch", "print(torch.ones(3, device='cuda').sum().item())", "PyTorch"),
    "Keras": ("import tensorflow as tf", "print(tf.reduce_sum(tf.ones(3)).numpy())", "TensorFlow"),
    "JAX": ("import jax.numpy as jnp", "print(jnp.ones(3).sum().item())", "JAX"),
}


@pytest.mark.parametrize("environment", USES)
@pytest.mark.slow
@pytest.mark.native
@pytest.mark.timeout(1800)
def test_a_framework_that_has_used_its_slice_is_named_with_the_restart_that_it_needs(
    environment: str, kernels: Path, gpu_kernels_on: Lab
) -> None:
    load, use, name = USES[environment]
    install(kernels, environment, python_with(environment))
    cells = [load, "%gpu release", use, "%gpu release"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    execute(notebook, kernelspecs.spec_name(SIZE, environment), os.environ, kernels)
    _, _, used, after = map(text_of, notebook.cells)
    assert "3.0" in used, "a slice that comes after the import serves it"
    assert "cannot go on with another slice: restart the kernel" in after
    assert name in after
    wait_until(gpu_kernels_on.nothing_in_use)
