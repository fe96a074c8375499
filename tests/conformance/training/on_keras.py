"""Trains a CNN for digits as Keras' own first example has it, by Keras' step, on TensorFlow's GPU."""

from __future__ import annotations

from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf
import timing

BATCH = 8 if timing.SMALLEST else 128


def network() -> keras.Model:
    layers = keras.layers
    return keras.Sequential(
        [
            layers.Input((28, 28, 1)),
            *(layers.Conv2D(32, 3, activation="relu"), layers.MaxPooling2D()),
            *(layers.Conv2D(64, 3, activation="relu"), layers.MaxPooling2D()),
            *(layers.Flatten(), layers.Dense(10)),
        ]
    )


def prepare() -> Callable[[], float]:
    assert tf.config.list_physical_devices("GPU"), "TensorFlow has no GPU"
    keras.utils.set_random_seed(0)
    numbers = np.random.default_rng(0)
    x = numbers.normal(size=(BATCH, 28, 28, 1)).astype("float32")
    y = numbers.integers(0, 10, BATCH)
    model = network()
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    # What the step tells is the mean since the last reset.
    return lambda: (model.reset_metrics(), float(model.train_on_batch(x, y)))[1]


if __name__ == "__main__":
    timing.train("Keras: CNN, images", BATCH, prepare)
