"""Programs over a module of which some kernels cannot run, for a process straight and one forwarded."""

from __future__ import annotations

from ctypes import c_char_p, c_uint, c_uint64, c_void_p

from tests.softgpu.driver.raw import Cuda, byref

HEAD = ".version 9.0\n.target sm_90\n.address_size 64\n"
GOOD = """
.visible .entry good(.param .u64 to) {
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [to];
    st.global.u32 [%rd1], 77;
    ret;
}
"""
BAD = """
.visible .entry _Z3badPf(.param .u64 to) {
    .reg .b64 %rd<2>; .reg .f32 %f<2>;
    ld.param.u64 %rd1, [to];
    multimem.ld_reduce.weak.global.add.f32 %f1, [%rd1];
    ret;
}
"""
HELPER = """
.func helper() {
    wgmma.fence.sync.aligned;
    ret;
}
"""
INDIRECT = """
.visible .entry indirect() {
    call helper, ();
    ret;
}
"""
LARGE = """
.visible .entry large() {
    .shared .align 4 .b8 tile[70000];
    .reg .b32 %r<2>;
    mov.u32 %r1, tile;
    st.shared.u32 [%r1], %r1;
    ret;
}
"""
TABLE = """
.visible .global .align 8 .u64 table[1] = {helper};
.visible .entry through(.param .u64 to) {
    .reg .b64 %rd<2>;
    ld.global.u64 %rd1, [table];
    prototype: .callprototype ()_();
    call %rd1, (), prototype;
    ret;
}
"""
ALL = HEAD + GOOD + BAD + HELPER + INDIRECT + LARGE + TABLE


def lookups(cuda: Cuda) -> dict[str, list[int]]:
    """What asking for each kernel answers, of a module and of a library, and how many each says it has."""
    module = cuda.load(ALL)
    library = cuda.new("cuLibraryLoadData", ALL.encode(), None, None, 0, None, None, 0)
    names = ("good", "_Z3badPf", "indirect", "large", "through", "nobody")
    found = {
        name: [
            cuda.code("cuModuleGetFunction", byref(c_void_p()), module, name.encode()),
            cuda.code("cuLibraryGetKernel", byref(c_void_p()), library, name.encode()),
        ]
        for name in names
    }
    counts = [
        cuda.new("cuModuleGetFunctionCount", module, kind=c_uint),
        cuda.new("cuLibraryGetKernelCount", library, kind=c_uint),
    ]
    return {**found, "counts": counts}


def names(cuda: Cuda) -> list[str]:
    module, functions, name = cuda.load(ALL), (c_void_p * 9)(), c_char_p()
    cuda.cuModuleEnumerateFunctions(functions, 9, module)
    found = []
    for function in filter(None, functions):
        cuda.cuFuncGetName(byref(name), function)
        found.append((name.value or b"").decode())
    return found


def the_good_one(cuda: Cuda) -> int:
    to = cuda.alloc(4)
    assert cuda.launch(cuda.kernel(cuda.load(ALL), "good"), c_uint64(to)) == 0
    cuda.cuCtxSynchronize()
    return int.from_bytes(cuda.read(to, 4), "little")


def none_left(cuda: Cuda) -> int:
    return cuda.code("cuModuleLoadData", byref(c_void_p()), (HEAD + BAD).encode())


def undefined(cuda: Cuda) -> int:
    text = HEAD + GOOD + INDIRECT.replace("helper", "nobody")
    return cuda.code("cuModuleLoadData", byref(c_void_p()), text.encode())


def through_a_pointer(cuda: Cuda) -> int:
    """Ends the context: for the last."""
    cuda.launch(cuda.kernel(cuda.load(ALL), "through"), c_uint64(0))
    return cuda.code("cuCtxSynchronize")
