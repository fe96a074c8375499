#include "stream_event.h"

#include "call.h"
#include "calls_wire.h"
#include "capture.h"
#include "context.h"
#include "front/platform.h"
#include "front/stream_attributes.h"
#include "session.h"
#include "thread.h"

namespace client {
namespace {

uint64_t load(const uint64_t& value) {
    return __atomic_load_n(&value, __ATOMIC_SEQ_CST);
}

bool is_complete(const Event& event) {
    return load(event.completed) == load(event.recorded);
}

// The worker said that the event is complete; `recorded` was read before it was asked.
void completed(Event& event, uint64_t recorded) {
    uint64_t seen = load(event.completed);
    while (seen < recorded && !__atomic_compare_exchange_n(&event.completed, &seen, recorded, true,
                                                           __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    }
}

// Asks about the event, or waits for it; the messages are alike.
CUresult ask(CUevent handle, uint16_t opcode) {
    Call call;
    if (CUresult error = call.begin_without_context()) return error;
    wire::cuEventQuery_message message{reinterpret_cast<uint64_t>(handle)};
    static_assert(sizeof message == sizeof(wire::cuEventSynchronize_message));
    Event* event = events().find(message.hEvent);
    if (!event) return CUDA_ERROR_INVALID_HANDLE;
    if (is_complete(*event)) return CUDA_SUCCESS;
    const uint64_t recorded = load(event->recorded);
    const CUresult result = call.synchronize(opcode, 0, &message, sizeof message, nullptr, 0);
    if (result == CUDA_SUCCESS) completed(*event, recorded);
    return result;
}

}  // namespace

HandleTable<Stream>& streams() {
    static auto* table = new HandleTable<Stream>(wire::HandleKind::stream);
    return *table;
}

void count_record(CUevent event) {
    Event* known = events().find(reinterpret_cast<uint64_t>(event));
    if (known) __atomic_fetch_add(&known->recorded, 1, __ATOMIC_SEQ_CST);
}

HandleTable<Event>& events() {
    static auto* table = new HandleTable<Event>(wire::HandleKind::event);
    return *table;
}

namespace {

// A default stream's number, of a thread or, with 0, the legacy one: no handle is as small.
constexpr uint64_t number_of_default(uint64_t thread, uint64_t context) {
    return thread << 32 | (context & UINT32_MAX);
}
bool is_default(uint64_t number) {
    return number < wire::make_handle(wire::HandleKind::stream, 0, 0);
}

template <typename T>
void take(HandleTable<T>& table, uint64_t context, std::vector<uint64_t>& taken) {
    for (const uint64_t handle : table.all()) {
        const T* object = table.find(handle);
        if (object && object->context == context && table.remove(handle)) taken.push_back(handle);
    }
}

}  // namespace

uint64_t context_of_stream(uint64_t wire) {
    const Stream* stream = wire > kPerThreadStreamHandle ? streams().find(wire) : nullptr;
    return stream ? stream->context : current_context_id();
}

std::vector<uint64_t> take_streams_and_events(uint64_t context) {
    std::vector<uint64_t> taken;
    take(streams(), context, taken);
    for (const uint64_t stream : taken) front::forget_stream_attributes(stream);
    front::forget_stream_attributes_if([context](uint64_t stream) {
        return is_default(stream) && (stream & UINT32_MAX) == (context & UINT32_MAX);
    });
    take(events(), context, taken);
    return taken;
}

void forget_streams_of_thread(uint64_t thread) {
    front::forget_stream_attributes_if(
        [thread](uint64_t stream) { return is_default(stream) && stream >> 32 == thread; });
}

void forget_streams_and_events() {
    streams().forget_all();
    front::forget_stream_attributes_if([](uint64_t) { return true; });
    events().forget_all();
}

}  // namespace client

namespace front::platform {

using namespace client;

Stream stream(CUstream handle) {
    check(Session::get().error());
    require(!in_callback(), CUDA_ERROR_NOT_PERMITTED);
    const auto value = reinterpret_cast<uint64_t>(handle);
    if (value > kPerThreadStreamHandle) {
        const client::Stream* known = streams().find(value);
        require(known != nullptr, CUDA_ERROR_INVALID_HANDLE);
        return {.number = value,
                .device = known->device,
                .owner = known->context,
                .flags = known->flags,
                .priority = known->priority};
    }
    client::Context* context = nullptr;
    check(find_current(context));
    const bool own = value == kPerThreadStreamHandle || (value == 0 && in_per_thread_form());
    return {.number = number_of_default(own ? Thread::current().number : 0, context->id),
            .device = context->device,
            .owner = context->id};
}

CUcontext owner(const Stream& stream) {
    return handle_of(context_with(stream.owner));
}

StreamPriorities stream_priorities(CUdevice device) {
    const wire::DeviceSnapshot& its = Session::get().devices()[static_cast<size_t>(device)];
    return {its.least_priority, its.greatest_priority};
}

CUstream make_stream(unsigned flags, int priority) {
    Call call;
    check(call.begin());
    const uint64_t handle = streams().add([&](client::Stream& stream, uint64_t) {
        stream = {current_context_id(), call.device(), flags, priority};
    });
    require(handle != 0, CUDA_ERROR_OUT_OF_MEMORY);
    const wire::cuStreamCreateWithPriority_message message{handle, flags, priority};
    check(call.post(wire::kOp_cuStreamCreateWithPriority, 0, &message, sizeof message));
    return reinterpret_cast<CUstream>(handle);
}

void end_stream(CUstream stream) {
    Call call;
    check(call.begin_without_context());
    const auto handle = reinterpret_cast<uint64_t>(stream);
    require(streams().remove(handle), CUDA_ERROR_INVALID_HANDLE);
    graphs::forget_stream(handle);
    forget_stream_attributes(handle);
    const wire::cuStreamDestroy_v2_message message{handle};
    check(call.post(wire::kOp_cuStreamDestroy_v2, 0, &message, sizeof message));
}

Event event(CUevent handle) {
    const auto key = reinterpret_cast<uint64_t>(handle);
    const client::Event* known = events().find(key);
    require(known != nullptr, CUDA_ERROR_INVALID_HANDLE);
    return {key, known->context};
}

CUevent make_event(unsigned flags) {
    Call call;
    check(call.begin());
    const uint64_t handle = events().add([&](client::Event& event, uint64_t) {
        event.context = current_context_id();
        event.device = call.device();
        event.flags = flags;
    });
    require(handle != 0, CUDA_ERROR_OUT_OF_MEMORY);
    const wire::cuEventCreate_message message{handle, flags};
    check(call.post(wire::kOp_cuEventCreate, 0, &message, sizeof message));
    return reinterpret_cast<CUevent>(handle);
}

void end_event(CUevent event) {
    Call call;
    check(call.begin_without_context());
    const auto handle = reinterpret_cast<uint64_t>(event);
    require(events().remove(handle), CUDA_ERROR_INVALID_HANDLE);
    graphs::forget_event(handle);
    const wire::cuEventDestroy_v2_message message{handle};
    check(call.post(wire::kOp_cuEventDestroy_v2, 0, &message, sizeof message));
}

void record(CUevent event, CUstream stream) {
    Call call;
    check(call.begin_for(stream));
    wire::cuEventRecord_message message{reinterpret_cast<uint64_t>(event), 0};
    require(call.stream(stream, in_per_thread_form(), message.hStream), CUDA_ERROR_INVALID_HANDLE);
    const client::Event* known = events().find(message.hEvent);
    require(known && known->context == context_of_stream(message.hStream), CUDA_ERROR_INVALID_HANDLE);
    count_record(event);
    check(call.post(wire::kOp_cuEventRecord, 0, &message, sizeof message));
}

void wait_in_stream(CUstream stream, CUevent event) {
    Call call;
    check(call.begin_for(stream));
    wire::cuStreamWaitEvent_message message{};
    require(call.stream(stream, in_per_thread_form(), message.hStream), CUDA_ERROR_INVALID_HANDLE);
    require(call.event(event, message.hEvent), CUDA_ERROR_INVALID_HANDLE);
    check(call.post(wire::kOp_cuStreamWaitEvent, 0, &message, sizeof message));
}

CUresult query(CUevent event) {
    return ask(event, wire::kOp_cuEventQuery);
}

CUresult wait(CUevent event) {
    return ask(event, wire::kOp_cuEventSynchronize);
}

}  // namespace front::platform
