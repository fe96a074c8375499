"""JAX and TensorFlow that were told to stay on the CPU, where a slice is asked for at its first use. Here
nobody gives one: who asks is refused, with a line that says so.
"""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest

from gpu_kernels.remoting.environment import attachable_environment, without_gpu

from .conftest import python_with

pytestmark = [pytest.mark.slow, pytest.mark.native, pytest.mark.timeout(600)]

JAX = """
import json, jax
devices = [each.platform for each in jax.devices()]
print(json.dumps({"sum": (jax.numpy.ones(3) + 1).tolist(), "devices": devices}))
"""
TENSORFLOW = """
import json, tensorflow as tf
said = {}
if %s:
    try:
        tf.config.list_physical_devices("GPU")
    except RuntimeError as error:
        said["refused"] = str(error).partition(",")[0]
tf.config.set_visible_devices([], "GPU")
said["devices"] = [each.device_type for each in tf.config.list_physical_devices()]
said["sum"] = (tf.ones(3) + 1).numpy().tolist()
print(json.dumps(said))
"""
REFUSAL = "gpu-kernels: no GPU"


def said_by(framework: str, program: str, **variables: str) -> tuple[dict[str, Any], int]:
    """And how often it was refused a slice."""
    outside = {name: value for name, value in without_gpu(os.environ).items() if not name.startswith("JAX_")}
    env = attachable_environment("unix:///nowhere", None, outside, software=True) | variables
    done = subprocess.run(
        [python_with(framework), "-c", program], env=env, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr.count(REFUSAL)


@pytest.mark.parametrize("variable", ["JAX_PLATFORMS", "JAX_PLATFORM_NAME"])
def test_jax_asks_for_no_slice(variable: str) -> None:
    assert said_by("jax", JAX, **{variable: "cpu"}) == ({"sum": [2.0, 2.0, 2.0], "devices": ["cpu"]}, 0)


@pytest.mark.parametrize("asked", [False, True])
def test_tensorflow_that_may_see_no_gpu_asks_for_no_slice_before_and_after_a_refusal(asked: bool) -> None:
    said, refusals = said_by("tensorflow", TENSORFLOW % asked)
    assert said.pop("refused", None) == ("there is no GPU for this" if asked else None)
    assert said == {"sum": [2.0, 2.0, 2.0], "devices": ["CPU"]}
    assert refusals == asked
