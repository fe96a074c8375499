#include "stream_event.h"

#include "call.h"
#include "calls_wire.h"
#include "capture.h"
#include "context.h"
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

CUresult create_stream(CUstream* out, unsigned flags, int priority) {
    Call call;
    if (CUresult error = call.begin()) return error;
    if (!out || (flags & ~unsigned{CU_STREAM_NON_BLOCKING})) return CUDA_ERROR_INVALID_VALUE;
    const wire::DeviceSnapshot& device = Session::get().devices()[call.device()];
    priority = std::max(device.greatest_priority, std::min(device.least_priority, priority));
    const uint64_t handle = streams().add(
        [&](Stream& stream, uint64_t) { stream = {current_context_id(), call.device(), flags, priority}; });
    if (!handle) return CUDA_ERROR_OUT_OF_MEMORY;
    *out = reinterpret_cast<CUstream>(handle);
    const wire::cuStreamCreateWithPriority_message message{handle, flags, priority};
    return call.post(wire::kOp_cuStreamCreateWithPriority, 0, &message, sizeof message);
}

bool concerns_captures(bool external) {
    return external || graphs::any_capture() || graphs::any_captured_event();
}

CUresult record_in_capture(CUevent event, CUstream stream, bool per_thread, bool external, bool& taken) {
    if (!concerns_captures(external)) return CUDA_SUCCESS;
    const auto key = reinterpret_cast<uint64_t>(event);
    return graphs::guarded(
        [&] { taken = graphs::record_captured(as_captured(stream, per_thread), key, event, external); });
}

CUresult wait_for(CUstream stream, CUevent event, unsigned flags, bool per_thread) {
    Call call;
    if (CUresult error = call.begin_for(stream)) return error;
    wire::cuStreamWaitEvent_message message{};
    if (!call.stream(stream, per_thread, message.hStream)) return CUDA_ERROR_INVALID_HANDLE;
    if (!call.event(event, message.hEvent)) return CUDA_ERROR_INVALID_HANDLE;
    if (flags & ~unsigned{CU_EVENT_WAIT_EXTERNAL}) return CUDA_ERROR_INVALID_VALUE;
    const bool external = flags & CU_EVENT_WAIT_EXTERNAL;
    if (concerns_captures(external)) {
        bool taken = false;
        const CUresult error = graphs::guarded([&] {
            taken = graphs::wait_captured(as_captured(stream, per_thread), message.hEvent, event, external);
        });
        if (error != CUDA_SUCCESS || taken) return error;
    }
    return call.post(wire::kOp_cuStreamWaitEvent, 0, &message, sizeof message);
}

// Asking about an event, or waiting for it.
CUresult refuse_in_capture(uint64_t event) {
    if (graphs::any_captured_event()) {
        if (CUresult error = graphs::guarded([&] { graphs::require_not_captured_event(event); }))
            return error;
    }
    return refuse_unsafe();
}

CUresult record(CUevent hEvent, CUstream hStream, unsigned flags, bool per_thread) {
    Call call;
    if (CUresult error = call.begin_for(hStream)) return error;
    wire::cuEventRecordWithFlags_message message{};
    if (!call.event(hEvent, message.hEvent) || !call.stream(hStream, per_thread, message.hStream)) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    Event* event = events().find(message.hEvent);
    if (!event || event->context != context_of_stream(message.hStream)) return CUDA_ERROR_INVALID_HANDLE;
    const bool external = flags & CU_EVENT_RECORD_EXTERNAL;
    bool taken = false;
    if (CUresult error = record_in_capture(hEvent, hStream, per_thread, external, taken)) return error;
    if (taken) return CUDA_SUCCESS;
    count_record(hEvent);
    if (flags == 0) {
        const wire::cuEventRecord_message plain{message.hEvent, message.hStream};
        return call.post(wire::kOp_cuEventRecord, 0, &plain, sizeof plain);
    }
    message.flags = flags;
    return call.post(wire::kOp_cuEventRecordWithFlags, 0, &message, sizeof message);
}

// What is known of a stream handle, the special ones included; null when it is not one.
const Stream* known(CUstream handle, Stream& special) {
    const auto value = reinterpret_cast<uint64_t>(handle);
    if (value > kPerThreadStreamHandle) return streams().find(value);
    const Context* context = current_context();
    if (!context) return nullptr;
    special.context = context->id;
    special.device = context->device;
    return &special;
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

using namespace client;

extern "C" {

CUresult cuStreamCreate(CUstream* phStream, unsigned int Flags) {
    return create_stream(phStream, Flags, 0);
}
CUresult cuStreamCreateWithPriority(CUstream* phStream, unsigned int flags, int priority) {
    return create_stream(phStream, flags, priority);
}

CUresult cuStreamDestroy_v2(CUstream hStream) {
    Call call;
    if (CUresult error = call.begin_without_context()) return error;
    const auto handle = reinterpret_cast<uint64_t>(hStream);
    if (!streams().remove(handle)) return CUDA_ERROR_INVALID_HANDLE;
    graphs::forget_stream(handle);
    front::forget_stream_attributes(handle);
    const wire::cuStreamDestroy_v2_message message{handle};
    return call.post(wire::kOp_cuStreamDestroy_v2, 0, &message, sizeof message);
}
CUresult cuStreamDestroy(CUstream hStream) {
    return cuStreamDestroy_v2(hStream);
}

CUresult cuStreamGetCtx(CUstream hStream, CUcontext* pctx) {
    Stream special;
    const Stream* stream = known(hStream, special);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (!pctx) return CUDA_ERROR_INVALID_VALUE;
    *pctx = handle_of(context_with(stream->context));
    return CUDA_SUCCESS;
}
CUresult cuStreamGetCtx_ptsz(CUstream hStream, CUcontext* pctx) {
    return cuStreamGetCtx(hStream, pctx);
}

CUresult cuStreamGetCtx_v2(CUstream hStream, CUcontext* pctx, CUgreenCtx* pGreenCtx) {
    if (pGreenCtx) *pGreenCtx = nullptr;
    return cuStreamGetCtx(hStream, pctx);
}
CUresult cuStreamGetCtx_v2_ptsz(CUstream hStream, CUcontext* pctx, CUgreenCtx* pGreenCtx) {
    return cuStreamGetCtx_v2(hStream, pctx, pGreenCtx);
}

CUresult cuStreamGetDevice(CUstream hStream, CUdevice* device) {
    Stream special;
    const Stream* stream = known(hStream, special);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    *device = stream->device;
    return CUDA_SUCCESS;
}
CUresult cuStreamGetDevice_ptsz(CUstream hStream, CUdevice* device) {
    return cuStreamGetDevice(hStream, device);
}

CUresult cuStreamGetFlags(CUstream hStream, unsigned int* flags) {
    Stream special;
    const Stream* stream = known(hStream, special);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (!flags) return CUDA_ERROR_INVALID_VALUE;
    *flags = stream->flags;
    return CUDA_SUCCESS;
}
CUresult cuStreamGetFlags_ptsz(CUstream hStream, unsigned int* flags) {
    return cuStreamGetFlags(hStream, flags);
}

CUresult cuStreamGetPriority(CUstream hStream, int* priority) {
    Stream special;
    const Stream* stream = known(hStream, special);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (!priority) return CUDA_ERROR_INVALID_VALUE;
    *priority = stream->priority;
    return CUDA_SUCCESS;
}
CUresult cuStreamGetPriority_ptsz(CUstream hStream, int* priority) {
    return cuStreamGetPriority(hStream, priority);
}

// Handles are unique and large; the default streams are told apart by context and thread.
CUresult cuStreamGetId(CUstream hStream, unsigned long long* streamId) {
    Stream special;
    const Stream* stream = known(hStream, special);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (!streamId) return CUDA_ERROR_INVALID_VALUE;
    const bool is_own = !hStream && in_per_thread_form();
    const uint64_t value = is_own ? kPerThreadStreamHandle : reinterpret_cast<uint64_t>(hStream);
    *streamId = value;
    if (value > kPerThreadStreamHandle) return CUDA_SUCCESS;
    const uint64_t thread = value == kPerThreadStreamHandle ? Thread::current().number : 0;
    *streamId = number_of_default(thread, special.context);
    return CUDA_SUCCESS;
}
CUresult cuStreamGetId_ptsz(CUstream hStream, unsigned long long* streamId) {
    return cuStreamGetId(hStream ? hStream : CU_STREAM_PER_THREAD, streamId);
}

CUresult cuEventCreate(CUevent* phEvent, unsigned int Flags) {
    Call call;
    if (CUresult error = call.begin()) return error;
    constexpr unsigned kKnown = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING;
    if (Flags & CU_EVENT_INTERPROCESS) return CUDA_ERROR_NOT_SUPPORTED;
    if (!phEvent || (Flags & ~kKnown)) return CUDA_ERROR_INVALID_VALUE;
    const uint64_t handle = events().add([&](Event& event, uint64_t) {
        event.context = current_context_id();
        event.device = call.device();
        event.flags = Flags;
    });
    if (!handle) return CUDA_ERROR_OUT_OF_MEMORY;
    *phEvent = reinterpret_cast<CUevent>(handle);
    const wire::cuEventCreate_message message{handle, Flags};
    return call.post(wire::kOp_cuEventCreate, 0, &message, sizeof message);
}

CUresult cuEventDestroy_v2(CUevent hEvent) {
    Call call;
    if (CUresult error = call.begin_without_context()) return error;
    const auto handle = reinterpret_cast<uint64_t>(hEvent);
    if (!events().remove(handle)) return CUDA_ERROR_INVALID_HANDLE;
    graphs::forget_event(handle);
    const wire::cuEventDestroy_v2_message message{handle};
    return call.post(wire::kOp_cuEventDestroy_v2, 0, &message, sizeof message);
}
CUresult cuEventDestroy(CUevent hEvent) {
    return cuEventDestroy_v2(hEvent);
}

CUresult cuEventRecord(CUevent hEvent, CUstream hStream) {
    return record(hEvent, hStream, 0, false);
}
CUresult cuEventRecord_ptsz(CUevent hEvent, CUstream hStream) {
    return record(hEvent, hStream, 0, true);
}

CUresult cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags) {
    return record(hEvent, hStream, flags, false);
}
CUresult cuEventRecordWithFlags_ptsz(CUevent hEvent, CUstream hStream, unsigned int flags) {
    return record(hEvent, hStream, flags, true);
}

CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags) {
    return wait_for(hStream, hEvent, Flags, false);
}
CUresult cuStreamWaitEvent_ptsz(CUstream hStream, CUevent hEvent, unsigned int Flags) {
    return wait_for(hStream, hEvent, Flags, true);
}

CUresult cuEventQuery(CUevent hEvent) {
    Call call;
    if (CUresult error = call.begin_without_context()) return error;
    wire::cuEventQuery_message message{};
    if (!call.event(hEvent, message.hEvent)) return CUDA_ERROR_INVALID_HANDLE;
    if (CUresult error = refuse_in_capture(message.hEvent)) return error;
    Event& event = *events().find(message.hEvent);
    if (is_complete(event)) return CUDA_SUCCESS;
    const uint64_t recorded = load(event.recorded);
    const CUresult result = call.synchronize(wire::kOp_cuEventQuery, 0, &message, sizeof message, nullptr, 0);
    if (result == CUDA_SUCCESS) completed(event, recorded);
    return result;
}

CUresult cuEventSynchronize(CUevent hEvent) {
    Call call;
    if (CUresult error = call.begin_without_context()) return error;
    wire::cuEventSynchronize_message message{};
    if (!call.event(hEvent, message.hEvent)) return CUDA_ERROR_INVALID_HANDLE;
    if (CUresult error = refuse_in_capture(message.hEvent)) return error;
    Event& event = *events().find(message.hEvent);
    if (is_complete(event)) return CUDA_SUCCESS;
    const uint64_t recorded = load(event.recorded);
    const CUresult result =
        call.synchronize(wire::kOp_cuEventSynchronize, 0, &message, sizeof message, nullptr, 0);
    if (result == CUDA_SUCCESS) completed(event, recorded);
    return result;
}

CUresult cuEventElapsedTime(float* pMilliseconds, CUevent hStart, CUevent hEnd) {
    return cuEventElapsedTime_v2(pMilliseconds, hStart, hEnd);
}
}
