"""Programs that have several lives, on the software GPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.native_build import Build, build

from .minimal_agent import MinimalAgent
from .recorded import Client

PRELUDE = '''
# store(x, n): *x = n. spin(): never ends.
TEXT = """.version 8.0
.target sm_70
.address_size 64
.visible .entry store(.param .u64 x, .param .u32 n) {
    .reg .b32 %r<2>; .reg .b64 %d<2>;
    ld.param.u64 %d1, [x]; ld.param.u32 %r1, [n]; st.global.u32 [%d1], %r1; ret;
}
.visible .entry spin() { again: bra again; }
"""
CONTEXT_IS_DESTROYED = 709

def new_life(c):
    assert c.library.gkNewLife() == 0

def life(c):
    state = INT()
    c.library.gkLife.restype = U64
    return c.library.gkLife(ctypes.byref(state)), state.value

def works(c):
    c.use_context()
    address = c.allocate(4096)
    c.copy_in(address, b"\\x07" * 4096)
    assert c.copy_out(address, 4096) == b"\\x07" * 4096
    c.free(address)
'''


@pytest.fixture
def software(tmp_path: Path, native: Build) -> Iterator[Client]:
    build(native.folder, "softgpu")
    driver = native.folder / "softgpu" / "libcuda.so.1"
    settings = {"GPU_KERNELS_SOFTGPU_MEMORY_MIB": "64"}
    with MinimalAgent(tmp_path, native.worker, driver, environment=settings) as agent:
        client = Client(agent, native)
        client.prelude = client.prelude + PRELUDE
        yield client


# Handles of all kinds, and what calls with them answer.
OLD = """
    GRANULE = 2 << 20
    def host(data): pass
    FUNCTION = ctypes.CFUNCTYPE(None, POINTER)
    function = FUNCTION(host)

    def all_of(c):
        context = c.out("cuCtxCreate_v2", UINT(0), INT(0))
        c.call("cuCtxPopCurrent_v2", ctypes.byref(U64()))
        library = c.library_of(TEXT)
        made = {
            "context": context,
            "stream": c.out("cuStreamCreate", UINT(0)), "event": c.out("cuEventCreate", UINT(0)),
            "library": library, "kernel": c.kernel(library, "store"),
            "module": c.out("cuModuleLoadData", TEXT.encode() + b"\\0"),
            "memory": c.allocate(4096), "pooled": c.out("cuMemAllocAsync", SIZE(4096), U64(0)),
            "graph": c.out("cuGraphCreate", UINT(0)),
        }
        link = U64()
        c.call("cuLinkCreate_v2", UINT(0), None, None, ctypes.byref(link))
        made["link"] = link.value
        made["function"] = c.out("cuModuleGetFunction", U64(made["module"]), b"store")
        properties = (U64 * 11)(1, 1)  # pinned memory, on device 0
        made["pool"] = c.out("cuMemPoolCreate", properties)
        made["physical"] = c.out("cuMemCreate", SIZE(GRANULE), properties, U64(0))
        made["node"] = c.out("cuGraphAddEmptyNode", U64(made["graph"]), None, SIZE(0))
        made["exec"] = c.out("cuGraphInstantiateWithFlags", U64(made["graph"]), U64(0))
        return made

    def answers(c, old):
        h = {name: U64(value) for name, value in old.items()}
        out, back = U64(), ctypes.create_string_buffer(16)
        access, granule = (UINT * 3)(1, 0, 3), SIZE(GRANULE)
        def launch(kernel):
            values = [U64(0), U64(0)]
            return c.status("cuLaunchKernel", *launch_arguments(old[kernel], values, 1, 1, 0))
        return {
            "cuCtxSetCurrent": c.status("cuCtxSetCurrent", h["context"]),
            "cuCtxDestroy": c.status("cuCtxDestroy_v2", h["context"]),
            "cuStreamSynchronize": c.status("cuStreamSynchronize", h["stream"]),
            "cuStreamQuery": c.status("cuStreamQuery", h["stream"]),
            "cuStreamDestroy": c.status("cuStreamDestroy_v2", h["stream"]),
            "cuEventRecord": c.status("cuEventRecord", h["event"], U64(0)),
            "cuEventSynchronize": c.status("cuEventSynchronize", h["event"]),
            "cuEventQuery": c.status("cuEventQuery", h["event"]),
            "cuEventDestroy": c.status("cuEventDestroy_v2", h["event"]),
            "cuLibraryGetKernel": c.status("cuLibraryGetKernel", ctypes.byref(out), h["library"], b"store"),
            "cuLibraryUnload": c.status("cuLibraryUnload", h["library"]),
            "cuLaunchKernel (kernel)": launch("kernel"),
            "cuLaunchKernel (function)": launch("function"),
            "cuFuncGetAttribute": c.status("cuFuncGetAttribute", ctypes.byref(out), INT(0), h["function"]),
            "cuModuleGetFunction": c.status("cuModuleGetFunction", ctypes.byref(out), h["module"], b"store"),
            "cuModuleUnload": c.status("cuModuleUnload", h["module"]),
            "cuMemFree": c.status("cuMemFree_v2", h["memory"]),
            "cuMemFreeAsync": c.status("cuMemFreeAsync", h["pooled"], U64(0)),
            "cuMemAllocFromPoolAsync": c.status(
                "cuMemAllocFromPoolAsync", ctypes.byref(out), SIZE(64), h["pool"], U64(0)),
            "cuMemPoolGetAttribute": c.status("cuMemPoolGetAttribute", h["pool"], INT(1), ctypes.byref(out)),
            "cuMemPoolGetAttribute (settled)": c.status(
                "cuMemPoolGetAttribute", h["pool"], INT(9), ctypes.byref(out)),
            "cuMemPoolSetAttribute": c.status("cuMemPoolSetAttribute", h["pool"], INT(1), ctypes.byref(out)),
            "cuMemPoolSetAccess": c.status("cuMemPoolSetAccess", h["pool"], access, SIZE(1)),
            "cuMemPoolTrimTo": c.status("cuMemPoolTrimTo", h["pool"], SIZE(0)),
            "cuMemPoolDestroy": c.status("cuMemPoolDestroy", h["pool"]),
            "cuMemMap": c.status("cuMemMap", U64(1 << 40), granule, SIZE(0), h["physical"], U64(0)),
            "cuMemMap (of nothing)": c.status(
                "cuMemMap", U64(1 << 40), SIZE(0), SIZE(0), h["physical"], U64(0)),
            "cuMemGetAllocationPropertiesFromHandle": c.status(
                "cuMemGetAllocationPropertiesFromHandle", (U64 * 4)(), h["physical"]),
            "cuMemRelease": c.status("cuMemRelease", h["physical"]),
            "cuGraphInstantiate": c.status(
                "cuGraphInstantiateWithFlags", ctypes.byref(out), h["graph"], U64(0)),
            "cuGraphLaunch": c.status("cuGraphLaunch", h["exec"], U64(0)),
            "cuGraphExecDestroy": c.status("cuGraphExecDestroy", h["exec"]),
            "cuGraphNodeGetType": c.status("cuGraphNodeGetType", h["node"], ctypes.byref(out)),
            "cuGraphDestroy": c.status("cuGraphDestroy", h["graph"]),
            "cuLaunchHostFunc": c.status("cuLaunchHostFunc", h["stream"], function, None),
            "cuLinkComplete": c.status("cuLinkComplete", h["link"], ctypes.byref(out), ctypes.byref(out)),
        }
"""
