"""A slice that goes away while JAX is in use: ``anew`` (the process begins another life, as after ``%gpu
release``) or ``lost`` (who has it there kills the worker). Prints ``ready``, goes on when a line comes, and
prints what then fails how.
"""

import ctypes
import json
import sys

import jax
import jax.numpy as jnp

double = jax.jit(lambda v: v * 2)
kept = double(jnp.ones(5)).block_until_ready()
print("ready", flush=True)
sys.stdin.readline()
if sys.argv[1] == "anew":
    assert ctypes.CDLL("libcuda.so.1").gkNewLife() == 0
uses = {
    "an array of before": lambda: (kept + 1).block_until_ready(),
    "a function of before": lambda: double(kept).block_until_ready(),
    "a new array": lambda: (jnp.ones(7) * 3).block_until_ready(),
}
said = {}
for name, use in uses.items():
    try:
        use()
        said[name] = ""
    except Exception as error:
        said[name] = f"{type(error).__name__}: {error}"
with jax.default_device(jax.devices("cpu")[0]):
    print(json.dumps({"refused": said, "the CPU goes on": float((jnp.ones(3) + 1).sum())}))
