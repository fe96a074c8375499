// What front/platform.h wants of this driver about streams and events.
#include "capture.h"
#include "driver.h"
#include "front/platform.h"
#include "session.h"
#include "stream_call.h"

using namespace softgpu;
using namespace softgpu::driver;

namespace front::platform {
namespace {

std::shared_ptr<driver::Event> find(CUevent handle) {
    return live().handles.get<driver::Event>(handle);
}

// One that may be used: its context has not failed.
std::shared_ptr<driver::Event> working(CUevent handle) {
    require(!in_callback(), CUDA_ERROR_NOT_PERMITTED);
    auto event = find(handle);
    check(event->context->status());
    return event;
}

}  // namespace

Stream stream(CUstream handle) {
    const auto found = working_stream(live(), handle);
    const driver::Context& context = *found->context;
    return {.number = found->id,
            .device = context.device,
            .owner = context.handle,
            .flags = found->flags,
            .priority = found->queue->priority};
}

CUcontext owner(const Stream& stream) {
    return as_handle<CUcontext>(stream.owner);
}

StreamPriorities stream_priorities(CUdevice) {
    return {0, kGreatestPriority};
}

CUstream make_stream(unsigned flags, int priority) {
    const auto context = live().current();
    const auto stream = context->new_stream(flags, priority);
    live().handles.add(stream);
    context->own(stream->handle);
    return as_handle<CUstream>(stream->handle);
}

void end_stream(CUstream handle) {
    const auto stream = live().handles.get<driver::Stream>(handle);
    require(live().handles.remove(stream->handle), CUDA_ERROR_INVALID_HANDLE);
    graphs::forget_stream(as_captured(*stream).key);
    stream->context->disown(stream->handle);
}

Event event(CUevent handle) {
    const auto event = working(handle);
    return {key_of(*event), event->context->id};
}

CUevent make_event(unsigned flags) {
    const auto context = live().current();
    const auto event = std::make_shared<driver::Event>(context, flags);
    live().handles.add(event);
    context->own(event->handle);
    return as_handle<CUevent>(event->handle);
}

void end_event(CUevent handle) {
    const auto event = find(handle);
    require(live().handles.remove(event->handle), CUDA_ERROR_INVALID_HANDLE);
    event->context->disown(event->handle);
}

void record(CUevent handle, CUstream stream_handle) {
    const auto event = working(handle);
    const auto stream = working_stream(live(), stream_handle);
    require(stream->context == event->context, CUDA_ERROR_INVALID_HANDLE);
    event->set({event->context->driver.scheduler.submit(stream->queue, {}), stream->queue});
}

void wait_in_stream(CUstream stream_handle, CUevent event) {
    const auto stream = working_stream(live(), stream_handle);
    const auto completion = find(event)->record().completion;
    if (!completion || completion->done()) return;
    stream->context->driver.scheduler.submit(stream->queue, {.after = {completion}});
}

CUresult query(CUevent handle) {
    const auto event = working(handle);
    const auto completion = event->record().completion;
    if (completion && !completion->done()) return CUDA_ERROR_NOT_READY;
    return answer_of_wait(event->context->status());
}

CUresult wait(CUevent handle) {
    const auto event = working(handle);
    const auto record = event->record();
    event->context->driver.scheduler.wait(record.completion, record.queue);
    return answer_of_wait(event->context->status());
}

}  // namespace front::platform
