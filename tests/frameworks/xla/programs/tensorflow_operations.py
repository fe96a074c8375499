"""What runs of TensorFlow, called one by one: prints the results."""

import json

import numpy as np
import tensorflow as tf

a = tf.constant(np.random.default_rng(1).normal(size=(8, 8)).astype("float32"))


def slopes():
    v = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(tf.sin(v) ** 2)
    return tape.gradient(y, v)


def line():
    """A regression by gradients: the line 3x + 1."""
    x = tf.linspace(-1.0, 1.0, 32)
    slope, offset = tf.Variable(0.0), tf.Variable(0.0)
    for _ in range(60):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((slope * x + offset - (3 * x + 1)) ** 2)
        for value, change in zip((slope, offset), tape.gradient(loss, (slope, offset)), strict=True):
            value.assign_sub(0.5 * change)
    return tf.stack([slope, offset])


done = {
    "add": a + a,
    "sum": tf.reduce_sum(a),
    "argmax": tf.argmax(a, 1),
    "exp": tf.exp(a),
    "relu": tf.nn.relu(a),
    "softmax": tf.nn.softmax(a),
    "transpose": tf.transpose(a),
    "gather": tf.gather(a, [1, 2]),
    "concat": tf.concat([a, a], 1),
    "cumsum": tf.cumsum(a),
    "fft": tf.math.imag(tf.signal.fft(tf.cast(a, tf.complex64))),
    "there and back": tf.signal.irfft2d(tf.signal.rfft2d(a) * 2),
    "product": a @ a,
    "batched": tf.matmul(tf.stack([a, a + 1]), tf.stack([a, a]), transpose_b=True),
    "doubles": tf.cast(a, tf.float64) @ tf.cast(a, tf.float64),
    "vector": tf.linalg.matvec(a, a[0]),
    "half": tf.cast(tf.cast(a, tf.float16) + 1, tf.float32),
    "repeatable": tf.random.stateless_uniform((4,), (1, 2)),
    "tape": slopes(),
    "regression": line(),
}
numbers = {name: np.asarray(value).astype("float64").ravel().tolist() for name, value in done.items()}
print(json.dumps(numbers | {"gpus": [float(len(tf.config.list_physical_devices("GPU")))]}))
