"""What needs a library of NVIDIA's, unless XLA does it itself; and the process goes on."""

import json

import jax
import jax.numpy as jnp
from jax.experimental import sparse
from jax.experimental.sparse.linalg import spsolve

a = jnp.eye(4)
compressed = sparse.BCSR.fromdense(a)
calls = {
    "convolution": lambda: jax.lax.conv(jnp.ones((1, 1, 8, 8)), jnp.ones((2, 1, 3, 3)), (1, 1), "SAME"),
    "sparse system": lambda: spsolve(compressed.data, compressed.indices, compressed.indptr, a[0]),
    "tridiagonal system": lambda: jax.lax.linalg.tridiagonal_solve(a[0], a[0] + 1, a[3], a[:, :1]),
    "tridiagonal form": lambda: jax.lax.linalg.tridiagonal(a),
}
said = {}
for name, call in calls.items():
    try:
        jax.block_until_ready(call())
        said[name] = ""
    except Exception as error:
        said[name] = f"{type(error).__name__}: {error}"
print(json.dumps({"refused": said, "goes on": float((a + 1).sum())}))
