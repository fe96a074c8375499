"""An MLP and a CNN, trained; prints their losses."""

import json

import jax
import jax.numpy as jnp
import numpy as np

numbers = np.random.default_rng(7)


def weights(*shape):
    return jnp.asarray(numbers.normal(size=shape, scale=0.2).astype("float32"))


def cross_entropy(logits, labels):
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1))


def mlp(parameters, x):
    w1, b1, w2, b2 = parameters
    return jnp.tanh(x @ w1 + b1) @ w2 + b2


def cnn(parameters, x):
    w1, w2, w3 = parameters
    x = jax.nn.relu(jax.lax.conv(x, w1, (1, 1), "SAME"))
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    x = jax.nn.relu(jax.lax.conv(x, w2, (2, 2), "SAME"))
    return x.reshape(len(x), -1) @ w3


def train(network, parameters, x, labels, steps, rate):
    @jax.jit
    def step(parameters):
        loss, slopes = jax.value_and_grad(lambda p: cross_entropy(network(p, x), labels))(parameters)
        return loss, jax.tree.map(lambda value, slope: value - rate * slope, parameters, slopes)

    losses = []
    for _ in range(steps):
        loss, parameters = step(parameters)
        losses.append(float(loss))
    return losses


x = jnp.asarray(numbers.normal(size=(128, 20)).astype("float32"))
images = jnp.asarray(numbers.normal(size=(16, 1, 12, 12)).astype("float32"))
labels = jnp.asarray(numbers.integers(0, 10, size=16))
said = {
    "mlp": train(
        mlp,
        [weights(20, 64), weights(64), weights(64, 2), weights(2)],
        x,
        (x.sum(1) > 0).astype(int),
        50,
        0.5,
    ),
    "cnn": train(cnn, [weights(8, 1, 3, 3), weights(16, 8, 3, 3), weights(144, 10)], images, labels, 10, 0.1),
    "on_cuda": [float(all(device.platform == "gpu" for device in jax.devices()))],
}
print(json.dumps(said))
