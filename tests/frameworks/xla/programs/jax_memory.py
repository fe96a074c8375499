"""Prints how many MiB of the device are in use after one small array, and after one of half its memory; how
JAX refuses one that is larger than the device; and that it goes on. ``small``: the first alone.
"""

import json
import sys

import beside
import jax.numpy as jnp

jnp.ones(4).block_until_ready()
in_use, total = beside.memory()
said = {"in use": in_use}
if sys.argv[1:] != ["small"]:
    try:
        jnp.ones((total + 64 << 18,)).block_until_ready()
        said["refused"] = ""
    except Exception as error:
        said["refused"] = f"{type(error).__name__}: {error}"
    half = jnp.ones((total << 17,)).block_until_ready()
    said |= {
        "goes on": [float(half[-1] + 1), float(jnp.ones(4).sum())],
        "half": beside.memory()[0],
        "total": total,
    }
print(json.dumps(said))
