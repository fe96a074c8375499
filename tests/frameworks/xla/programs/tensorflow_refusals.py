"""What needs a function of a library that is not there, each an exception; and the process goes on."""

import json

import tensorflow as tf

a = tf.eye(4)
calls = {
    "tridiagonal": lambda: tf.linalg.tridiagonal_solve(tf.eye(3), tf.ones((3, 1)), diagonals_format="matrix")
}
said = {}
for name, call in calls.items():
    try:
        call()
        said[name] = ""
    except Exception as error:
        said[name] = f"{type(error).__name__}: {error}"
print(json.dumps({"refused": said, "goes on": float(tf.reduce_sum(a + 1))}))
