// What front/platform.h wants of the client about devices, contexts, kernels and what memory is: what came
// with the worker's welcome and with the replies to loads, and the map of this process's memory.
#include <cstring>

#include "call.h"
#include "calls_wire.h"
#include "capture.h"
#include "context.h"
#include "front/platform.h"
#include "graph_platform.h"
#include "memory_map.h"
#include "session.h"
#include "shared_memory.h"
#include "slice_file.h"
#include "stream_event.h"
#include "thread.h"

namespace front::platform {

static_assert(wire::kMaxDevices <= kMostDevices);

namespace {

using client::MemoryMap;
using client::Session;

const wire::DeviceSnapshot& snapshot(CUdevice device) {
    return Session::get().devices()[static_cast<size_t>(device)];
}

// An event of a whole context, or work of it that waits for one.
void post_context_event(const Context& context, CUevent event, bool wait) {
    // Posted, so it must be refused here what the server's driver lacks: CUDA has these two since 12.5.
    static bool told;
    if (Session::get().driver_version() < 12050) {
        refuse(gk_unsupported_once(
            "an event of a whole context, on a GPU server whose driver is older than CUDA 12.5,", &told));
    }
    client::Call call;
    check(call.begin_on(static_cast<uint8_t>(context.device)));
    wire::ContextEvent message{0, wait, 0};
    require(call.event(event, message.event), CUDA_ERROR_INVALID_HANDLE);
    if (!wait) {
        const client::Event* known = client::events().find(message.event);
        require(known && known->context == context.id, CUDA_ERROR_INVALID_HANDLE);
        client::count_record(event);
    }
    check(call.post(wire::kOpContextEvent, 0, &message, sizeof message));
}

// A context's slot never goes.
std::shared_ptr<Context> kept(client::Context* context) {
    return {std::shared_ptr<void>(), context};
}

}  // namespace

void require_initialised() {
    require(Session::get().initialised(), CUDA_ERROR_NOT_INITIALIZED);
}

void require_alive() {
    check(Session::get().error());
}

// Without a worker, the version of the headers is the best answer.
int driver_version() {
    const int version = Session::get().driver_version();
    return version ? version : CUDA_VERSION;
}

int device_count() {
    check(Session::get().go_on());
    return static_cast<int>(Session::get().devices().size());
}

void require_device(CUdevice device) {
    check(client::check_device(device));
}

void require_device_to_leave(CUdevice device) {
    check(client::check_device_to_leave(device));
}

std::string device_name(CUdevice device) {
    return snapshot(device).name;
}

CUuuid device_uuid(CUdevice device) {
    CUuuid uuid;
    std::memcpy(uuid.bytes, snapshot(device).uuid, sizeof uuid.bytes);
    return uuid;
}

size_t total_memory(CUdevice device) {
    return snapshot(device).total_bytes;
}

std::string pci_bus_id(CUdevice device) {
    return snapshot(device).pci_bus_id;
}

int attribute(CUdevice device, CUdevice_attribute attribute) {
    const auto index = static_cast<uint32_t>(attribute);
    require(index < wire::kDeviceAttributes);
    check(static_cast<CUresult>(snapshot(device).attribute_status[index]));
    // The worker says no for whoever is elsewhere.
    const bool of_managed = attribute == CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS ||
                            attribute == CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST;
    if (of_managed && client::SliceFile::get().is_open()) return 1;
    return snapshot(device).attributes[index];
}

std::vector<uint64_t>& context_stack() {
    return client::Thread::current().contexts;
}

std::shared_ptr<Context> current_context() {
    client::Context* context = nullptr;
    check(client::find_context(nullptr, context));
    return kept(context);
}

std::shared_ptr<Context> find_context(CUcontext handle) {
    return kept(client::context_of(handle));
}

// On the server the contexts of a device are one: what has failed has for all.
void require_working(const Context&) {
    check(Session::get().error());
}

bool in_callback() {
    return client::Thread::current().in_callback;
}

CUcontext begin_context(CUdevice device, unsigned flags, unsigned api_version) {
    check(Session::get().error());
    const uint64_t handle = client::add_context(static_cast<uint8_t>(device), flags, api_version);
    require(handle != 0, CUDA_ERROR_OUT_OF_MEMORY);
    return reinterpret_cast<CUcontext>(handle);
}

// Nothing is left to do: the worker is told, and waits for the work by itself. A primary context's slot is
// the next one's only when all of this is over.
std::function<void()> end_context(Context& context) {
    check(client::end_life(static_cast<client::Context&>(context)));
    return [] {};
}

CUcontext primary_context(CUdevice device) {
    return client::handle_of(&client::primary_context(static_cast<uint8_t>(device)));
}

void begin_primary_context(CUdevice device, unsigned flags) {
    check(client::begin_primary_context(static_cast<uint8_t>(device), flags));
}

std::optional<CUdevice> primary_to_begin_again(CUcontext handle) {
    return client::primary_to_begin_again(handle);
}

void record_context(Context& context, CUevent event) {
    post_context_event(context, event, false);
}

void hold_context(Context& context, CUevent event) {
    post_context_event(context, event, true);
}

void prefer_cache(CUfunc_cache config) {
    client::Call call;
    check(call.begin());
    const wire::cuCtxSetCacheConfig_message message{static_cast<uint32_t>(config)};
    check(call.post(wire::kOp_cuCtxSetCacheConfig, 0, &message, sizeof message));
}

void require_stream(CUstream stream) {
    client::Call call;
    check(call.begin_for(stream));
    uint64_t wire = 0;
    require(call.stream(stream, client::in_per_thread_form(), wire), CUDA_ERROR_INVALID_HANDLE);
}

cuda::Multiprocessor multiprocessor(CUdevice device) {
    return client::multiprocessor(snapshot(device));
}

cuda::KernelNeeds kernel_needs(CUfunction function) {
    const client::Kernel* kernel = client::kernel_of(function);
    require(kernel != nullptr, CUDA_ERROR_INVALID_HANDLE);
    return client::needs_of(*kernel);
}

std::optional<Memory> memory_at(CUdeviceptr address) {
    using Kind = client::Memory::Kind;
    const auto found = MemoryMap::get().find(address);
    if (!found) return std::nullopt;
    Memory memory{.base = found->base, .bytes = found->bytes, .id = found->id, .device = found->device};
    memory.owner = found->context;
    memory.pool = reinterpret_cast<CUmemoryPool>(found->pool);
    memory.flags = found->flags;
    memory.on_device = found->kind != Kind::pinned;
    memory.managed = found->kind == Kind::managed;
    // Pinned memory that has no twin yet will have it at its own address; registered memory may not.
    if (found->kind != Kind::pinned || (!found->device_address && !found->registered)) {
        memory.device_address = address;
    } else if (found->device_address) {
        memory.device_address = found->device_address + (address - found->base);
    }
    return memory;
}

CUcontext owner(const Memory& memory) {
    return client::handle_of(client::context_with(memory.owner));
}

std::optional<cuda::ManagedMemory> managed_memory_at(CUdeviceptr address) {
    const auto memory = MemoryMap::get().find(address);
    if (!memory || (memory->kind != client::Memory::Kind::managed && !memory->global)) return std::nullopt;
    return cuda::ManagedMemory{memory->base, memory->bytes, memory->id};
}

void attach(CUdeviceptr base, bool attached) {
    using client::SharedMemory;
    SharedMemory::get().let(reinterpret_cast<void*>(base),
                            attached ? SharedMemory::Host::works_beside : SharedMemory::Host::waits);
}

}  // namespace front::platform
