#include "handlers.h"

namespace worker {
namespace {

// CU_STREAM_LEGACY is 1; 0 means the same. CU_STREAM_PER_THREAD is that of the lane's thread here, as it is
// that of the lane's thread there.
constexpr uint64_t kPerThread = 2;
bool is_special_stream(uint64_t handle) {
    return handle <= kPerThread;
}

// By opcode, as wire/protocol.h numbers them.
const Handler kByHand[wire::kFirstGenerated] = {
    {},
    {"cuLaunchKernel", How::post, handle_launch},
    {"cuMemcpyHtoD", How::post, handle_copy_in},
    {},  // kOpCopyOut: the lane's
    {"cuMemAlloc", How::ask, handle_allocate, Keeps::little},
    {"cuLibraryLoadData", How::ask, handle_load_library, Keeps::much},
    {"image upload", How::post, handle_upload_image, Keeps::nothing},
    {"cuLibraryUnload", How::post, handle_unload_library, Keeps::nothing},
    {"cuLibraryGetGlobal", How::ask, handle_get_global, Keeps::little},
    {"cuLinkComplete", How::ask, handle_link, Keeps::much},
    {"cuMemGetInfo", How::ask, handle_memory_info, Keeps::nothing},
    {"a wait for the device", How::fetch, handle_wait_for_device, Keeps::nothing},
    {"cuKernelSetAttribute", How::post, handle_set_attribute},
    {"cuMemcpy3D", How::post, handle_copy_box_in},
    {},  // kOpCopyBoxOut: the lane's
    {"cuMemcpy3D", How::post, handle_copy_box},
    {"cuMemPoolCreate", How::ask, handle_create_pool, Keeps::little},
    {"cuMemPoolSetAccess", How::ask, handle_set_pool_access},
    {"cuMemCreate", How::ask, handle_create_memory},
    {"cuMemSetAccess", How::ask, handle_set_access},
    {"cuLaunchHostFunc", How::post, handle_host_call, Keeps::little},
    {},  // kOpNextHostCall: the lane's
    {"cuCtxDestroy", How::post, handle_end_context, Keeps::nothing},
    {"cuCtxRecordEvent", How::post, handle_context_event},
    {"cuDevicePrimaryCtxReset", How::post, handle_reset_libraries},
    {"cuStreamBatchMemOp", How::post, handle_stream_memory},
    {},  // kOpMemoryLook: the lane's
    {"a wait in a stream", How::sync, handle_wait_in_stream, Keeps::nothing},
    {"call of a maths library", How::post, handle_library_call},
    {"look for a maths library", How::fetch, handle_library_look, Keeps::little},
    {"graph description", How::post, handle_graph_part, Keeps::nothing},
    {"cuGraphInstantiate", How::ask, handle_graph_make, Keeps::much},
    {"cuGraphExecNodeSetParams", How::post, handle_graph_set},
    {"cuGraphNodeSetEnabled", How::post, handle_graph_enable},
    {"graph input", How::post, handle_graph_input, Keeps::little},
    {"cuGraphLaunch", How::post, handle_graph_run},
    {"graph output", How::fetch, handle_graph_output, Keeps::nothing},
    {"cuGraphExecDestroy", How::post, handle_graph_end, Keeps::nothing},
    {},  // kOpGraphLook: the lane's
    {},  // none has 39
    {},  // kOpTakeNotices: the lane's
    {"checks", How::ask, handle_set_checks},
    {},  // kOpInterrupt: the lane's
    {"cuArray3DCreate", How::ask, handle_make_array, Keeps::little},
    {"cuArrayDestroy", How::post, handle_end_array, Keeps::nothing},
    {"cuTexObjectCreate", How::ask, handle_make_texture, Keeps::little},
    {"cuTexObjectDestroy", How::post, handle_end_texture, Keeps::nothing},
    {"cuMemHostRegister", How::ask, handle_map_host, Keeps::little},
    {"cuMemcpyDtoHAsync", How::post, handle_copy_back, Keeps::nothing},
};

}  // namespace

const Handler* find_handler(uint16_t opcode) {
    if (opcode >= wire::kEndOfOpcodes) return nullptr;
    if (opcode >= wire::kFirstGenerated) return &kGeneratedHandlers[opcode - wire::kFirstGenerated];
    return kByHand[opcode].run ? &kByHand[opcode] : nullptr;
}

namespace {

template <typename T>
void ends(Session&, const T&) {}
void ends(Session& session, const OnDevice<CUstream>& stream) {
    session.stream_ends(stream);
}

}  // namespace

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
        if (!session_.kinds.find(handle, found)) return false;                          \
        ends(session_, found); /* while it is there to be found */                      \
        kind = found.handle;                                                            \
        return session_.kinds.take(handle, found);                                      \
    }                                                                                   \
    static bool find_##kind(Session& session, uint64_t handle, Type& kind) {            \
        OnDevice<Type> found;                                                           \
        if (!session.kinds.find(handle, found)) return false;                           \
        kind = found.handle;                                                            \
        return true;                                                                    \
    }

HANDLES(stream, streams, CUstream)
HANDLES(event, events, CUevent)

bool Context::stream(uint64_t handle, CUstream& stream) const {
    if (!is_special_stream(handle)) return find_stream(session_, handle, stream);
    uses_default_stream(handle == kPerThread);
    stream = reinterpret_cast<CUstream>(handle);
    return true;
}

bool Context::pool(uint64_t handle, std::shared_ptr<Pool>& pool) const {
    if (handle >= worker_.devices.size()) return session_.pools.find(handle, pool);
    pool = session_.default_pool(static_cast<uint8_t>(handle));
    return pool != nullptr;
}

bool Context::event(uint64_t handle, CUevent& event) const {
    return find_event(session_, handle, event);
}

}  // namespace worker
