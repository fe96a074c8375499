"""What JAX has cuBLAS and cuSOLVER do: prints the results, as far as they are unique."""

import json

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import sparse
from jax.experimental.sparse.linalg import spsolve

numbers = np.random.default_rng(1)
a, b, tall = (numbers.normal(size=size).astype("float32") for size in ((6, 6), (6, 2), (9, 4)))
positive = (a @ a.T + 6 * np.eye(6)).astype("float32")
many, sides = np.stack([a, a.T, a + 1]), np.stack([b] * 3)
compressed = sparse.BCSR.fromdense(jnp.array(positive))
on_gpu = jax.default_backend() == "gpu"  # JAX has one algorithm elsewhere
by_polar = jax.lax.linalg.SvdAlgorithm.POLAR if on_gpu else None
above, beside = np.arange(1, 7, dtype="float32"), np.ones(6, "float32")
done = {
    "solve": jnp.linalg.solve(a, b),
    "solve many": jnp.linalg.solve(many, sides),
    "inverse": jnp.linalg.inv(a),
    "determinant": jnp.linalg.det(a),
    "cholesky": jnp.linalg.cholesky(positive),
    "solve by cholesky": jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(positive), b),
    "qr": jnp.abs(jnp.linalg.qr(tall)[1]),
    "product of qr": jnp.matmul(*jnp.linalg.qr(tall)),
    "singular values": jnp.linalg.svd(tall, compute_uv=False),
    "pseudo-inverse": jnp.linalg.pinv(tall),
    "least squares": jnp.linalg.lstsq(tall, tall[:, :1] * 2)[0],
    "eigenvalues": jnp.linalg.eigh(positive)[0],
    "eigenvalues of many": jnp.linalg.eigvalsh(np.stack([positive] * 3)),
    "eigenvalues of any": jnp.abs(jnp.sort(jnp.linalg.eig(a)[0])),
    "by polar decomposition": jax.lax.linalg.svd(tall, compute_uv=False, algorithm=by_polar),
    "tridiagonal form": jnp.abs(jax.lax.linalg.tridiagonal(positive)[2]),
    "tridiagonal system": jax.lax.linalg.tridiagonal_solve(beside, above + 3, beside, b),
    "tridiagonal systems": jax.lax.linalg.tridiagonal_solve(
        *(np.stack([each] * 3) for each in (beside, above + 3, beside)), sides[:, :, :1]
    ),
    "sparse system": spsolve(compressed.data, compressed.indices, compressed.indptr, b[:, 0]),
    "gradient": jax.grad(lambda m: jnp.linalg.slogdet(m)[1])(positive),
    "complex": jnp.abs((a + 1j * a) @ (a - 2j * a)),
}
print(
    json.dumps({name: np.asarray(value).astype("float64").ravel().tolist() for name, value in done.items()})
)
