"""What needs a library of NVIDIA's, each an exception in words; and the process goes on."""

import json

import tensorflow as tf

a = tf.eye(4)
images = tf.ones((1, 8, 8, 1))
calls = {
    "convolution": lambda: tf.nn.conv2d(images, tf.ones((3, 3, 1, 2)), 1, "SAME"),
    "pooling": lambda: tf.nn.max_pool2d(images, 2, 2, "SAME"),
}
said = {}
for name, call in calls.items():
    try:
        call()
        said[name] = ""
    except Exception as error:
        said[name] = f"{type(error).__name__}: {error}"
print(json.dumps({"refused": said, "goes on": float(tf.reduce_sum(a + 1))}))
