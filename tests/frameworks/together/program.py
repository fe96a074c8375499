"""Several frameworks in one process, imported in the order of the arguments: each fits the same line on its
GPU, a step of each in turn, so that one works while the others hold the slice. Prints each one's slope and
offset, and where it computed. A program for a Python that has them.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

STEPS, RATE = 60, 0.2
X = np.linspace(-1, 1, 64, dtype="float32")[:, None]
Y = 3 * X + 1
Step = Callable[[], tuple[float, float, str]]


def torch() -> Step:
    import torch

    line = torch.nn.Linear(1, 1).cuda()
    torch.nn.init.zeros_(line.weight)
    torch.nn.init.zeros_(line.bias)
    x, y = torch.tensor(X).cuda(), torch.tensor(Y).cuda()
    optimizer = torch.optim.SGD(line.parameters(), lr=RATE)

    def step() -> tuple[float, float, str]:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(line(x), y).backward()
        optimizer.step()
        return line.weight.item(), line.bias.item(), line.weight.device.type

    return step


def tensorflow() -> Step:
    import tensorflow as tf

    weight, bias = tf.Variable([[0.0]]), tf.Variable([0.0])
    x, y = tf.constant(X), tf.constant(Y)

    def step() -> tuple[float, float, str]:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.matmul(x, weight) + bias - y) ** 2)
        for value, slope in zip((weight, bias), tape.gradient(loss, (weight, bias)), strict=True):
            value.assign_sub(RATE * slope)
        where = tf.DeviceSpec.from_string((weight + 0).device).device_type
        return float(weight[0, 0]), float(bias[0]), where

    return step


def jax() -> Step:
    import jax
    import jax.numpy as jnp

    state: Any = (jnp.zeros((1, 1)), jnp.zeros(1))
    x, y = jnp.asarray(X), jnp.asarray(Y)

    @jax.jit
    def one(state: Any) -> Any:
        slopes = jax.grad(lambda s: jnp.mean((x @ s[0] + s[1] - y) ** 2))(state)
        return jax.tree.map(lambda value, slope: value - RATE * slope, state, slopes)

    def step() -> tuple[float, float, str]:
        nonlocal state
        state = one(state)
        return float(state[0][0, 0]), float(state[1][0]), jax.devices()[0].platform

    return step


def main() -> None:
    names = sys.argv[1:]
    for name in names:
        importlib.import_module(name)
    steps = {name: globals()[name]() for name in names}
    fitted = {}
    for _ in range(STEPS):
        fitted = {name: step() for name, step in steps.items()}
    print(json.dumps(fitted))


if __name__ == "__main__":
    main()
