"""JAX in a slice, with nothing set by the student."""

from __future__ import annotations

import pytest

from .conftest import A_FIFTIETH, assert_close, assert_goes_by_the_slices_memory, python_with, run

pytestmark = [pytest.mark.native, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def python() -> str:
    return python_with("jax")


def test_networks_train_with_the_cpus_losses(python, environment, cpu_environment) -> None:
    here, cpu = run(python, "jax_training.py", environment), run(python, "jax_training.py", cpu_environment)
    assert (here.pop("on_cuda"), cpu.pop("on_cuda")) == ([1], [0])
    assert_close(here, cpu)
    assert here["mlp"][-1] < 0.2 < here["mlp"][0]
    assert here["cnn"][-1] < here["cnn"][0]


def test_what_a_first_course_uses_is_as_on_the_cpu(python, environment, cpu_environment) -> None:
    here, cpu = (
        run(python, "jax_operations.py", environment),
        run(python, "jax_operations.py", cpu_environment),
    )
    assert_close(here, cpu)


def test_linear_algebra_is_as_on_the_cpu(python, environment, cpu_environment) -> None:
    here, cpu = (
        run(python, "jax_linear_algebra.py", environment),
        run(python, "jax_linear_algebra.py", cpu_environment),
    )
    assert_close(here, cpu)


def test_a_convolution_that_wants_cudnn_is_as_on_the_cpu(python, environment, cpu_environment) -> None:
    """As XLA does it in a release that gets no flags; the user's flags come after ours."""
    flags = "--xla_gpu_experimental_disable_binary_libraries=false --xla_gpu_autotune_level=4"
    here, cpu = (
        run(python, "jax_convolutions.py", environment, XLA_FLAGS=flags),
        run(python, "jax_convolutions.py", cpu_environment),
    )
    assert len(here) == 22  # with what it said
    assert_close(here, cpu, digits=3)  # as many as float16 has


def test_what_needs_nvidias_libraries_is_an_exception(python, environment) -> None:
    said = run(python, "jax_refusals.py", environment)
    assert said["refused"].pop("convolution") == ""
    assert len(said["refused"]) == 1
    assert all(said["refused"].values()), said["refused"]
    assert said["goes on"] == 20


def test_memory_is_taken_as_it_is_needed_and_more_than_the_slice_has_is_jaxs_own_error(
    python, environment
) -> None:
    """By default JAX takes three quarters of a device at its first use."""
    said = run(python, "jax_memory.py", environment, **A_FIFTIETH)
    assert_goes_by_the_slices_memory(said, "JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory")
    at_once = run(python, "jax_memory.py", environment, "small", XLA_PYTHON_CLIENT_PREALLOCATE="true")
    assert at_once["in use"] > 1000
