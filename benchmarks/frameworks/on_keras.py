"""Times a training step of a small CNN in Keras, on TensorFlow's first device. A program for the Python that
has it; prints JSON.
"""

from __future__ import annotations

import json
import statistics
import sys
import time

import keras
import numpy as np
import tensorflow as tf

TIMES = 3 if "--smallest" in sys.argv else 50


def network() -> keras.Model:
    layers = keras.layers
    made = keras.Sequential(
        [
            layers.Input((28, 28, 1)),
            layers.Conv2D(16, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(10),
        ]
    )
    made.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return made


def main() -> None:
    assert bool(tf.config.list_physical_devices("GPU")) == (sys.argv[1] == "cuda")
    numbers = np.random.default_rng(0)
    x, y = numbers.normal(size=(32, 28, 28, 1)).astype("float32"), numbers.integers(0, 10, 32)
    model, samples = network(), []
    for _ in range(TIMES + 2):
        start = time.perf_counter()
        model.train_on_batch(x, y)
        samples.append(time.perf_counter() - start)
    print(json.dumps({"step_ms": statistics.median(samples[2:]) * 1e3}))


if __name__ == "__main__":
    main()
