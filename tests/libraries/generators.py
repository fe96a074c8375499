"""cuRAND's generators: what the programs of these tests have in common."""

from __future__ import annotations

import ctypes

import numpy as np
from cuda.bindings import driver

KINDS = {
    "xorwow": 101,
    "mrg32k3a": 121,
    "mtgp32": 141,
    "mt19937": 142,
    "philox": 161,
    "sobol32": 201,
    "scrambled sobol32": 202,
    "sobol64": 203,
    "scrambled sobol64": 204,
}
ORDERINGS = {"best": 100, "default": 101, "seeded": 102, "legacy": 103, "dynamic": 104, "quasi": 201}
RESULTS = {
    "": "uint32",
    "LongLong": "uint64",
    "Uniform": "float32",
    "UniformDouble": "float64",
    "Normal": "float32",
    "NormalDouble": "float64",
    "LogNormal": "float32",
    "LogNormalDouble": "float64",
    "Poisson": "uint32",
}


class Curand:
    """The library: generators of it by ``generator``."""

    def __init__(self, path: str) -> None:
        self.library = ctypes.CDLL(path)

    def status(self, name: str, *arguments: object) -> int:
        return int(getattr(self.library, "curand" + name)(*arguments))

    def __call__(self, name: str, *arguments: object) -> None:
        status = self.status(name, *arguments)
        assert status == 0, (name, status)

    def generator(self, kind: str, *, on_host: bool = False, **settings: int | str | None) -> Generator:
        return Generator(self, kind, on_host, settings)


class Generator:
    """One generator. Its numbers go to the device's memory, or the host's."""

    def __init__(
        self, curand: Curand, kind: str, on_host: bool, settings: dict[str, int | str | None]
    ) -> None:
        self.curand, self.on_host = curand, on_host
        self.handle = ctypes.c_void_p()
        create = "CreateGeneratorHost" if on_host else "CreateGenerator"
        curand(create, ctypes.byref(self.handle), KINDS[kind])
        ordering = settings.get("ordering")
        if ordering is not None:
            self("SetGeneratorOrdering", ORDERINGS[str(ordering)])
        self.set(settings.get("seed"), "SetPseudoRandomGeneratorSeed")
        self.set(settings.get("offset"), "SetGeneratorOffset")
        self.set(settings.get("dimensions"), "SetQuasiRandomGeneratorDimensions")

    def set(self, value: int | str | None, name: str) -> None:
        if value is not None:
            self(name, ctypes.c_ulonglong(int(value)))

    def status(self, name: str, *arguments: object) -> int:
        return self.curand.status(name, self.handle, *arguments)

    def __call__(self, name: str, *arguments: object) -> None:
        self.curand(name, self.handle, *arguments)

    def numbers(self, result: str, count: int, *shape: float) -> np.ndarray:
        numbers = np.zeros(count, RESULTS[result])
        single = numbers.dtype == np.float32
        values = [ctypes.c_float(v) if single else ctypes.c_double(v) for v in shape]
        if self.on_host:
            place = ctypes.c_void_p(numbers.ctypes.data)
            self("Generate" + result, place, ctypes.c_size_t(count), *values)
            return numbers
        error, address = driver.cuMemAlloc(max(numbers.nbytes, 16))
        assert error == 0, error
        self("Generate" + result, ctypes.c_void_p(int(address)), ctypes.c_size_t(count), *values)
        (error,) = driver.cuMemcpyDtoH(numbers.ctypes.data, address, numbers.nbytes) if count else (0,)
        assert error == 0, error
        driver.cuMemFree(address)
        return numbers

    def __del__(self) -> None:
        if self.handle:
            self.curand.status("DestroyGenerator", self.handle)
