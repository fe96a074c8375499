"""Layers called one by one, which TensorFlow has cuDNN compute: results and gradients."""

import json

import numpy as np
import tensorflow as tf

images = tf.constant(np.random.default_rng(3).normal(size=(2, 6, 7, 4)).astype("float32"))
scale, shift = tf.constant([1.0, 2.0, 0.5, -1.0]), tf.constant([0.0, 1.0, -1.0, 0.5])
filters = tf.constant(np.random.default_rng(4).normal(size=(3, 3, 4, 5)).astype("float32"))
doubled, doubled_filters = tf.cast(images, "float64"), tf.cast(filters, "float64")
layers = {
    "convolution": lambda x: tf.nn.conv2d(x, filters, 2, "SAME"),
    # In double: one mean moves all, and what comes back to it is small beside its terms.
    "filters": lambda x: tf.nn.conv2d(
        doubled, doubled_filters + tf.reduce_mean(tf.cast(x, "float64")), 1, "VALID"
    ),
    "max_pool": lambda x: tf.nn.max_pool2d(x, 3, 2, "SAME"),
    "average": lambda x: tf.nn.avg_pool2d(x, 2, 2, "VALID"),
    "normalisation": lambda x: tf.compat.v1.nn.fused_batch_norm(x, scale, shift, epsilon=1e-3)[0],
    "response": lambda x: tf.nn.local_response_normalization(x, depth_radius=1),
}
said = {}
for name, layer in layers.items():
    with tf.GradientTape() as tape:
        tape.watch(images)
        result = layer(images)
        total = tf.reduce_sum(result * result * tf.sin(result))
    said[name] = [float(number) for number in tf.reshape(result, [-1])[:40]]
    said[f"{name} back"] = [float(number) for number in tf.reshape(tape.gradient(total, images), [-1])[:40]]
# XLA swaps the two where the filter is the larger one.
larger = tf.constant(np.random.default_rng(5).normal(size=(5, 5, 4, 3)).astype("float32"))
for name, compiled in (("larger filter", False), ("larger filter compiled", True)):
    convolve = tf.function(lambda x: tf.nn.conv2d(x, larger, 1, "SAME"), jit_compile=compiled)
    said[name] = [float(number) for number in tf.reshape(convolve(images[:, :4, :4]), [-1])[:40]]
inference = tf.compat.v1.nn.fused_batch_norm(
    images, scale, shift, mean=shift, variance=tf.abs(scale), is_training=False
)[0]
said["inference"] = [float(number) for number in tf.reshape(inference, [-1])[:40]]
print(json.dumps(said))
