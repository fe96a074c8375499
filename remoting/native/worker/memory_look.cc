// Device memory as it is now, for functions of the client: in no order with other calls, and on a stream that
// waits for no other.
#include "lane.h"

namespace worker {

Lane::~Lane() {
    if (worker_.poisoned.load() != CUDA_SUCCESS) return;
    for (const CUstream stream : own_streams_) {
        if (stream) invoke(worker_.driver.cuStreamDestroy_v2, stream);
    }
}

CUresult Lane::own_stream(CUstream& stream) {
    CUstream& own = own_streams_[static_cast<size_t>(current_device_)];
    if (!own) {
        const CUresult made =
            invoke(worker_.driver.cuStreamCreateWithPriority, &own, unsigned{CU_STREAM_NON_BLOCKING}, 0);
        if (made != CUDA_SUCCESS) return made;
    }
    stream = own;
    return CUDA_SUCCESS;
}

CUresult Lane::look(const wire::MemoryLook& look, std::span<const std::byte> given) {
    const Driver& driver = worker_.driver;
    const NewsKept kept(driver);
    CUstream stream = nullptr;
    if (const CUresult made = own_stream(stream)) return made;
    const auto address = static_cast<CUdeviceptr>(look.address);
    const size_t bytes = look.bytes;
    if (outgoing_.empty()) outgoing_.resize(wire::kChunk);
    void* to = outgoing_.data();
    const void* from = given.data();
    const CUresult begun = look.give ? invoke(driver.cuMemcpyHtoDAsync_v2, address, from, bytes, stream)
                                     : invoke(driver.cuMemcpyDtoHAsync_v2, to, address, bytes, stream);
    return begun == CUDA_SUCCESS ? invoke(driver.cuStreamSynchronize, stream) : begun;
}

bool Lane::look_into_memory(const wire::FrameHeader& header, wire::Reader& payload) {
    wire::MemoryLook wanted;
    if (!payload.take(wanted) || wanted.bytes == 0 || wanted.bytes > wire::kChunk || wanted.give > 1 ||
        payload.rest().size() != (wanted.give ? wanted.bytes : 0)) {
        return malformed(header, "a look into memory");
    }
    if (const auto poisoned = static_cast<CUresult>(worker_.poisoned.load())) return send_reply(poisoned, {});
    if (!worker_.memory.accessible(wanted.address, wanted.bytes))
        return send_reply(CUDA_ERROR_INVALID_VALUE, {});
    const CUresult result = look(wanted, payload.rest());
    worker_.note(result, "a look into memory");
    const bool shows = result == CUDA_SUCCESS && !wanted.give;
    return send_reply(result, std::span(outgoing_).first(shows ? wanted.bytes : 0));
}

}  // namespace worker
