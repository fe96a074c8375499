"""A network in the manner of ResNet and one of Inception's, some steps by Keras' fit on synthetic images;
prints the losses of the epochs and of an evaluation. By name: one of them.
"""

import json
import sys

import keras
import numpy as np
import tensorflow as tf

layers = keras.layers
SIZE, CLASSES = 8, 10
numbers = np.random.default_rng(0)
images = numbers.normal(size=(16, SIZE, SIZE, 3)).astype("float32")
labels = numbers.integers(0, CLASSES, 16)


def normalised(x, filters, size, steps=1):
    x = layers.Conv2D(filters, size, steps, padding="same", use_bias=False)(x)
    return layers.ReLU()(layers.BatchNormalization()(x))


def residual(x, filters, steps):
    """ResNet's block: two convolutions, added to what came in."""
    straight = x
    if steps > 1 or x.shape[-1] != filters:
        straight = layers.BatchNormalization()(layers.Conv2D(filters, 1, steps, use_bias=False)(x))
    x = normalised(x, filters, 3, steps)
    x = layers.BatchNormalization()(layers.Conv2D(filters, 3, padding="same", use_bias=False)(x))
    return layers.ReLU()(x + straight)


def inception(x, filters):
    """Inception's block: convolutions of several sizes and a pooling beside each other."""
    pooled = layers.MaxPooling2D(3, 1, padding="same")(x)
    return layers.Concatenate()(
        [
            normalised(x, filters, 1),
            normalised(normalised(x, filters, 1), filters, 3),
            normalised(normalised(x, filters, 1), filters, 5),
            normalised(pooled, filters, 1),
        ]
    )


def answered(first, x):
    return keras.Model(first, layers.Dense(CLASSES)(layers.GlobalAveragePooling2D()(x)))


def resnet():
    first = layers.Input((SIZE, SIZE, 3))
    x = normalised(first, 4, 3)
    for filters, steps in ((4, 1), (8, 2)):
        x = residual(x, filters, steps)
    return answered(first, x)


def googlenet():
    first = layers.Input((SIZE, SIZE, 3))
    x = layers.MaxPooling2D(3, 2, padding="same")(normalised(first, 4, 3))
    x = layers.AveragePooling2D(2)(inception(x, 2))
    return answered(first, layers.Dropout(0.2)(x))


networks = {"resnet": resnet, "inception": googlenet}
said = {}
for name in sys.argv[1:] or networks:
    keras.utils.set_random_seed(3)
    network = networks[name]()
    network.compile(
        keras.optimizers.SGD(0.05, momentum=0.9),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=True,  # dropout's random numbers depend on it
    )
    told = network.fit(images, labels, epochs=3, batch_size=8, verbose=0, shuffle=False).history["loss"]
    said[name] = [*told, network.evaluate(images, labels, verbose=0)]
print(json.dumps(said | {"gpus": [len(tf.config.list_logical_devices("GPU"))]}))
