"""What TensorFlow has cuBLAS, cuBLASLt and cuSOLVER do: prints the results, as far as they are unique."""

import json

import numpy as np
import tensorflow as tf

numbers = np.random.default_rng(1)
a, b, tall = (numbers.normal(size=size).astype("float32") for size in ((6, 6), (6, 2), (9, 4)))
positive = (a @ a.T + 6 * np.eye(6)).astype("float32")
turned = (a + 1j * a).astype("complex64")
thin = np.tril(np.triu(positive, -1), 1)
done = {
    "solve": tf.linalg.solve(a, b),
    "solve many": tf.linalg.solve(np.stack([a, a.T]), np.stack([b] * 2)),
    "inverse": tf.linalg.inv(a),
    "determinant": tf.linalg.det(a),
    "cholesky": tf.linalg.cholesky(positive),
    "cholesky of many": tf.linalg.cholesky(np.stack([positive] * 3)),
    "triangle": tf.linalg.triangular_solve(np.tril(positive), b),
    "qr": tf.abs(tf.linalg.qr(tall)[1]),
    "singular values": tf.linalg.svd(tall, compute_uv=False),
    "of a wide one": tf.linalg.svd(tall.T)[0],
    "of many": tf.linalg.svd(np.stack([tall] * 3))[0],
    "eigenvalues": tf.linalg.eigvalsh(positive),
    "tridiagonal": tf.linalg.tridiagonal_solve(tf.constant(thin), tf.constant(b), diagonals_format="matrix"),
    "complex": tf.abs(tf.linalg.matmul(turned, turned)),
    "with a bias": tf.nn.relu(tf.nn.bias_add(tf.linalg.matmul(tall, tall.T), np.ones(9, "float32"))),
}
said = {name: value.numpy().astype("float64").ravel().tolist() for name, value in done.items()}
print(json.dumps(said | {"on a GPU": sum("GPU" in value.device for value in done.values())}))
