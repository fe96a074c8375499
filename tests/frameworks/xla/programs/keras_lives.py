"""A slice that goes away while Keras is in use: ``anew`` (the process begins another life, as after ``%gpu
release``) or ``lost`` (who has it there kills the worker). Prints ``ready``, goes on when a line comes, and
prints what then fails how.
"""

import ctypes
import json
import sys

import keras
import numpy as np
import tensorflow as tf

x, y = np.ones((8, 4), "float32"), np.ones((8, 2), "float32")
network = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(2)])
network.compile("sgd", "mse")
network.fit(x, y, verbose=0)
kept = tf.ones(5) + 1
print("ready", flush=True)
sys.stdin.readline()
if sys.argv[1] == "anew":
    assert ctypes.CDLL("libcuda.so.1").gkNewLife() == 0
uses = {
    "a tensor of before": lambda: kept + 1,
    "a new tensor": lambda: tf.ones(7) * 3,
    "fit": lambda: network.fit(x, y, verbose=0),
}
said = {}
for name, use in uses.items():
    try:
        use()
        said[name] = ""
    except Exception as error:
        said[name] = f"{type(error).__name__}: {error}"
with tf.device("/CPU:0"):
    print(json.dumps({"refused": said, "the CPU goes on": float(tf.reduce_sum(tf.constant([2.0] * 3)))}))
