"""Networks of a first course, trained by Keras' fit; prints their losses. By name: some of them.

Keras has XLA compile a step for a GPU and not for a CPU, and XLA draws other random numbers than TensorFlow
without it. So a network with dropout is compiled in both places, else there are two networks to compare.
"""

import json
import sys

import keras
import numpy as np

layers = keras.layers
numbers = np.random.default_rng(0)
table = numbers.normal(size=(256, 20)).astype("float32")
images = numbers.normal(size=(64, 12, 12, 1)).astype("float32")
series = numbers.normal(size=(64, 9, 5)).astype("float32")
digits = numbers.integers(0, 10, 64)
letters = numbers.integers(0, 30, (64, 12))


def mlp():
    return layers.Input((20,)), [layers.Dense(64, activation="relu"), layers.Dense(2)]


def cnn():
    """Batch normalisation and dropout."""
    return layers.Input((12, 12, 1)), [
        layers.Conv2D(8, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(16, 3, activation="relu"),
        layers.BatchNormalization(),
        layers.Dropout(0.25),
        layers.Flatten(),
        layers.Dense(10),
    ]


def recurrent(layer):
    return layers.Input((9, 5)), [layer, layers.Dense(2)]


def transformer():
    tokens = layers.Input((12,), dtype="int32")
    places = layers.Embedding(12, 16)(np.arange(12)[None])
    x = layers.Embedding(30, 16)(tokens) + places
    seen = layers.MultiHeadAttention(2, 8)(x, x, use_causal_mask=True)
    x = layers.LayerNormalization()(x + seen)
    x = layers.LayerNormalization()(x + layers.Dense(16)(layers.Dense(32, activation="gelu")(x)))
    return keras.Model(tokens, layers.Dense(30)(x))


def losses(network, optimizer, x, labels, epochs=3, jit_compile="auto"):
    network.compile(
        optimizer=optimizer,
        jit_compile=jit_compile,
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    told = network.fit(x, labels, epochs=epochs, batch_size=32, verbose=0, shuffle=False).history
    seen = network.evaluate(x, labels, verbose=0)
    answer = network.predict(x[:2], verbose=0).ravel()[:20]
    return [*told["loss"], *told["accuracy"], *seen, *answer.tolist()]


def sequential(first, rest):
    return keras.Sequential([first, *rest])


up = (series.sum((1, 2)) > 0).astype("int32")
trained = {
    "mlp": lambda: losses(sequential(*mlp()), "adam", table, (table.sum(1) > 0).astype("int32"), 5),
    "cnn": lambda: losses(sequential(*cnn()), "sgd", images, digits, jit_compile=True),
    "lstm": lambda: losses(sequential(*recurrent(layers.LSTM(7))), "sgd", series, up),
    "gru": lambda: losses(sequential(*recurrent(layers.GRU(6))), "adam", series, up),
    "transformer": lambda: losses(transformer(), "adam", letters, np.roll(letters, -1, 1)),
}
said = {}
for name in sys.argv[1:] or trained:
    keras.utils.set_random_seed(3)
    said[name] = trained[name]()
print(json.dumps(said))
