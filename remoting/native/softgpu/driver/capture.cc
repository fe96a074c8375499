#include "capture.h"

#include "driver.h"
#include "front/stream_attributes.h"

namespace softgpu::driver {

graphs::Stream as_captured(const Stream& stream) {
    return {.key = reinterpret_cast<uint64_t>(&stream),
            .context = stream.context->id,
            .legacy = stream.handle == 0 && stream.queue == stream.context->legacy_stream()->queue,
            .blocking = stream.queue->blocking};
}

Stream::~Stream() {
    front::forget_stream_attributes(id);
    graphs::forget_stream(reinterpret_cast<uint64_t>(this));
}

Event::~Event() {
    graphs::forget_event(key_of(*this));
}

}  // namespace softgpu::driver
