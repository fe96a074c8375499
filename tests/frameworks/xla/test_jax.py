"""JAX in a slice, with nothing set by the student."""

from __future__ import annotations

import pytest

from .conftest import assert_close, python_with, run

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
    assert_close(here, cpu, digits=3)


def test_linear_algebra_is_as_on_the_cpu(python, environment, cpu_environment) -> None:
    here, cpu = (
        run(python, "jax_linear_algebra.py", environment),
        run(python, "jax_linear_algebra.py", cpu_environment),
    )
    assert_close(here, cpu, digits=3)


def test_a_convolution_that_wants_cudnn_is_as_on_the_cpu(python, environment, cpu_environment) -> None:
    """As XLA does it in a release that gets no flags; the user's flags come after ours."""
    flags = "--xla_gpu_experimental_disable_binary_libraries=false --xla_gpu_autotune_level=4"
    here, cpu = (
        run(python, "jax_convolutions.py", environment, XLA_FLAGS=flags),
        run(python, "jax_convolutions.py", cpu_environment),
    )
    assert len(here) == 22  # with what it said
    assert_close(here, cpu, digits=3)


def test_what_needs_nvidias_libraries_is_an_exception(python, environment) -> None:
    said = run(python, "jax_refusals.py", environment)
    assert said["refused"].pop("convolution") == ""
    assert all(said["refused"].values()), said["refused"]
    assert said["goes on"] == 20


def test_a_program_says_how_much_memory_it_wants(python, environment) -> None:
    """By default JAX takes three quarters of a device at its first use."""
    said = run(python, "jax_memory.py", environment)
    assert said["in use"] < 64
    assert run(python, "jax_memory.py", environment, XLA_PYTHON_CLIENT_PREALLOCATE="true")["in use"] > 1000
