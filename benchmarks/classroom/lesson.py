"""The lesson, cell by cell: the first steps in classification as Keras' tutorials teach them.

The pictures are drawn by NumPy, ten kinds of them, 28 by 28 pixels, with noise: nothing is downloaded. The
kernel asks for its slice before TensorFlow is imported, so that who waits takes little memory.
"""

from __future__ import annotations

import json

import nbformat

MARK = "the lesson ends with "
WAIT = "%gpu wait"
IMPORTS = """\
import os, time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
begun = time.monotonic()
import keras
import numpy as np
import tensorflow as tf
keras.utils.set_random_seed(0)"""
DATA = """\
numbers = np.random.default_rng(0)
kinds = numbers.normal(size=(10, 28, 28))

def pictures(count):
    labels = numbers.integers(0, 10, count)
    return (0.18 * kinds[labels] + numbers.normal(size=(count, 28, 28))).astype("float32"), labels

x_train, y_train = pictures({pictures})
x_test, y_test = pictures(500)"""
TRAINING = """\
model = keras.Sequential([
    keras.layers.Input((28, 28)),
    keras.layers.Flatten(),
    keras.layers.Dense(128, activation="relu"),
    keras.layers.Dense(10),
])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
history = model.fit(x_train, y_train, epochs=5, verbose=0).history
_, accuracy = model.evaluate(x_test, y_test, verbose=0)"""
RESULT = f"""\
import json
print({MARK!r} + json.dumps({{
    "accuracy": accuracy,
    "loss": history["loss"][-1],
    "gpus": len(tf.config.list_logical_devices("GPU")),
    "seconds": time.monotonic() - begun,
}}))"""


def notebook(pictures: int, *, on_a_gpu: bool) -> nbformat.NotebookNode:
    """``pictures``: how many it learns from. Without a GPU there is no slice to wait for."""
    cells = [
        *([WAIT] if on_a_gpu else []),
        IMPORTS,
        DATA.replace("{pictures}", str(pictures)),
        TRAINING,
        RESULT,
    ]
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])


def result(executed: nbformat.NotebookNode) -> dict[str, float]:
    """What the last cell printed."""
    printed = "".join(output.get("text", "") for output in executed.cells[-1].outputs)
    found: dict[str, float] = json.loads(printed.split(MARK)[1].splitlines()[0])
    return found
