"""What a first course uses of JAX: prints the results."""

import json

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.linalg import expm

a = jnp.asarray(np.random.default_rng(1).normal(size=(8, 8)).astype("float32"))
key = jax.random.PRNGKey(0)
images = a.reshape(1, 1, 8, 8)
filters = jnp.arange(18.0).reshape(2, 1, 3, 3)


def mandelbrot(c, steps=30):
    def step(_, state):
        z, count = state
        z = jnp.where(jnp.abs(z) < 2, z * z + c, z)
        return z, count + (jnp.abs(z) < 2)

    return lax.fori_loop(0, steps, step, (jnp.zeros_like(c), jnp.zeros(c.shape, int)))[1]


@jax.jit
def complex_products(v):
    for _ in range(4):
        v = jnp.sin(v @ v / 8)
    return v


done = {
    "sum": a.sum(),
    "jit": jax.jit(lambda v: jnp.sin(v).sum())(a),
    "grad": jax.grad(lambda v: (jnp.sin(v) ** 2).sum())(a),
    "hessian": jax.hessian(lambda v: (v**3).sum())(a[0]),
    "vmap": jax.vmap(lambda row: row @ a)(a),
    "product": a @ a,
    "batched": jnp.einsum("bij,bjk->bik", jnp.stack([a] * 3), jnp.stack([a] * 3)),
    "complex": complex_products(a + 1j * a.T).imag,
    "integers": a.astype(int) @ a.astype(int),
    "half": (a.astype(jnp.float16) + 1).astype(jnp.float32),
    "bfloat16": (a.astype(jnp.bfloat16) * 2).astype(jnp.float32),
    "sort": jnp.sort(a),
    "argsort": jnp.argsort(a),
    "top": lax.top_k(a, 3)[0],
    "cumsum": jnp.cumsum(a),
    "scan": lax.scan(lambda c, v: (c + v, c), 0.0, jnp.arange(9.0))[0],
    "loop": lax.fori_loop(0, 10, lambda i, c: c + i, 0),
    "while": lax.while_loop(lambda v: v < 100, lambda v: v * 2, 3),
    "cond": lax.cond(a.sum() > 0, lambda: 1, lambda: 2),
    "branches": jax.jit(lambda v: lax.cond(v.sum() > 0, lambda w: w @ w, jnp.sin, v))(a),
    "until": jax.jit(
        lambda v: lax.while_loop(lambda w: (w * w).sum() > 0.1, lambda w: jnp.sin(w @ w.T) / 4, v)
    )(a),
    "exponential": expm(a),
    "uniform": jax.random.uniform(key, (4,)),
    "normal": jax.random.normal(key, (4,)),
    "permutation": jax.random.permutation(key, 10),
    "gather": a[jnp.array([1, 2])],
    "scatter": a.at[1].add(3),
    "segments": jax.ops.segment_sum(a[0], jnp.array([0, 0, 1, 1, 2, 2, 3, 3])),
    "fft": jnp.fft.fft(a).imag,
    "there and back": jnp.fft.irfftn(jnp.fft.rfftn(a) * 2),
    "convolution": lax.conv(images, filters, (1, 1), "SAME"),
    "strided": lax.conv_general_dilated(images, filters, (2, 2), "VALID", rhs_dilation=(2, 2)),
    "transposed": lax.conv_transpose(
        images, filters, (2, 2), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW")
    ),
    "attention": jax.nn.dot_product_attention(*[a.reshape(1, 8, 2, 4)] * 3),
    "mandelbrot": mandelbrot(jnp.linspace(-2, 0.5, 16)[None, :] + 1j * jnp.linspace(-1, 1, 8)[:, None]),
}
print(
    json.dumps({name: np.asarray(value).astype("float64").ravel().tolist() for name, value in done.items()})
)
