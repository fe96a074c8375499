"""What the tests of kernels and functions do with a driver. Each returns what a program sees."""

from __future__ import annotations

from ctypes import byref, c_char_p, c_int, c_size_t, c_uint64

from tests.softgpu.driver import ptx
from tests.softgpu.driver.raw import Cuda

TEXT = ptx.HEADER + ptx.SHAPES
MAX_SHARED, CARVEOUT, CLUSTER_WIDTH, NON_PORTABLE_CLUSTER, CLUSTER_POLICY = 8, 9, 11, 14, 15
NOWHERE = 77


def handles(cuda: Cuda, name: str) -> dict[str, int]:
    """The kernel under both kinds of handle."""
    library = cuda.new("cuLibraryLoadData", TEXT.encode(), None, None, 0, None, None, 0)
    return {
        "Kernel": cuda.new("cuLibraryGetKernel", library, name.encode()),
        "Func": cuda.kernel(cuda.load(TEXT), name),
    }


def names_and_parameters(cuda: Cuda) -> object:
    seen = {}
    for kind, handle in handles(cuda, "mixed").items():
        out = c_size_t()
        getattr(cuda, f"cu{kind}GetParamCount")(handle, byref(out))
        count = out.value
        places = [c_size_t() for _ in range(2 * count)]
        parameters = [
            cuda.code(f"cu{kind}GetParamInfo", handle, i, byref(places[2 * i]), byref(places[2 * i + 1]))
            for i in range(count)
        ]
        one = byref(c_size_t())
        seen[kind] = (
            cuda.new(f"cu{kind}GetName", handle, kind=c_char_p),
            parameters,
            [place.value for place in places],
            cuda.code(f"cu{kind}GetParamInfo", handle, 0, one, None),
            cuda.code(f"cu{kind}GetParamInfo", handle, 0, None, one),
            cuda.code(f"cu{kind}GetParamInfo", handle, count, one, one),
            cuda.code(f"cu{kind}GetParamInfo", NOWHERE, 0, one, one),
            cuda.code(f"cu{kind}GetParamCount", handle, None),
            cuda.code(f"cu{kind}GetName", None, handle),
            cuda.code(f"cu{kind}GetName", None, NOWHERE),
        )
    return seen


def attributes(cuda: Cuda) -> object:
    kinds = handles(cuda, "bounded")

    def get(kind: str, attribute: int) -> tuple[int, int]:
        value = c_int(-7)
        device = (0,) if kind == "Kernel" else ()
        return cuda.code(f"cu{kind}GetAttribute", byref(value), attribute, kinds[kind], *device), value.value

    def set_to(kind: str, attribute: int, value: int) -> int:
        if kind == "Kernel":
            return cuda.code("cuKernelSetAttribute", attribute, value, kinds[kind], 0)
        return cuda.code("cuFuncSetAttribute", kinds[kind], attribute, value)

    wrong = [
        (MAX_SHARED, -1),
        (MAX_SHARED, 64 * 1024 - 1024 + 1),  # the kernel has 1024 bytes of its own
        (CARVEOUT, -2),
        (CARVEOUT, 101),
        (CLUSTER_WIDTH, 1),
        (NON_PORTABLE_CLUSTER, 1),
        (CLUSTER_POLICY, 1),
        (0, 64),
        (4, 16),
        (99, 0),
        (-1, 0),
    ]
    return {
        kind: (
            [get(kind, attribute) for attribute in (0, 1, 2, 3, 5, 6, MAX_SHARED, CARVEOUT)],
            get(kind, 99),
            [set_to(kind, attribute, value) for attribute, value in wrong],
            [get(kind, attribute) for attribute in (MAX_SHARED, CARVEOUT)],
            [set_to(kind, MAX_SHARED, 63 * 1024), set_to(kind, CARVEOUT, 50), set_to(kind, CARVEOUT, -1)],
            [get(kind, attribute) for attribute in (MAX_SHARED, CARVEOUT)],
            cuda.code("cuCtxSynchronize"),
        )
        for kind in kinds
    }


def hints_of_kernels(cuda: Cuda) -> object:
    """Of caches and banks: what they answer to each value, and to a device that is not there."""
    kernel, function = handles(cuda, "none").values()
    values, value = range(-1, 5), c_int()
    return (
        [cuda.code("cuKernelSetCacheConfig", kernel, cache, 0) for cache in values],
        [cuda.code("cuFuncSetCacheConfig", function, cache) for cache in values],
        [cuda.code("cuFuncSetSharedMemConfig", function, banks) for banks in values],
        [cuda.code("cuKernelSetCacheConfig", kernel, 0, device) for device in (1, 2, -1)],
        [cuda.code("cuKernelGetAttribute", byref(value), 0, kernel, device) for device in (1, 2, -1)],
        [cuda.code("cuKernelSetAttribute", MAX_SHARED, 16, kernel, device) for device in (1, 2, -1)],
        cuda.new("cuCtxGetSharedMemConfig", kind=c_int),
    )


def what_a_handle_belongs_to(cuda: Cuda) -> object:
    library = cuda.new("cuLibraryLoadData", TEXT.encode(), None, None, 0, None, None, 0)
    kernel = cuda.new("cuLibraryGetKernel", library, b"none")
    module = cuda.load(TEXT)
    function = cuda.kernel(module, "none")
    of_kernel = cuda.new("cuKernelGetFunction", kernel)
    state = c_int(9)
    return (
        cuda.new("cuKernelGetLibrary", kernel) == library,
        cuda.new("cuFuncGetModule", function) == module,
        cuda.new("cuKernelGetFunction", kernel) == of_kernel,
        cuda.new("cuFuncGetModule", of_kernel) == cuda.new("cuLibraryGetModule", library),
        cuda.launch(of_kernel),
        [cuda.code("cuFuncIsLoaded", byref(state), function), state.value],
        cuda.code("cuFuncIsLoaded", None, function),
        cuda.code("cuFuncLoad", function),
        cuda.code("cuFuncLoad", kernel),
        [cuda.code(name, None, NOWHERE) for name in ("cuKernelGetLibrary", "cuFuncGetModule")],
        [
            cuda.code(name, byref(c_uint64()), NOWHERE)
            for name in ("cuKernelGetLibrary", "cuFuncGetModule", "cuKernelGetFunction")
        ],
        cuda.code("cuFuncLoad", NOWHERE),
    )


def without_a_context(cuda: Cuda) -> object:
    """A kernel is of a library, which belongs to no context; a function is nothing without one."""
    kernel, function = handles(cuda, "bounded").values()
    cuda.cuCtxSetCurrent(0)
    value, name = c_int(), c_char_p()
    return (
        cuda.code("cuKernelGetAttribute", byref(value), 0, kernel, 0),
        cuda.code("cuKernelSetAttribute", MAX_SHARED, 16, kernel, 0),
        cuda.code("cuKernelGetName", byref(name), kernel),
        cuda.code("cuKernelGetFunction", byref(c_uint64()), kernel),
        cuda.code("cuFuncGetAttribute", byref(value), 0, function),
        cuda.code("cuFuncSetAttribute", function, MAX_SHARED, 16),
        cuda.code("cuFuncGetName", byref(name), function),
        cuda.code("cuFuncSetCacheConfig", function, 0),
        cuda.code("cuFuncLoad", function),
    )
