"""Reads a texture and writes a surface by the kernels of a PTX file; prints "right" where all of it is."""

from __future__ import annotations

import sys
from ctypes import c_uint, c_uint64
from pathlib import Path

import numpy as np

from tests.softgpu.driver import objects
from tests.softgpu.driver.raw import Cuda
from tests.softgpu.engine.textures import Texture

cuda = Cuda()
cuda.cuInit(0)
cuda.new("cuCtxCreate_v2", 0, 0)
module = cuda.load(Path(sys.argv[1]).read_text())
level = np.arange(4 * 4 * 4, dtype=np.float32).reshape(1, 4, 4, 4)
texture = Texture("2d", "f32", [level])
first, second = (objects.array_of(cuda, texture, objects.SURFACE) for _ in range(2))
surfaces = [c_uint64(objects.surface_object(cuda, array)) for array in (second, first)]
assert cuda.launch(cuda.kernel(module, "surface_2d"), *surfaces, block=(4, 4, 1)) == 0
read = objects.texture_object(cuda, objects.resource(objects.ARRAY, second), texture)
places = np.array([[x + 0.5, y + 0.5, 0, 0, 0] for y in range(4) for x in range(4)], np.float32)
given, out = cuda.alloc(places.nbytes), cuda.alloc(level.nbytes)
cuda.write(given, places.tobytes())
arguments = (c_uint64(out), c_uint64(read), c_uint64(given), c_uint(16))
assert cuda.launch(cuda.kernel(module, "fetch_2d"), *arguments, block=(16, 1, 1)) == 0
got = np.frombuffer(cuda.read(out, level.nbytes), np.float32).reshape(16, 4)
want = level.reshape(16, 4) + np.array([1, 0, 0, 0], np.float32)
print("right" if np.array_equal(got, want) else got)
