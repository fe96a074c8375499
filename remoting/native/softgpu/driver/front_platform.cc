// What front/platform.h wants of this driver.
#include <cstdio>
#include <cstring>

#include "attributes.h"
#include "driver.h"
#include "front/platform.h"
#include "launch.h"
#include "pool.h"
#include "stream_call.h"
#include "thread_state.h"

namespace front::platform {

static_assert(softgpu::driver::Config::kMaxDevices <= kMostDevices);

namespace {

using namespace softgpu::driver;

const DeviceConfig& config_of(CUdevice device) {
    return live().config.devices[static_cast<size_t>(device)];
}

using Context = softgpu::driver::Context;

}  // namespace

void require_initialised() {
    live();
}

void require_alive() {}  // a process has one life, and errors end contexts

int driver_version() {
    return CUDA_VERSION;
}

int device_count() {
    return static_cast<int>(live().config.devices.size());
}

void require_device(CUdevice device) {
    softgpu::driver::require_device(device);
}

void require_device_to_leave(CUdevice device) {
    require_device(device);
}

std::string device_name(CUdevice) {
    return live().config.name;
}

CUuuid device_uuid(CUdevice device) {
    CUuuid uuid;
    std::memcpy(uuid.bytes, config_of(device).uuid.data(), sizeof uuid.bytes);
    return uuid;
}

size_t total_memory(CUdevice device) {
    return live().memory.space(device).total_bytes();
}

// No bus; the form that programs parse, with a number for each device.
std::string pci_bus_id(CUdevice device) {
    char text[16];
    std::snprintf(text, sizeof text, "0000:00:%02x.0", config_of(device).number);
    return text;
}

int attribute(CUdevice, CUdevice_attribute attribute) {
    const auto value = device_attribute(live().config, attribute);
    require(value.has_value());
    return *value;
}

std::vector<uint64_t>& context_stack() {
    return thread_state().contexts;
}

std::shared_ptr<front::Context> current_context() {
    return live().current();
}

std::shared_ptr<front::Context> find_context(CUcontext handle) {
    return live().handles.find<Context>(reinterpret_cast<uint64_t>(handle));
}

void require_working(const front::Context& context) {
    check(static_cast<const Context&>(context).status());
}

bool in_callback() {
    return Scheduler::in_callback();
}

CUcontext begin_context(CUdevice device, unsigned flags, unsigned api_version) {
    const auto context = Context::create(live(), device, flags);
    context->api_version = api_version;
    return as_handle<CUcontext>(live().handles.add(context));
}

std::function<void()> end_context(front::Context& context) {
    return static_cast<Context&>(context).destroy();
}

CUcontext primary_context(CUdevice device) {
    return as_handle<CUcontext>(live().primary_handle(device));
}

void begin_primary_context(CUdevice device, unsigned flags) {
    const auto context = Context::create(live(), device, flags);
    context->primary = true;
    live().handles.put(live().primary_handle(device), context);
}

std::optional<CUdevice> primary_to_begin_again(CUcontext) {
    return std::nullopt;  // a process has one life
}

void record_context(front::Context& of, CUevent handle) {
    auto& context = static_cast<Context&>(of);
    const auto event = live().handles.get<softgpu::driver::Event>(handle);
    require(event->context.get() == &context, CUDA_ERROR_INVALID_HANDLE);
    const auto queue = context.legacy_stream()->queue;
    Operation marker;
    // The legacy queue's order covers the blocking queues; this covers the others too.
    marker.after = live().scheduler.pending(context.group);
    event->set({live().scheduler.submit(queue, std::move(marker)), queue});
}

void hold_context(front::Context& context, CUevent event) {
    const auto record = live().handles.get<softgpu::driver::Event>(event)->record();
    if (!record.completion || record.completion->done()) return;
    live().scheduler.submit_to_all(static_cast<Context&>(context).group, record.completion);
}

void prefer_cache(CUfunc_cache) {}  // it has none to divide

void require_stream(CUstream stream) {
    working_stream(live(), stream);
}

cuda::Multiprocessor multiprocessor(CUdevice) {
    return softgpu::driver::multiprocessor(live().config);
}

cuda::KernelNeeds kernel_needs(CUfunction function) {
    return needs_of(*find_function(*live().current(), function));
}

}  // namespace front::platform
