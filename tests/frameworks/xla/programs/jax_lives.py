"""A slice that goes away while JAX is in use: ``anew`` (the process begins another life, as after ``%gpu
release``, once before JAX uses the GPU and once after it), ``lost`` (who has it there kills the worker),
``lost at work``, ``fault`` (a kernel of the program's own goes wrong) or ``fault of theirs``. Prints
``ready``, goes on when a line comes, or at once ``at work``, and prints what then fails how.
"""

import ctypes
import json
import sys

import beside
import jax
import jax.numpy as jnp

how = sys.argv[1]
if how == "anew":
    assert ctypes.CDLL("libcuda.so.1").gkNewLife() == 0
double = jax.jit(lambda v: v * 2)
kept = double(jnp.ones(5)).block_until_ready()
assert ((kept + 1).tolist(), jax.devices()[0].platform) == ([3.0] * 5, "gpu")  # kept remembers its numbers
theirs, freed = None, None
if how == "fault of theirs":
    freed = beside.Freed(1 << 20)
    theirs = jax.dlpack.from_dlpack(freed)
    assert float(theirs.sum()) == 0
print("ready", flush=True)


def work():
    for _ in range(100_000):
        double(kept).block_until_ready()
    return kept.tolist()


uses = {
    "an array of before": lambda: (kept + 1).block_until_ready(),
    "its numbers": lambda: kept.tolist(),
    "a function of before": lambda: double(kept).block_until_ready(),
    "a new array": lambda: (jnp.ones(7) * 3).block_until_ready(),
}
if how == "lost at work":
    uses = {"work": work} | uses
else:
    sys.stdin.readline()
if how == "anew":
    assert ctypes.CDLL("libcuda.so.1").gkNewLife() == 0
if how == "fault":
    beside.launch_wild()
if theirs is not None:
    freed.give_back()
    uses = {"their kernel": lambda: float(jnp.sum(theirs * 2))} | uses
said = {}
for name, use in uses.items():
    try:
        use()
        said[name] = ""
    except Exception as error:
        said[name] = f"{type(error).__name__}: {error}"
with jax.default_device(jax.devices("cpu")[0]):
    print(json.dumps({"refused": said, "the CPU goes on": float((jnp.ones(3) + 1).sum())}))
