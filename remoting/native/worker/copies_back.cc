#include "copies_back.h"

#include "box_copy.h"
#include "lane.h"

namespace worker {

bool CopiesBack::add(uint64_t ticket, const Copy& copy) {
    const std::lock_guard lock(mutex_);
    return copies_.size() < wire::kMostCopiesBack && copies_.emplace(ticket, copy).second;
}

std::optional<CopiesBack::Copy> CopiesBack::take(uint64_t ticket) {
    const std::lock_guard lock(mutex_);
    const auto found = copies_.find(ticket);
    if (found == copies_.end()) return std::nullopt;
    const Copy copy = found->second;
    copies_.erase(found);
    return copy;
}

// The memory is checked here alone: what the program frees in the stream's order is still there when the
// stream comes to the copy.
CUresult handle_copy_back(Context& context, uint8_t, wire::Reader& payload, wire::Writer&) {
    wire::CopyBack message{};
    if (!payload.take(message) || !payload.finished() || message.ticket == 0 ||
        !wire::well_formed(message.from.box)) {
        return kMalformed;
    }
    const wire::Box& from = message.from.box;
    CopiesBack& copies = context.session().copies_back;
    CopyPlace place;
    CUresult result = find_place(context, from, place);
    if (!copies.add(message.ticket, {place, context.device()})) return kMalformed;
    CUstream stream;
    if (result == CUDA_SUCCESS && !context.stream(message.from.stream, stream))
        result = CUDA_ERROR_INVALID_HANDLE;
    if (result == CUDA_SUCCESS) {
        // Unlike a function it is called also where the context has failed, so that the receiver hears of it.
        void* expected = copies.streams->expect(message.ticket);
        result = invoke(context.driver().cuStreamAddCallback, stream, &HostCalls::callback, expected, 0u);
        if (result != CUDA_SUCCESS) HostCalls::unexpect(expected);
    }
    return result == CUDA_SUCCESS || copies.streams->refuse(message.ticket) ? result : kMalformed;
}

// In no order with other calls, as the next function of the client (Lane::next_host_call): what is posted may
// wait for the very copy that is done with this.
bool Lane::next_copy_back(const wire::FrameHeader& header, wire::Reader& payload) {
    uint64_t done;
    if (!payload.take(done) || !payload.finished()) return malformed(header, "the next copy");
    wire::HostCallReply next{};
    switch (session_.copies_back.streams->next(done, next)) {
        case HostCalls::Next::malformed:
            return malformed(header, "the next copy");
        case HostCalls::Next::gone:
            return false;
        case HostCalls::Next::there:
            break;
    }
    const auto copy = session_.copies_back.take(next.ticket);
    auto status = static_cast<CUresult>(next.status);
    if (status == CUDA_SUCCESS && (!copy || next.what == wire::HostCallNotice::drop))
        status = CUDA_ERROR_INVALID_VALUE;
    if (status == CUDA_SUCCESS) status = static_cast<CUresult>(worker_.poisoned.load());
    CUstream stream = nullptr;
    if (status == CUDA_SUCCESS) {
        use_device(copy->device);
        status = own_stream(stream);
    }
    const wire::CopyBackReply reply{next.ticket, static_cast<int32_t>(status), 0};
    if (!send_reply(CUDA_SUCCESS, std::as_bytes(std::span(&reply, 1)))) return false;
    if (status != CUDA_SUCCESS) return true;
    const NewsKept kept(worker_.driver);
    CUresult result = CUDA_SUCCESS;
    if (send_box(copy->from, stream, result)) return true;
    if (result == CUDA_SUCCESS) return false;
    worker_.note(result, "cuMemcpyDtoHAsync");
    session_.hold(result, "cuMemcpyDtoHAsync");
    return send_reply(result, {});
}

}  // namespace worker
