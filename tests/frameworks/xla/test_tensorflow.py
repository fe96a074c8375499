"""TensorFlow in a slice, with nothing set by the student."""

from __future__ import annotations

import pytest

from .conftest import A_FIFTIETH, assert_close, assert_goes_by_the_slices_memory, python_with, run

pytestmark = [pytest.mark.native, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def python() -> str:
    return python_with("tensorflow")


def test_the_slice_is_its_gpu_and_computes_as_the_cpu_does(python, environment, cpu_environment) -> None:
    here = run(python, "tensorflow_operations.py", environment)
    cpu = run(python, "tensorflow_operations.py", cpu_environment)
    assert here.pop("gpus")[0] >= 1
    assert cpu.pop("gpus") == [0]
    assert_close(here, cpu)


def test_linear_algebra_is_done_there_as_on_the_cpu(python, environment, cpu_environment) -> None:
    here = run(python, "tensorflow_linear_algebra.py", environment)
    cpu = run(python, "tensorflow_linear_algebra.py", cpu_environment)
    assert (here.pop("on a GPU"), cpu.pop("on a GPU")) == (15, 0)
    assert_close(here, cpu)


def test_kerass_fit_ends_with_the_cpus_losses(python, environment, cpu_environment) -> None:
    here = run(python, "keras_training.py", environment)
    assert_close(here, run(python, "keras_training.py", cpu_environment))


def test_networks_like_resnet_and_inception_have_the_cpus_losses(
    python, environment, cpu_environment
) -> None:
    here = run(python, "keras_networks.py", environment)
    cpu = run(python, "keras_networks.py", cpu_environment)
    assert here.pop("gpus")[0] >= 1
    assert cpu.pop("gpus") == [0]
    assert_close(here, cpu)
    assert here["resnet"][-2] < here["resnet"][0]
    assert here["inception"][-1] < here["inception"][0]


def test_single_layers_of_cudnn_are_as_on_the_cpu(python, environment, cpu_environment) -> None:
    here, cpu = (
        run(python, "tensorflow_layers.py", environment),
        run(python, "tensorflow_layers.py", cpu_environment),
    )
    assert len(here) == 16  # with what it said
    assert_close(here, cpu)


def test_memory_is_taken_as_it_is_needed_and_more_than_the_slice_has_is_tensorflows_own_error(
    python, environment
) -> None:
    """By default TensorFlow takes nearly all of a device at its first use."""
    said = run(python, "tensorflow_memory.py", environment, **A_FIFTIETH)
    assert_goes_by_the_slices_memory(said, "ResourceExhaustedError: ")
