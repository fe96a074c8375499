#include "handlers.h"

namespace worker {
namespace {

// CU_STREAM_LEGACY is 1; 0 means the same. CU_STREAM_PER_THREAD is that of the lane's thread here, as it is
// that of the lane's thread there.
bool is_special_stream(uint64_t handle) {
    return handle <= 2;
}

const Handler kByHand[wire::kFirstGenerated] = {
    {},
    {"cuLaunchKernel", How::post, handle_launch},
    {"cuMemcpyHtoD", How::post, handle_copy_in},
    {},  // kOpCopyOut: see find_handler
    {"cuMemAlloc", How::ask, handle_allocate},
    {"cuLibraryLoadData", How::ask, handle_load_library},
    {"image upload", How::post, handle_upload_image},
    {"cuLibraryUnload", How::post, handle_unload_library},
    {"cuLibraryGetGlobal", How::ask, handle_get_global},
    {"cuLinkComplete", How::ask, handle_link},
    {"cuMemGetInfo", How::ask, handle_memory_info},
    {"cuDevicePrimaryCtxReset", How::post, handle_reset_device},
    {"cuKernelSetAttribute", How::post, handle_set_attribute},
};

}  // namespace

const Handler* find_handler(uint16_t opcode) {
    if (opcode >= wire::kEndOfOpcodes) return nullptr;
    if (opcode >= wire::kFirstGenerated) return &kGeneratedHandlers[opcode - wire::kFirstGenerated];
    return kByHand[opcode].run ? &kByHand[opcode] : nullptr;
}

bool Context::pool(uint64_t device, CUmemoryPool& pool) const {
    if (device >= worker_.devices.size()) return false;
    pool = worker_.devices[device].pool;
    return pool != nullptr;
}

bool Context::captures(CUstream stream) const {
    if (session_.captures.load() == 0) return false;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUresult result = invoke(worker_.driver.cuStreamIsCapturing, stream, &status);
    return result == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

// The same for each kind of handle.
#define HANDLES(kind, kinds, Type)                                                      \
    bool Context::may_add_##kind(uint64_t handle) const {                               \
        return session_.kinds.may_add(handle, wire::HandleKind::kind);                  \
    }                                                                                   \
    CUresult Context::add_##kind(uint64_t handle, Type kind) const {                    \
        return session_.kinds.add(handle, {kind, device_}) ? CUDA_SUCCESS : kMalformed; \
    }                                                                                   \
    bool Context::drop_##kind(uint64_t handle, Type& kind) const {                      \
        OnDevice<Type> found;                                                           \
        if (!session_.kinds.take(handle, found)) return false;                          \
        kind = found.handle;                                                            \
        return true;                                                                    \
    }                                                                                   \
    static bool find_##kind(Session& session, uint64_t handle, Type& kind) {            \
        OnDevice<Type> found;                                                           \
        if (!session.kinds.find(handle, found)) return false;                           \
        kind = found.handle;                                                            \
        return true;                                                                    \
    }

HANDLES(stream, streams, CUstream)
HANDLES(event, events, CUevent)
HANDLES(graph, graphs, CUgraph)
HANDLES(exec, execs, CUgraphExec)

bool Context::stream(uint64_t handle, CUstream& stream) const {
    if (!is_special_stream(handle)) return find_stream(session_, handle, stream);
    stream = reinterpret_cast<CUstream>(handle);
    return true;
}

bool Context::event(uint64_t handle, CUevent& event) const {
    return find_event(session_, handle, event);
}

bool Context::graph(uint64_t handle, CUgraph& graph) const {
    return find_graph(session_, handle, graph);
}

bool Context::exec(uint64_t handle, CUgraphExec& exec) const {
    return find_exec(session_, handle, exec);
}

}  // namespace worker
