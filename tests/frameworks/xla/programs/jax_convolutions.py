"""Convolutions and their gradients, by types and pads, and with what XLA gives to cuDNN with one."""

import json

import jax
import jax.numpy as jnp
import numpy as np

numbers = np.random.default_rng(3)
images = numbers.normal(size=(2, 4, 7, 6))
filters = {groups: numbers.normal(size=(8, 4 // groups, 3, 3)) for groups in (1, 2, 4)}


def total(x, w, steps: int, pads: str, groups: int):
    result = jax.lax.conv_general_dilated(x, w, (steps, steps), pads, feature_group_count=groups)
    return jnp.sum(jax.nn.relu(result) * jnp.sin(result))


said = {}
for steps, pads, groups in ((1, "SAME", 1), (2, "SAME", 1), (1, "VALID", 1), (1, "SAME", 2), (2, "SAME", 4)):
    case = f"{steps} {pads} {groups}"
    by = jax.jit(jax.value_and_grad(total, (0, 1)), static_argnums=(2, 3, 4))
    value, gradients = by(
        jnp.array(images, "float32"), jnp.array(filters[groups], "float32"), steps, pads, groups
    )
    said[case] = [float(value)]
    for name, gradient in zip(("images", "filters"), gradients, strict=True):
        said[f"{case} {name}"] = [float(each) for each in gradient.ravel()[:60]]


def fused(x, w, b, z):
    """Three graphs of several operations, of three convolutions."""
    y = [jax.lax.conv_general_dilated(x, scale * w, (1, 1), "SAME") for scale in (1, 2, 3)]
    return jax.nn.relu(y[0] + b), jax.nn.elu(y[1] + b), jax.nn.relu6(2 * y[2] + 0.5 * z + b)


for kind in ("float32", "float16"):
    given = (images, filters[1], numbers.normal(size=(8, 1, 1)), numbers.normal(size=(2, 8, 7, 6)))
    results = jax.jit(fused)(*(jnp.array(each, kind) for each in given))
    for name, result in zip(("relu", "elu", "relu6"), results, strict=True):
        said[f"{kind} {name}"] = [float(each) for each in result.ravel()[:60]]
print(json.dumps(said))
