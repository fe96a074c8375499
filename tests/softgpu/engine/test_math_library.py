"""CUDA's math functions, as nvcc compiles them, within the errors that CUDA's manual names."""

from __future__ import annotations

import ctypes
import ctypes.util
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.softgpu.bench import Device, Module

NVCC = shutil.which("nvcc")
pytestmark = pytest.mark.skipif(NVCC is None, reason="nvcc is not installed")
LIBM = ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6")

# Of each function the most units in the last place that it may be off, in float and in double. What NumPy
# does not have in long double comes from the C library.
ERRORS: dict[str, tuple[float, float]] = {
    "sin": (2, 2), "cos": (2, 2), "tan": (4, 2), "asin": (2, 2), "acos": (2, 2), "atan": (2, 2),
    "sinh": (3, 2), "cosh": (2, 2), "tanh": (2, 2), "asinh": (3, 3), "acosh": (4, 3), "atanh": (3, 2),
    "exp": (2, 1), "exp2": (2, 1), "expm1": (1, 1), "log": (1, 1), "log2": (1, 1), "log10": (2, 1),
    "log1p": (1, 1), "sqrt": (0, 0), "cbrt": (1, 1), "erf": (2, 2), "erfc": (4, 5), "tgamma": (5, 10),
    "floor": (0, 0), "ceil": (0, 0), "trunc": (0, 0), "rint": (0, 0), "fabs": (0, 0),
}  # fmt: skip
ERRORS_OF_TWO = {"pow": (4, 2), "atan2": (3, 2), "hypot": (3, 2), "fmod": (0, 0), "copysign": (0, 0)}
NUMPY = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh"}
NUMPY |= {"atanh": "arctanh", "atan2": "arctan2", "pow": "power"}


KERNEL = """extern "C" __global__ void {name}_{kind}({kind}* out, const {kind}* a, const {kind}* b, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = {name}{tail}({arguments});
}}"""


def source() -> str:
    kernels = []
    for kind, tail in (("float", "f"), ("double", "")):
        kernels += [KERNEL.format(name=name, kind=kind, tail=tail, arguments="a[i]") for name in ERRORS]
        kernels += [
            KERNEL.format(name=name, kind=kind, tail=tail, arguments="a[i], b[i]") for name in ERRORS_OF_TWO
        ]
    return "\n".join(kernels)


@pytest.fixture(scope="module")
def library(device: Device, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Module]:
    folder: Path = tmp_path_factory.mktemp("math")
    (folder / "math.cu").write_text(source())
    assert NVCC is not None
    subprocess.run([NVCC, "-arch=compute_75", "-ptx", "math.cu", "-o", "math.ptx"], cwd=folder, check=True)
    module = device.load((folder / "math.ptx").read_text())
    yield module
    module.unload()


def inputs(kind: type[np.floating]) -> np.ndarray:
    rng = np.random.default_rng(1)
    info = np.finfo(kind)
    drawn = [rng.uniform(-1, 1, 1000), rng.uniform(-10, 10, 1500), rng.normal(0, 100, 1000)]
    drawn += [10.0 ** rng.uniform(-35, 35, 800), -(10.0 ** rng.uniform(-35, 35, 500))]
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, info.tiny, info.smallest_subnormal, 1, -1, 0.5, 2, -2.5, 172]
    return np.concatenate(
        [*drawn, edges, [1 + info.eps, 1 - info.eps / 2, 88.7, -103.9, 709.7, -745]]
    ).astype(kind)


def reference(name: str, *arguments: np.ndarray) -> np.ndarray:
    wide = [argument.astype(np.longdouble) for argument in arguments]
    function: Callable[..., np.ndarray] | None = getattr(np, NUMPY.get(name, name), None)
    if function is not None:
        return function(*wide)
    exact = getattr(LIBM, f"{name}l")
    exact.restype = ctypes.c_longdouble
    exact.argtypes = [ctypes.c_longdouble]
    return np.array([exact(float(x)) for x in arguments[0]], np.longdouble)


@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize("name", [*ERRORS, *ERRORS_OF_TWO])
def test_errors_are_within_those_of_the_manual(device: Device, library: Module, name: str, kind: str) -> None:
    dtype = np.float32 if kind == "float" else np.float64
    a = inputs(dtype)
    b = np.roll(a, 777)
    allowed = {**ERRORS, **ERRORS_OF_TWO}[name][kind == "double"]
    buffers = [device.buffer(x) for x in (np.zeros_like(a), a, b)]
    library(*buffers, len(a), name=f"{name}_{kind}", grid=-(-len(a) // 128), block=128)
    got = buffers[0].get()
    for buffer in buffers:
        buffer.free()
    with np.errstate(all="ignore"):
        want = reference(name, a, b) if name in ERRORS_OF_TWO else reference(name, a)
        rounded = want.astype(dtype)
    finite = np.isfinite(rounded) & np.isfinite(got)
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    # The last number before infinity may become infinity, and the other way round.
    edge = np.abs(want) > np.finfo(dtype).max * (1 - 2 * np.finfo(dtype).eps)
    assert np.all(finite | same | edge), (a[~(finite | same | edge)][:5], got[~(finite | same | edge)][:5])
    error = np.abs(got[finite].astype(np.longdouble) - want[finite]) / np.abs(np.spacing(rounded[finite]))
    assert error.max() <= allowed + 0.51, (a[finite][np.argmax(error)], error.max())
