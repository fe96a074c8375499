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

bool Context::stream(uint64_t handle, CUstream& stream) const {
    if (is_special_stream(handle)) {
        stream = reinterpret_cast<CUstream>(handle);
        return true;
    }
    OnDevice<CUstream> found;
    if (!session_.streams.find(handle, found)) return false;
    stream = found.handle;
    return true;
}

bool Context::event(uint64_t handle, CUevent& event) const {
    OnDevice<CUevent> found;
    if (!session_.events.find(handle, found)) return false;
    event = found.handle;
    return true;
}

bool Context::pool(uint64_t device, CUmemoryPool& pool) const {
    if (device >= worker_.devices.size()) return false;
    pool = worker_.devices[device].pool;
    return pool != nullptr;
}

bool Context::may_add_stream(uint64_t handle) const {
    return session_.streams.may_add(handle, wire::HandleKind::stream);
}

bool Context::may_add_event(uint64_t handle) const {
    return session_.events.may_add(handle, wire::HandleKind::event);
}

CUresult Context::add_stream(uint64_t handle, CUstream stream) const {
    return session_.streams.add(handle, {stream, device_}) ? CUDA_SUCCESS : kMalformed;
}

CUresult Context::add_event(uint64_t handle, CUevent event) const {
    return session_.events.add(handle, {event, device_}) ? CUDA_SUCCESS : kMalformed;
}

bool Context::drop_stream(uint64_t handle, CUstream& stream) const {
    OnDevice<CUstream> found;
    if (!session_.streams.take(handle, found)) return false;
    stream = found.handle;
    return true;
}

bool Context::drop_event(uint64_t handle, CUevent& event) const {
    OnDevice<CUevent> found;
    if (!session_.events.take(handle, found)) return false;
    event = found.handle;
    return true;
}

}  // namespace worker
