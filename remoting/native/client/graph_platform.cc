// What graphs/platform.h wants of the client.
#include "graph_platform.h"

#include "call.h"
#include "calls_wire.h"
#include "capture.h"
#include "context.h"
#include "copy.h"
#include "graph_replay.h"
#include "memory_map.h"
#include "session.h"
#include "stream_event.h"
#include "thread.h"

namespace client {
namespace {

thread_local bool per_thread_default = false;

// A thread's default stream has the thread's own key.
uint64_t key_of_thread() {
    static std::atomic<uint64_t> last{0};
    static thread_local const uint64_t number = ++last;
    return number << 8 | kPerThreadStreamHandle;
}

}  // namespace

PerThreadDefault::PerThreadDefault() : before_(per_thread_default) {
    per_thread_default = true;
}
PerThreadDefault::~PerThreadDefault() {
    per_thread_default = before_;
}

bool in_per_thread_form() {
    return per_thread_default;
}

Shape shape_of(const graphs::KernelParams& params) {
    return {{params.grid[0], params.grid[1], params.grid[2]},
            {params.block[0], params.block[1], params.block[2]},
            params.shared_bytes};
}

graphs::Stream as_captured(CUstream handle, bool per_thread) {
    graphs::Stream stream;
    stream.wire = reinterpret_cast<uint64_t>(handle);
    if (stream.wire == 0 && per_thread) stream.wire = kPerThreadStreamHandle;
    stream.key = stream.wire == kPerThreadStreamHandle ? key_of_thread() : stream.wire;
    stream.legacy = stream.wire < kPerThreadStreamHandle;
    if (stream.wire > kPerThreadStreamHandle) {
        const Stream* known = streams().find(stream.wire);
        graphs::require(known != nullptr, CUDA_ERROR_INVALID_HANDLE);
        stream.blocking = !(known->flags & CU_STREAM_NON_BLOCKING);
        stream.context = known->context;
    } else {
        stream.context = current_context_id();
        graphs::require(stream.context != 0, CUDA_ERROR_INVALID_CONTEXT);
    }
    return stream;
}

}  // namespace client

namespace graphs::platform {

using namespace client;

void tell(std::span<const std::function<void()>> told) {
    auto& to_tell = Thread::current().to_tell;
    to_tell.insert(to_tell.end(), told.begin(), told.end());
}

CUresult ready() {
    return Session::get().error();
}

void require_context() {
    require(current_context() != nullptr, CUDA_ERROR_INVALID_CONTEXT);
}

graphs::Stream stream(CUstream handle) {
    return as_captured(handle, per_thread_default);
}

uint64_t event(CUevent handle) {
    const auto key = reinterpret_cast<uint64_t>(handle);
    require(events().find(key) != nullptr, CUDA_ERROR_INVALID_HANDLE);
    return key;
}

std::shared_ptr<const graphs::Kernel> kernel(CUfunction func, CUkernel kern) {
    const client::Kernel* known = kernel_of(func ? static_cast<void*>(func) : kern);
    require(known != nullptr, CUDA_ERROR_INVALID_HANDLE);
    auto kernel = std::make_shared<GraphKernel>();
    kernel->kernel = *known;
    for (const auto& param : known->params) kernel->params.push_back({param.offset, param.bytes});
    kernel->param_bytes = known->param_bytes;
    return kernel;
}

void check(const KernelParams& params) {
    graphs::check(check_launch(shape_of(params), kernel_of_node(params), Session::get().devices()[device()],
                               params.attributes));
}

void check(const CopyParams& params) {
    cuda::CopyRequest request;
    graphs::check(cuda::read_copy_3d(&params.copy, request, front::shape_of_array));
    if (request.empty()) return;
    CopyPlaces places;
    graphs::check(find_places(request, places));
}

void check(const FillParams& params) {
    const auto& p = params.fill;
    if (p.width == 0 || p.height == 0) return;
    const uint64_t row = wire::times(p.width, p.elementSize);
    require(p.dst % p.elementSize == 0);
    require(p.height == 1 || (p.pitch % p.elementSize == 0 && p.pitch >= row));
    require(MemoryMap::get().on_device(p.dst, wire::plus(wire::times(p.pitch, p.height - 1), row)));
}

void require_device(CUdevice device) {
    graphs::check(check_device(device));
}

uint8_t device() {
    require_context();
    return current_context()->device;
}

CUdeviceptr allocate(uint8_t device, size_t bytes) {
    Call call;
    graphs::check(call.begin());
    wire::AllocateHead head{};
    head.kind = static_cast<uint32_t>(wire::AllocationKind::device);
    head.bytes = bytes;
    wire::Allocated answer{};
    graphs::check(call.ask(wire::kOpAllocate, 0, &head, sizeof head, &answer, sizeof answer));
    Memory memory;
    memory.base = memory.device_address = answer.address;
    memory.bytes = bytes;
    memory.device = device;
    MemoryMap::get().add(memory);
    return answer.address;
}

// The worker's free waits for what may use the memory.
void free(uint8_t, CUdeviceptr address) noexcept {
    Call call;
    if (!MemoryMap::get().remove(address, {Memory::Kind::device}) ||
        call.begin_without_context() != CUDA_SUCCESS)
        return;
    const wire::cuMemFree_v2_message message{address};
    call.post(wire::kOp_cuMemFree_v2, 0, &message, sizeof message);
}

std::shared_ptr<Replay> make_replay(uint64_t exec, std::span<const Step> steps, uint64_t flags) {
    return std::make_shared<ForwardedGraph>(exec, steps, flags);
}

}  // namespace graphs::platform
