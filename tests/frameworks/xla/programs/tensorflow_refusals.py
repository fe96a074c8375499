"""What needs a library of NVIDIA's, each an exception in words; and the process goes on."""

import json

import tensorflow as tf

a = tf.eye(4)
calls = {
    "recurrent": lambda: tf.raw_ops.CudnnRNN(
        input=tf.ones((3, 1, 2)),
        input_h=tf.zeros((1, 1, 4)),
        input_c=tf.zeros((1, 1, 4)),
        params=tf.zeros((128,)),
        is_training=False,
    ),
}
said = {}
for name, call in calls.items():
    try:
        call()
        said[name] = ""
    except Exception as error:
        said[name] = f"{type(error).__name__}: {error}"
print(json.dumps({"refused": said, "goes on": float(tf.reduce_sum(a + 1))}))
