"""What needs a library of NVIDIA's, unless XLA does it itself; and the process goes on."""

import json

import jax
import jax.numpy as jnp

a, heads = jnp.eye(4), jnp.ones((1, 128, 2, 64), "bfloat16")
calls = {
    "convolution": lambda: jax.lax.conv(jnp.ones((1, 1, 8, 8)), jnp.ones((2, 1, 3, 3)), (1, 1), "SAME"),
    "attention": lambda: jax.nn.dot_product_attention(heads, heads, heads, implementation="cudnn"),
}
said = {}
for name, call in calls.items():
    try:
        jax.block_until_ready(call())
        said[name] = ""
    except Exception as error:
        said[name] = f"{type(error).__name__}: {error}"
print(json.dumps({"refused": said, "goes on": float((a + 1).sum())}))
