"""``jax_memory.py`` for TensorFlow."""

import json

import beside
import tensorflow as tf

tf.ones(4) + 1
in_use, total = beside.memory()
said = {"in use": in_use}
try:
    tf.ones((total + 64 << 18,)).numpy()
    said["refused"] = ""
except Exception as error:
    said["refused"] = f"{type(error).__name__}: {error}"
half = tf.ones((total << 17,))
said |= {
    "goes on": [float(half[-1] + 1), float(tf.reduce_sum(tf.ones(4)))],
    "half": beside.memory()[0],
    "total": total,
}
print(json.dumps(said))
