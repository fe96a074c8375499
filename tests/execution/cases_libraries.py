"""What the tests of libraries, modules and links do with a driver. Each returns what a program sees."""

from __future__ import annotations

import ctypes
import struct
from ctypes import byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from pathlib import Path

from tests.softgpu.driver import ptx
from tests.softgpu.driver.raw import HOST_FUNCTION, Cuda

TEXT = ptx.HEADER + ptx.SHAPES
FILL = (ptx.HEADER + ptx.FILL).encode()
BROKEN = FILL.replace(b"mad.lo.u32", b"frobnicate.u32")
NOWHERE = 77
PTX = 1


def load_library(cuda: Cuda, text: str = TEXT) -> int:
    return int(cuda.new("cuLibraryLoadData", text.encode(), None, None, 0, None, None, 0))


def both_kinds(cuda: Cuda) -> dict[str, tuple[int, str, str]]:
    """A handle, what gives a kernel of it, and what lists them."""
    return {
        "library": (load_library(cuda), "cuLibraryGetKernel", "cuLibraryEnumerateKernels"),
        "module": (cuda.load(TEXT), "cuModuleGetFunction", "cuModuleEnumerateFunctions"),
    }


def kernels_by_name_and_number(cuda: Cuda) -> object:
    seen = {}
    for kind, (handle, get, enumerate_) in both_kinds(cuda).items():
        count = get.replace("GetKernel", "GetKernelCount").replace("GetFunction", "GetFunctionCount")
        number = cuda.new(count, handle, kind=c_uint)
        room = (c_uint64 * 8)()
        listed = [cuda.code(enumerate_, room, 2, handle), list(room)[2:]]
        listed += [cuda.code(enumerate_, room, 8, handle), list(room)[number:]]
        names = []
        for kernel in room[:number]:
            names.append(cuda.new("cuFuncGetName", kernel, kind=c_char_p).decode())
        out = c_uint64()
        seen[kind] = (
            number,
            listed,
            names,
            [cuda.new(get, handle, name.encode()) for name in names] == room[:number],
            cuda.code(enumerate_, None, 0, handle),
            cuda.code(enumerate_, None, 1, handle),
            cuda.code(enumerate_, room, 1, NOWHERE),
            cuda.code(count, None, handle),
            cuda.code(count, byref(c_uint()), NOWHERE),
            cuda.code(get, None, handle, b"none"),
            cuda.code(get, byref(out), handle, None),
            cuda.code(get, byref(out), handle, b"nothing"),
            cuda.code(get, byref(out), handle, b"n" * 100_000),
            cuda.code(get, byref(out), NOWHERE, b"none"),
        )
    return seen


def variables(cuda: Cuda) -> object:
    seen = {}
    for kind, (handle, _, _) in both_kinds(cuda).items():
        get = f"cu{kind.title()}GetGlobal" + ("_v2" if kind == "module" else "")
        address, size = c_uint64(), c_size_t()
        codes = [cuda.code(get, byref(address), byref(size), handle, b"counter"), size.value]
        again = c_uint64()
        codes += [cuda.code(get, byref(again), None, handle, b"counter"), again.value == address.value]
        size.value = 0
        codes += [cuda.code(get, None, byref(size), handle, b"fixed"), size.value]
        seen[kind] = (
            codes,
            cuda.read(address.value, 4),
            cuda.code(get, byref(again), None, handle, None),
            cuda.code(get, byref(again), None, handle, b"nothing"),
            cuda.code(get, byref(again), None, handle, b"n" * 100_000),
            cuda.code(get, byref(again), None, NOWHERE, b"counter"),
        )
    return seen


def handles_of_the_other_kind(cuda: Cuda) -> object:
    """A library is no module, but has one in each context, which ends with it."""
    library, module = load_library(cuda), cuda.load(TEXT)
    of_library = cuda.new("cuLibraryGetModule", library)
    function, kernel = cuda.kernel(module, "none"), cuda.new("cuLibraryGetKernel", library, b"none")
    out, name = c_uint64(), c_char_p()
    codes = [
        cuda.code("cuLibraryGetKernel", byref(out), module, b"none"),
        cuda.code("cuLibraryGetModule", byref(out), module),
        cuda.code("cuLibraryUnload", module),
        cuda.code("cuKernelGetName", byref(name), function),
        cuda.code("cuFuncGetName", byref(name), kernel),
        cuda.code("cuModuleUnload", of_library),
        cuda.launch(cuda.kernel(of_library, "none")),
        cuda.launch(function),
        cuda.code("cuLibraryGetModule", None, library),
        cuda.code("cuLibraryGetModule", byref(out), NOWHERE),
    ]
    cuda.cuCtxSynchronize()
    codes += [cuda.code(name, handle) for name, handle in _unloads(library, module) * 2]
    codes += [cuda.code("cuModuleGetFunction", byref(out), of_library, b"none"), cuda.launch(function)]
    return codes


def _unloads(library: int, module: int) -> list[tuple[str, int]]:
    return [("cuLibraryUnload", library), ("cuModuleUnload", module)]


def libraries_without_a_context(cuda: Cuda) -> object:
    library, module = load_library(cuda), cuda.load(TEXT)
    cuda.cuCtxSetCurrent(0)
    out, number = c_uint64(), c_uint()
    return [
        cuda.code("cuLibraryLoadData", byref(out), FILL, None, None, 0, None, None, 0),
        cuda.code("cuLibraryGetKernel", byref(c_uint64()), out.value, b"fill"),
        cuda.code("cuLibraryGetKernelCount", byref(number), library),
        cuda.code("cuLibraryUnload", out.value),
        cuda.code("cuModuleGetLoadingMode", byref(c_int())),
        cuda.code("cuLibraryGetModule", byref(out), library),
        cuda.code("cuLibraryGetGlobal", byref(out), None, library, b"counter"),
        cuda.code("cuModuleLoadData", byref(out), FILL),
        cuda.code("cuModuleGetFunction", byref(out), module, b"none"),
        cuda.code("cuModuleGetFunctionCount", byref(number), module),
        cuda.code("cuModuleGetGlobal_v2", byref(out), None, module, b"counter"),
        cuda.code("cuModuleUnload", module),
        cuda.code("cuLinkCreate_v2", 0, None, None, byref(out)),
    ]


def files(cuda: Cuda, folder: str) -> object:
    """What loading each answers, as a module and as a library; and what is no file as an input of a link."""
    contents = {
        "text": FILL,
        "nothing": b"",
        "cut short": struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 0)[:15],
        "less than it says": struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 1 << 20),
        "a pointer to another": struct.pack("<IIQQ", 0x466243B1, 1, 0x1000, 0),
        "noise": bytes(range(1, 9)),
    }
    for name, content in contents.items():
        (Path(folder) / name).write_bytes(content)
    out = c_uint64()

    def load(path: str | None) -> tuple[int, int]:
        name = path.encode() if path else None
        return (
            cuda.code("cuModuleLoad", byref(out), name),
            cuda.code("cuLibraryLoadFromFile", byref(out), name, None, None, 0, None, None, 0),
        )

    def link(path: str | None) -> int:
        name = path.encode() if path else None
        return cuda.code("cuLinkAddFile_v2", new_link(cuda), PTX, name, 0, None, None)

    not_there = f"{folder}/not there".encode()
    early = [cuda.code("cuModuleLoad", None, not_there)]
    current = c_uint64()
    cuda.cuCtxGetCurrent(byref(current))
    cuda.cuCtxSetCurrent(0)
    early.append(cuda.code("cuModuleLoad", byref(out), not_there))
    cuda.cuCtxSetCurrent(current.value)
    nowhere = (f"{folder}/not there", folder, None)
    module = cuda.new("cuModuleLoad", f"{folder}/text".encode())
    launched = cuda.launch(cuda.kernel(module, "fill"), c_uint64(0), c_uint(0), c_uint(0))
    return (
        {name: load(f"{folder}/{name}") for name in contents},
        [(*load(path), link(path)) for path in nowhere],
        launched,
        early,
        [link(f"{folder}/{name}") for name in ("text", "nothing")],
    )


def images_that_are_none(cuda: Cuda) -> object:
    out = c_uint64()
    images = (None, b"", b"\x01\x02\x03", b"\xff\xfe\xfd\xfc and so on", BROKEN)
    return [
        (
            cuda.code("cuModuleLoadData", byref(out), image),
            cuda.code("cuModuleLoadFatBinary", byref(out), image),
            cuda.code("cuLibraryLoadData", byref(out), image, None, None, 0, None, None, 0),
        )
        for image in images
    ] + [cuda.code("cuModuleLoadData", None, FILL)]


def options(*pairs: tuple[int, int]) -> tuple[int, object, object]:
    names, values = zip(*pairs, strict=True)
    return len(pairs), (c_int * len(pairs))(*names), (c_uint64 * len(pairs))(*values)


def jit_options(cuda: Cuda) -> object:
    """What loads and links answer to an option: of each sort one, and those that are none."""
    out, codes = c_uint64(), []
    asked = [
        (0, 32),
        (12, 1),
        (0, 1 << 40 | 32),
        (34, 4),
        (35, 2),
        (17, 0),
        (25, 0),
        (36, 0),
        (99, 1),
        (-1, 0),
    ]
    for pair in asked:
        number, names, values = options(pair)
        codes.append(
            (
                pair[0],
                cuda.code("cuModuleLoadDataEx", byref(out), FILL, number, names, values),
                cuda.code("cuLibraryLoadData", byref(out), FILL, names, values, number, None, None, 0),
                cuda.code("cuLinkCreate_v2", number, names, values, byref(out)),
            )
        )
    many = options(*[(12, 0)] * 65)
    return codes, [
        cuda.code("cuModuleLoadDataEx", byref(out), FILL, 1, None, many[2]),
        cuda.code("cuModuleLoadDataEx", byref(out), FILL, 1, many[1], None),
        cuda.code("cuModuleLoadDataEx", byref(out), FILL, *many),
        cuda.code("cuModuleLoadDataEx", byref(out), FILL, 64, *many[1:]),
        cuda.code("cuLibraryLoadData", byref(out), FILL, None, None, 0, (c_int * 1)(1), (c_void_p * 1)(), 1),
        cuda.code("cuLibraryLoadData", byref(out), FILL, None, None, 0, (c_int * 1)(9), (c_void_p * 1)(), 1),
        cuda.code("cuLibraryLoadData", byref(out), FILL, None, None, 0, None, None, 1),
    ]


def logs(cuda: Cuda) -> object:
    """The words of the compiler, cut to the room that there is, and what comes out in place of the sizes."""
    out, seen = c_uint64(), []
    for image, room in ((BROKEN, 512), (BROKEN, 8), (BROKEN, 0), (FILL, 512)):
        error, info = (ctypes.create_string_buffer(b"before", 512) for _ in range(2))
        number, names, values = options(
            (5, ctypes.addressof(error)), (6, room), (3, ctypes.addressof(info)), (4, room), (2, 0)
        )
        code = cuda.code("cuModuleLoadDataEx", byref(out), image, number, names, values)
        took = c_float.from_buffer(values, 4 * 8).value
        seen.append((code, error.value, values[1], info.value, values[3], 0 < took < 60_000 or code))
    return seen


def new_link(cuda: Cuda) -> int:
    out = c_uint64()
    cuda.cuLinkCreate_v2(0, None, None, byref(out))
    return out.value


def add_to(cuda: Cuda, link: int, text: bytes, kind: int = PTX, jit: tuple = (0, None, None)) -> int:
    return cuda.code("cuLinkAddData_v2", link, kind, text, len(text), b"input", *jit)


def a_link(cuda: Cuda) -> object:
    link, image, size, again = new_link(cuda), c_uint64(), c_size_t(), c_uint64()
    codes = [add_to(cuda, link, text.encode()) for text in (ptx.CALLER, ptx.DOUBLER)]
    codes += [
        cuda.code("cuLinkComplete", link, None, byref(size)),
        cuda.code("cuLinkComplete", link, byref(image), None),
        cuda.code("cuLinkComplete", link, byref(again), byref(size)),
        again.value == image.value,
        add_to(cuda, link, FILL),  # it is complete
    ]
    module = cuda.new("cuModuleLoadData", c_void_p(image.value))
    end = ctypes.string_at(image.value, size.value)[-1]
    codes += [cuda.code("cuLinkDestroy", link) for _ in range(2)]
    codes += [add_to(cuda, link, FILL), cuda.code("cuLinkComplete", link, byref(image), byref(size))]
    to = cuda.alloc(4)
    cuda.launch(cuda.kernel(module, "twice"), c_uint64(to), c_uint(21))
    return codes, cuda.read(to, 4), end


def what_a_link_refuses(cuda: Cuda) -> object:
    image = c_uint64()
    refused = [
        cuda.code("cuLinkComplete", new_link(cuda), byref(image), None),  # nothing is in it
        cuda.code("cuLinkComplete", NOWHERE, byref(image), None),
        cuda.code("cuLinkCreate_v2", 0, None, None, None),
        cuda.code("cuLinkAddData_v2", new_link(cuda), PTX, None, 4, None, 0, None, None),
        cuda.code("cuLinkAddData_v2", new_link(cuda), PTX, FILL, 0, None, 0, None, None),
    ]
    refused += [add_to(cuda, new_link(cuda), FILL, kind) for kind in (-1, 5, 6, 99)]
    own = [(0, 32), (2, 0), (3, 0), (6, 8), (8, 0), (9, 75), (17, 0), (99, 0)]
    refused += [add_to(cuda, new_link(cuda), FILL, jit=options(pair)) for pair in own]
    unknown = new_link(cuda)
    add_to(cuda, unknown, ptx.CALLER.encode())
    refused.append(cuda.code("cuLinkComplete", unknown, byref(image), None))
    add_to(cuda, unknown, ptx.DOUBLER.encode())  # and is then as good as any
    refused.append(cuda.code("cuLinkComplete", unknown, byref(image), None))
    full = new_link(cuda)
    refused.append({add_to(cuda, full, FILL) for _ in range(256)})
    refused.append(add_to(cuda, full, FILL))
    return refused


def too_much_in_a_link(cuda: Cuda, amount: int) -> object:
    """What each of two inputs of so many bytes answers as it is added, and the link of both."""
    link, image = new_link(cuda), c_uint64()
    codes = [add_to(cuda, link, FILL + b" " * amount) for _ in range(2)]
    codes.append(cuda.code("cuLinkComplete", link, byref(image), None))
    cuda.cuLinkDestroy(link)
    return codes


def a_link_of_nothing(cuda: Cuda) -> object:
    """Of an archive with no member, which has no code for any GPU."""
    link, image, archive = new_link(cuda), c_uint64(), 4
    return [
        add_to(cuda, link, b"!<arch>\n", archive),
        cuda.code("cuLinkComplete", link, byref(image), None),
    ]


def within_a_function(cuda: Cuda) -> object:
    """What a function that a stream calls may do with libraries and links."""
    library, link, out, size = load_library(cuda), new_link(cuda), c_uint64(), c_size_t()
    kernel = cuda.new("cuLibraryGetKernel", library, b"none")
    add_to(cuda, link, FILL)
    codes: list[int] = []

    def calls(data: object) -> None:
        codes.extend(
            [
                cuda.code("cuLibraryLoadData", byref(out), FILL, None, None, 0, None, None, 0),
                cuda.code("cuLibraryLoadFromFile", byref(out), b"none", None, None, 0, None, None, 0),
                cuda.code("cuModuleLoadData", byref(out), FILL),
                cuda.code("cuLinkComplete", link, byref(out), byref(size)),
                cuda.code("cuKernelSetAttribute", 9, 50, kernel, 0),
                cuda.code("cuLibraryUnload", library),
                cuda.code("cuLibraryGetKernel", byref(out), library, b"none"),
            ]
        )

    function = HOST_FUNCTION(calls)
    cuda.cuLaunchHostFunc(None, function, None)
    cuda.cuCtxSynchronize()
    return codes


def the_first_links_of_cuda(cuda: Cuda) -> object:
    """Their names before the second version."""
    link, image, size = c_uint64(), c_uint64(), c_size_t()
    return [
        cuda.code("cuLinkCreate", 0, None, None, byref(link)),
        cuda.code("cuLinkAddData", link, PTX, FILL, len(FILL), b"fill", 0, None, None),
        cuda.code("cuLinkAddFile", link, PTX, b"/no/such/file", 0, None, None),
        cuda.code("cuLinkComplete", link, byref(image), byref(size)),
        cuda.code("cuLinkDestroy", link),
    ]
