"""Convolutions and their gradients, by types and pads."""

import json

import jax
import jax.numpy as jnp
import numpy as np

numbers = np.random.default_rng(3)
images = numbers.normal(size=(2, 4, 7, 6))
filters = {groups: numbers.normal(size=(8, 4 // groups, 3, 3)) for groups in (1, 2, 4)}


def total(x, w, steps: int, pads: str, groups: int):
    result = jax.lax.conv_general_dilated(x, w, (steps, steps), pads, feature_group_count=groups)
    # The result is wanted twice: else XLA asks for one graph with what follows, which is refused.
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
print(json.dumps(said))
