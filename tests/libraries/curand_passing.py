"""Calls cuRAND with arguments of which no two are alike: prints as JSON what it passed."""

from __future__ import annotations

import ctypes
import json
import sys

from cuda.bindings import driver

from tests.libraries.generators import Curand
from tests.libraries.on_device import start

start()
curand = Curand(sys.argv[1])
size = ctypes.c_size_t


def at(address: int) -> ctypes.c_void_p:
    return ctypes.c_void_p(address)


_, memory = driver.cuMemAlloc(1 << 20)
a = int(memory)
_, stream = driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
passed: dict[str, object] = {"memory": [f"{a:#x}", f"{a + 4096:#x}"]}

pseudo = curand.generator("mrg32k3a", seed=77, ordering="legacy", offset=88)
pseudo("Generate", at(a), size(30))
pseudo("GenerateNormal", at(a + 4096), size(40), ctypes.c_float(1.5), ctypes.c_float(2.5))
pseudo("SetStream", at(int(stream)))
pseudo.set(99, "SetPseudoRandomGeneratorSeed")
pseudo("GeneratePoisson", at(a), size(50), ctypes.c_double(6.5))
pseudo.set(88, "SetGeneratorOffset")
pseudo("GenerateUniformDouble", at(a), size(60))


def free() -> int:
    assert int(driver.cuCtxSynchronize()[0]) == 0
    return int(driver.cuMemGetInfo()[1])


before = free()
twister = curand.generator("mt19937", seed=5)
twister("GenerateLogNormalDouble", at(a), size(70), ctypes.c_double(0.5), ctypes.c_double(0.25))
passed["held"] = before - free()
quasi = curand.generator("sobol32", dimensions=3)
quasi("Generate", at(a), size(90))
quasi("DestroyGenerator")
quasi.handle = ctypes.c_void_p()
driver.cuCtxSynchronize()

outside = pseudo.status("Generate", at(a), size(1 << 30))
passed["outside"] = [outside, int(driver.cuCtxSynchronize()[0])]
refused = pseudo.status("Generate", at(a), size(1313))
passed["refused"] = [refused, int(driver.cuCtxSynchronize()[0])]
# Where it then stands the library is told, as far as an offset says it.
pseudo("GenerateUniformDouble", at(a), size(80))
passed["behind"] = [str(88 + 60 + (1 << 30)), str(88 + 60 + (1 << 30) + 1313)]
shape = ctypes.c_float(1.5), ctypes.c_float(2.5)
pseudo("GenerateNormal", at(a), size(6), *shape)
driver.cuCtxSynchronize()
passed["lost"] = [
    said
    for count in (1 << 29, 8)
    for said in (
        pseudo.status("GenerateNormal", at(a), size(count), *shape),
        int(driver.cuCtxSynchronize()[0]),
    )
]
pseudo.set(99, "SetGeneratorOffset")
pseudo("GenerateNormal", at(a), size(10), *shape)
again = curand.generator("sobol32", dimensions=2)
again("Generate", at(a), size(92))
kept = [curand.generator("xorwow") for _ in range(17)]
for generator in kept:
    generator("Generate", at(a), size(4))
passed["too many"] = int(driver.cuCtxSynchronize()[0])
print(json.dumps(passed))
