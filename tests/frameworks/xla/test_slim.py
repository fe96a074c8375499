"""JAX and TensorFlow without NVIDIA's libraries: all that they are installed with, but NVIDIA's wheels."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from gpu_kernels.remoting.environment import without_gpu
from tests.frameworks import slim

from .conftest import assert_close, python_with, run

pytestmark = [pytest.mark.native, pytest.mark.slow, pytest.mark.timeout(1800)]

OPENS_NVIDIAS = """
import glob, importlib.util, os
spec = importlib.util.find_spec("nvidia")
print(sorted(glob.glob(os.path.join(spec.submodule_search_locations[0], "**", "*.so*"))) if spec else [])
"""


def without_nvidias(framework: str) -> Iterator[str]:
    python = python_with(framework)
    kept = [name for name in slim.packages_of(python) if not name.lower().startswith("nvidia-")]
    assert len(kept) < len(slim.packages_of(python))
    with slim.environment_of(python, kept) as made:
        yield made


@pytest.fixture(scope="module")
def jax() -> Iterator[str]:
    yield from without_nvidias("jax")


@pytest.fixture(scope="module")
def tensorflow() -> Iterator[str]:
    yield from without_nvidias("tensorflow")


@pytest.mark.parametrize("framework", ["jax", "tensorflow"])
def test_nothing_of_nvidias_is_there(framework: str, request: pytest.FixtureRequest) -> None:
    python = request.getfixturevalue(framework)
    done = subprocess.run([python, "-c", OPENS_NVIDIAS], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_jax_trains_with_the_cpus_losses(jax, environment, cpu_environment) -> None:
    here, cpu = run(jax, "jax_training.py", environment), run(jax, "jax_training.py", cpu_environment)
    assert (here.pop("on_cuda"), cpu.pop("on_cuda")) == ([1], [0])
    assert_close(here, cpu)


def test_what_a_first_course_uses_of_jax_is_as_on_the_cpu(jax, environment, cpu_environment) -> None:
    here = run(jax, "jax_operations.py", environment)
    assert_close(here, run(jax, "jax_operations.py", cpu_environment))


def test_jax_says_without_a_slice_that_it_uses_the_cpu(jax) -> None:
    asked = "import jax; print(jax.devices()[0].platform)"
    done = subprocess.run([jax, "-c", asked], env=without_gpu(os.environ), capture_output=True, text=True)
    assert done.stdout == "cpu\n", done.stderr


def test_kerass_fit_ends_with_the_cpus_losses(tensorflow, environment, cpu_environment) -> None:
    here = run(tensorflow, "keras_training.py", environment)
    assert_close(here, run(tensorflow, "keras_training.py", cpu_environment))


def test_the_slice_is_tensorflows_gpu(tensorflow, environment, cpu_environment) -> None:
    here = run(tensorflow, "tensorflow_operations.py", environment)
    cpu = run(tensorflow, "tensorflow_operations.py", cpu_environment)
    assert here.pop("gpus")[0] >= 1
    assert cpu.pop("gpus") == [0]
    assert_close(here, cpu)
