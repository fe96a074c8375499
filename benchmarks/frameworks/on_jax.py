"""Times a training step of an MLP under ``jit`` on JAX's first device. A program for the Python that has it;
prints JSON.
"""

from __future__ import annotations

import json
import statistics
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

TIMES = 3 if "--smallest" in sys.argv else 50


def weights(*shapes: tuple[int, int]) -> list[jax.Array]:
    numbers = np.random.default_rng(0)
    return [jnp.asarray(numbers.normal(size=shape, scale=0.1).astype("float32")) for shape in shapes]


def main() -> None:
    x, y = weights((256, 128), (256, 10))
    layers = weights((128, 256), (256, 10))

    @jax.jit
    def step(layers: list[jax.Array]) -> list[jax.Array]:
        slopes = jax.grad(lambda w: jnp.mean((jnp.tanh(x @ w[0]) @ w[1] - y) ** 2))(layers)
        return [layer - 0.1 * slope for layer, slope in zip(layers, slopes, strict=True)]

    samples = []
    for _ in range(TIMES + 2):
        start = time.perf_counter()
        layers = jax.block_until_ready(step(layers))
        samples.append(time.perf_counter() - start)
    assert jax.devices()[0].platform == {"cpu": "cpu", "cuda": "gpu"}[sys.argv[1]]
    print(json.dumps({"step_ms": statistics.median(samples[2:]) * 1e3}))


if __name__ == "__main__":
    main()
