"""Trains an MLP for digits as JAX's own first example has it, and a CNN, under ``jit`` on JAX's GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import timing

BATCH = 8 if timing.SMALLEST else 128
SIDE = 28
Network = Callable[[list[Any], Any], Any]


def mlp(layers: list[Any], x: Any) -> Any:
    x = x.reshape(len(x), -1)
    for weights in layers[:-1]:
        x = jnp.tanh(x @ weights)
    return x @ layers[-1]


def cnn(layers: list[Any], x: Any) -> Any:
    for filters in layers[:-1]:
        x = jax.nn.relu(jax.lax.conv(x, filters, (2, 2), "SAME"))
    return x.reshape(len(x), -1) @ layers[-1]


def step_of(network: Network, *shapes: tuple[int, ...]) -> Callable[[], Callable[[], float]]:
    def prepare() -> Callable[[], float]:
        assert jax.devices()[0].platform == "gpu", "JAX has no GPU"
        numbers = np.random.default_rng(0)
        layers = [jnp.asarray(numbers.normal(size=s, scale=0.05).astype("float32")) for s in shapes]
        x = jnp.asarray(numbers.normal(size=(BATCH, 1, SIDE, SIDE)).astype("float32"))
        y = jnp.asarray(numbers.integers(0, 10, BATCH))

        def loss(layers: list[Any]) -> Any:
            told = jax.nn.log_softmax(network(layers, x))
            return -jnp.mean(jnp.take_along_axis(told, y[:, None], 1))

        @jax.jit
        def one(layers: list[Any]) -> Any:
            value, slopes = jax.value_and_grad(loss)(layers)
            return value, [layer - 0.1 * slope for layer, slope in zip(layers, slopes, strict=True)]

        def step() -> float:
            nonlocal layers
            value, layers = one(layers)
            return float(value)

        return step

    return prepare


def main() -> None:
    pixels = SIDE * SIDE
    timing.train("JAX: MLP, images", BATCH, step_of(mlp, (pixels, 512), (512, 512), (512, 10)))
    flat = 32 * (SIDE // 4) ** 2
    timing.train("JAX: CNN, images", BATCH, step_of(cnn, (16, 1, 3, 3), (32, 16, 3, 3), (flat, 10)))


if __name__ == "__main__":
    main()
