"""A slice that goes away while Keras is in use; ``jax_lives.py`` says how."""

import ctypes
import json
import sys

import beside
import keras
import numpy as np
import tensorflow as tf

how = sys.argv[1]
if how == "anew":
    assert ctypes.CDLL("libcuda.so.1").gkNewLife() == 0
x, y = np.ones((8, 4), "float32"), np.ones((8, 2), "float32")
network = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(2)])
network.compile("sgd", "mse")
network.fit(x, y, verbose=0)
kept = tf.ones(5) + 1
assert (kept + 1).numpy().tolist() == [3.0] * 5
assert "GPU" in kept.device
theirs, freed = None, None
if how == "fault of theirs":
    freed = beside.Freed(1 << 20)
    theirs = tf.experimental.dlpack.from_dlpack(freed.__dlpack__())
    assert float(tf.reduce_sum(theirs)) == 0
print("ready", flush=True)
uses = {
    "a tensor of before": lambda: (kept + 1).numpy(),
    "its numbers": lambda: kept.numpy(),
    "a new tensor": lambda: (tf.ones(7) * 3).numpy(),
    "fit": lambda: network.fit(x, y, verbose=0),
}
if how == "lost at work":
    uses = {"work": lambda: network.fit(x, y, epochs=100_000, verbose=0)} | uses
else:
    sys.stdin.readline()
if how == "anew":
    assert ctypes.CDLL("libcuda.so.1").gkNewLife() == 0
if how == "fault":
    beside.launch_wild()
if theirs is not None:
    freed.give_back()
    uses = {"their kernel": lambda: float(tf.reduce_sum(theirs * 2))} | uses
said = {}
for name, use in uses.items():
    try:
        use()
        said[name] = ""
    except Exception as error:
        said[name] = f"{type(error).__name__}: {error}"
with tf.device("/CPU:0"):
    print(json.dumps({"refused": said, "the CPU goes on": float(tf.reduce_sum(tf.constant([2.0] * 3)))}))
