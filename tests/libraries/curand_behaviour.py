"""How cuRAND behaves beside its numbers: ``curand_behaviour.py WHAT LIBRARY`` prints that as JSON."""

from __future__ import annotations

import ctypes
import json
import sys
import threading
import time

import numpy as np
from cuda.bindings import driver

from tests.libraries.generators import KINDS, ORDERINGS, Curand
from tests.libraries.on_device import OnDevice, start

what, path = sys.argv[1:]
start()
curand = Curand(path)
size = ctypes.c_size_t


def at(address: int) -> ctypes.c_void_p:
    return ctypes.c_void_p(address)


def after(status: int) -> dict[str, int]:
    (error,) = driver.cuCtxSynchronize()
    return {"status": status, "after": int(error)}


def misfits() -> dict[str, int]:
    """Each setting and count that does not go with its generator."""
    pseudo, twister = curand.generator("xorwow"), curand.generator("mt19937")
    quasi, wide = curand.generator("sobol32", dimensions=3), curand.generator("sobol64")
    buffer = OnDevice(np.zeros(64, "float64"))
    place, number = at(int(buffer.address)), ctypes.c_ulonglong
    one, rate = ctypes.c_float(1), ctypes.c_double
    made = ctypes.c_void_p()
    return {
        "type kind": curand.status("CreateGenerator", ctypes.byref(made), 99),
        "type seed": quasi.status("SetPseudoRandomGeneratorSeed", number(1)),
        "type dimensions": pseudo.status("SetQuasiRandomGeneratorDimensions", 3),
        "type offset": twister.status("SetGeneratorOffset", number(1)),
        "type long": pseudo.status("GenerateLongLong", place, size(4)),
        "type bits": wide.status("Generate", place, size(4)),
        "range nowhere": curand.status("CreateGenerator", None, 101),
        "range dimensions": quasi.status("SetQuasiRandomGeneratorDimensions", 20_001),
        "range none": quasi.status("SetQuasiRandomGeneratorDimensions", 0),
        "range ordering": pseudo.status("SetGeneratorOrdering", ORDERINGS["quasi"]),
        "range seeded": twister.status("SetGeneratorOrdering", ORDERINGS["seeded"]),
        "range rate": pseudo.status("GeneratePoisson", place, size(4), rate(0)),
        "range high": pseudo.status("GeneratePoisson", place, size(4), rate(400_001)),
        "range no rate": pseudo.status("GeneratePoisson", place, size(4), rate(float("nan"))),
        "range null": pseudo.status("Generate", None, size(4)),
        "range count": pseudo.status("Generate", place, size(1 << 63)),
        "length odd": pseudo.status("GenerateNormal", place, size(3), one, one),
        "length points": quasi.status("Generate", place, size(4)),
        "fits nothing": pseudo.status("Generate", None, size(0)),
        "fits odd": curand.generator("philox").status("GenerateNormal", place, size(3), one, one),
    }


def refused() -> dict[str, int]:
    made, table = ctypes.c_void_p(), ctypes.c_void_p()
    said = {
        kind: curand.status("CreateGenerator", ctypes.byref(made), KINDS[kind])
        for kind in ("mtgp32", "scrambled sobol32", "scrambled sobol64")
    }
    said["vectors"] = curand.status("GetDirectionVectors32", ctypes.byref(table), 102)
    said["constants"] = curand.status("GetScrambleConstants32", ctypes.byref(table))
    said["distribution"] = curand.status("CreatePoissonDistribution", ctypes.c_double(3), ctypes.byref(table))
    assert made.value is None
    assert table.value is None
    return said


def wild() -> dict[str, int]:
    """More of a twister than its process would pass over in time, which is told at once."""
    buffer = OnDevice(np.zeros(4, "uint32"))
    return {"status": curand.generator("mt19937").status("Generate", at(int(buffer.address)), size(1 << 60))}


def wild_for_its_memory() -> dict[str, bool]:
    """As many of a twister as may be, which have no memory: the process does not pass over them."""
    buffer, generator = OnDevice(np.zeros(4, "uint32")), curand.generator("mt19937")
    begin = time.thread_time()
    status = generator.status("Generate", at(int(buffer.address)), size(1 << 33))
    return {"refused": status != 0, "soon": time.thread_time() - begin < 1}


def gone() -> dict[str, int]:
    """Generators that are none: destroyed, never made."""
    generator, buffer = curand.generator("philox"), OnDevice(np.zeros(16, "uint32"))
    handle, place = generator.handle, at(int(buffer.address))
    generator("Generate", place, size(4))
    generator("DestroyGenerator")
    generator.handle = ctypes.c_void_p()
    return {
        "generate": curand.status("Generate", handle, place, size(4)),
        "never": curand.status("Generate", at(4711), place, size(4)),
        "null": curand.status("Generate", None, place, size(4)),
        "seed": curand.status("SetPseudoRandomGeneratorSeed", handle, ctypes.c_ulonglong(4)),
        "stream": curand.status("SetStream", handle, None),
        "seeds": curand.status("GenerateSeeds", handle),
        "again": curand.status("DestroyGenerator", handle),
    }


def vectors() -> dict[str, int]:
    """What a kernel of the program's own would begin with."""
    table = ctypes.POINTER(ctypes.c_uint32 * 32)()
    wide = ctypes.POINTER(ctypes.c_uint64 * 64)()
    curand("GetDirectionVectors32", ctypes.byref(table), 101)
    curand("GetDirectionVectors64", ctypes.byref(wide), 103)
    points = curand.generator("sobol32", dimensions=20_000).numbers("", 80_000).reshape(20_000, 4)
    wrong = sum(int(points[d, 1]) != table[d][0] or int(points[d, 3]) != table[d][1] for d in range(20_000))
    narrow = sum(wide[d][31] >> 32 != table[d][31] for d in range(20_000))
    return {"wrong": wrong, "narrow": narrow}


def parts() -> dict[str, int]:
    """One call, and several one after another."""
    different = 0
    for kind in ("xorwow", "mrg32k3a", "philox", "mt19937", "sobol32"):
        for result, shape in (("", ()), ("UniformDouble", ()), ("Normal", (0, 1))):
            whole = curand.generator(kind).numbers(result, 100_000, *shape)
            generator = curand.generator(kind)
            some = [generator.numbers(result, count, *shape) for count in (10, 4094, 2, 90_000, 5894)]
            different += int((np.concatenate(some) != whole).sum())
    return {"different": different}


def fresh() -> dict[str, int]:
    """Results of other kinds one after another use no draw twice: bits of doubles are not seen again."""
    seen = 0
    for kind in ("xorwow", "philox", "mt19937"):
        generator = curand.generator(kind, seed=8)
        doubles = generator.numbers("UniformDouble", 5000)
        low = (doubles * 2.0**53).astype("uint64") & np.uint64((1 << 21) - 1)
        words = generator.numbers("", 5000) & np.uint32((1 << 21) - 1)
        seen += len(np.intersect1d(low, words))
    return {"seen": seen}


def reseeded() -> dict[str, bool]:
    """A seed leaves the place in the sequence as it is; an offset sets it."""
    five, nine = (curand.generator("philox", seed=seed).numbers("", 30) for seed in (5, 9))
    generator = curand.generator("philox", seed=5)
    found = [generator.numbers("", 10)]
    generator.set(9, "SetPseudoRandomGeneratorSeed")
    found.append(generator.numbers("", 10))
    generator.set(0, "SetGeneratorOffset")
    found.append(generator.numbers("", 10))
    return {
        "right": bool(
            np.array_equal(np.concatenate(found), np.concatenate([five[:10], nine[10:20], nine[:10]]))
        )
    }


def begun_anew() -> dict[str, bool]:
    """MT19937 has no offset: a seed begins its sequence, the same seed too."""
    generator = curand.generator("mt19937", seed=5)
    found = generator.numbers("", 20)
    generator.set(5, "SetPseudoRandomGeneratorSeed")
    return {"right": bool(np.array_equal(generator.numbers("", 20), found))}


def outside() -> dict[str, int]:
    buffer = OnDevice(np.zeros(32, "uint32"))
    return after(curand.generator("xorwow").status("Generate", at(int(buffer.address)), size(1 << 40)))


def foreign() -> dict[str, int]:
    own = np.zeros(32, "uint32")
    return after(curand.generator("mt19937").status("Generate", at(own.ctypes.data), size(32)))


def misaligned() -> dict[str, int]:
    buffer = OnDevice(np.zeros(32, "float64"))
    place = at(int(buffer.address) + 4)
    return after(curand.generator("sobol64").status("GenerateUniformDouble", place, size(4)))


def order() -> dict[str, bool]:
    """Between other work of a stream, with nothing that waits."""
    _, stream = driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
    generator, count = curand.generator("philox", seed=4), 1 << 19
    generator("SetStream", at(int(stream)))
    buffer, copy = OnDevice(np.zeros(count, "uint32")), OnDevice(np.zeros(3 * count, "uint32"))
    for i in range(3):
        generator("Generate", at(int(buffer.address)), size(count))
        driver.cuMemcpyDtoDAsync(int(copy.address) + i * 4 * count, buffer.address, 4 * count, stream)
        driver.cuMemsetD8Async(buffer.address, 0, 4 * count, stream)
    driver.cuStreamSynchronize(stream)
    wanted = curand.generator("philox", seed=4).numbers("", 3 * count)
    return {"right": bool(np.array_equal(copy.get(), wanted))}


def threads() -> dict[str, int]:
    """Ten, with one generator, and with generators of their own."""
    shared, wrong, given = curand.generator("philox", seed=6), [], []
    wanted = curand.generator("mrg32k3a", seed=6).numbers("", 4000)

    def work(own: bool) -> None:
        start()
        for _ in range(4):
            if own:
                numbers = curand.generator("mrg32k3a", seed=6).numbers("", 4000)
                wrong.extend([1] * int((numbers != wanted).sum()))
            else:
                given.append(shared.numbers("", 4000))

    each = [threading.Thread(target=work, args=(i % 2 == 0,)) for i in range(10)]
    for thread in each:
        thread.start()
    for thread in each:
        thread.join()
    # Each number of the shared one was given once.
    whole = curand.generator("philox", seed=6).numbers("", 80_000)
    lost = int((np.sort(np.concatenate(given)) != np.sort(whole)).sum())
    return {"wrong": len(wrong), "lost": lost, "given": len(given)}


def captured() -> dict[str, int]:
    generator, buffer = curand.generator("philox", seed=7), OnDevice(np.zeros(8, "uint32"))
    _, stream = driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
    generator("SetStream", at(int(stream)))
    place, mode = at(int(buffer.address)), driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    driver.cuStreamBeginCapture(stream, mode)
    status = generator.status("Generate", place, size(8))
    end = int(driver.cuStreamEndCapture(stream)[0])
    again = generator.status("Generate", place, size(8))
    driver.cuStreamSynchronize(stream)
    wanted = curand.generator("philox", seed=7).numbers("", 8)
    return {"status": status, "end": end, "again": again, "lost": int((buffer.get() != wanted).sum())}


print(json.dumps(globals()[what]()))
