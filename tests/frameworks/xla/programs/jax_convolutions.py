"""Convolutions and their gradients, by types and pads."""

import json

import jax
import jax.numpy as jnp
import numpy as np

numbers = np.random.default_rng(3)
images = numbers.normal(size=(2, 4, 7, 6))
filters = numbers.normal(size=(6, 4, 3, 3))


def total(x, w, steps: int, pads: str):
    result = jax.lax.conv_general_dilated(x, w, (steps, steps), pads)
    # The result is wanted twice: else XLA asks for one graph with what follows, which is refused.
    return jnp.sum(jax.nn.relu(result) * jnp.sin(result))


said = {}
for steps, pads in ((1, "SAME"), (2, "SAME"), (1, "VALID")):
    by = jax.jit(jax.value_and_grad(lambda x, w, s=steps, p=pads: total(x, w, s, p), (0, 1)))
    value, gradients = by(jnp.array(images, "float32"), jnp.array(filters, "float32"))
    said[f"{steps} {pads}"] = [float(value)]
    for name, gradient in zip(("images", "filters"), gradients, strict=True):
        said[f"{steps} {pads} {name}"] = [float(each) for each in gradient.ravel()[:60]]
print(json.dumps(said))
