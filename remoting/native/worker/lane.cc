#include "lane.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "box_copy.h"
#include "sticky.h"

namespace worker {
namespace {

using Clock = std::chrono::steady_clock;

constexpr long kIdleMicroseconds = 1'000'000;

class Stopwatch {
  public:
    explicit Stopwatch(std::atomic<uint64_t>& microseconds)
        : microseconds_(microseconds), start_(Clock::now()) {}
    ~Stopwatch() {
        const auto time = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start_);
        microseconds_.fetch_add(static_cast<uint64_t>(time.count()), std::memory_order_relaxed);
    }

  private:
    std::atomic<uint64_t>& microseconds_;
    Clock::time_point start_;
};

}  // namespace

Lane::Lane(Worker& worker, Session& session, std::unique_ptr<wire::Transport> transport)
    : worker_(worker), session_(session), transport_(std::move(transport)) {}

bool Lane::welcome() {
    wire::Writer words;
    int version = 0;
    invoke(worker_.driver.cuDriverGetVersion, &version);
    words.put(wire::Welcome{wire::kProtocolVersion, wire::kCallsDigest, static_cast<uint32_t>(version),
                            static_cast<uint32_t>(worker_.devices.size())});
    for (const Device& device : worker_.devices) words.put(device.snapshot);
    return send_reply(CUDA_SUCCESS, words.bytes());
}

void Lane::refuse(std::string_view text) {
    send_reply(CUDA_ERROR_DEVICE_UNAVAILABLE, std::as_bytes(std::span(text)));
}

void Lane::run() {
    if (!arrived_) return;
    for (;;) {
        const auto room = arrived_.room();
        iovec part{room.data(), room.size()};
        receiving_ = true;
        const size_t got = transport_->receive(&part, 1, 1);
        receiving_ = false;
        if (got == 0) break;
        arrived_.grow(got);
        size_t done = 0;
        if (!consume(arrived_.content(), done)) break;
        arrived_.drop(done);
        watch_for_idleness();
    }
    static LimitedLog log;
    if (!arrived_.content().empty() && !session_.ended())
        log.line("session " + session_.name() + ": a lane ended inside a frame");
}

// Only lanes that have something to give back wake for it, and only once.
void Lane::watch_for_idleness() {
    constexpr size_t kSmall = 32 * 1024;
    if (watches_ || arrived_.resident() + outgoing_.capacity() + reply_.kept() <= kSmall) return;
    watches_ = true;
    transport_->tell(this, kIdleMicroseconds);
}

void Lane::goes_on() {
    if (!receiving_) return;
    arrived_.release();
    outgoing_ = std::vector<std::byte>();  // `{}` would keep the room
    reply_.release();
    watches_ = false;
    transport_->tell(nullptr, 0);
}

bool Lane::consume(std::span<const std::byte> bytes, size_t& done) {
    done = 0;
    while (bytes.size() - done >= sizeof(wire::FrameHeader)) {
        wire::FrameHeader header;
        std::memcpy(&header, bytes.data() + done, sizeof header);
        if (header.length > wire::kMaxPayload) return malformed(header, "it is too long");
        if (bytes.size() - done - sizeof header < header.length) break;
        if (!run_frame(header, bytes.subspan(done + sizeof header, header.length))) return false;
        done += sizeof header + header.length;
    }
    return true;
}

bool Lane::malformed(const wire::FrameHeader& header, const char* why) {
    static LimitedLog log;
    log.line("session " + session_.name() + ": a frame with opcode " + std::to_string(header.opcode) +
             " and " + std::to_string(header.length) + " bytes cannot be accepted: " + why +
             "; the session ends");
    session_.end();
    return false;
}

void Lane::use_device(uint8_t device) {
    if (current_device_ == device) return;
    invoke(worker_.driver.cuCtxSetCurrent, worker_.devices[device].context);
    current_device_ = device;
}

bool Lane::has_room(const Handler& handler, const wire::Reader& payload) {
    if (handler.keeps == Keeps::nothing) return true;
    if (worker_.ending_frees.too_many()) {
        session_.refuse(
            "thousands of streams or threads have ended before the memory that was freed in them could be: "
            "CUDA_ERROR_OUT_OF_MEMORY until their work is done. Synchronize before you destroy streams");
        return false;
    }
    HostMemory& memory = worker_.host_memory;
    const auto level =
        handler.keeps == Keeps::much ? memory.level_now() : memory.level(payload.rest().size());
    if (level != HostMemory::Level::tight) return level == HostMemory::Level::free;
    return handler.keeps == Keeps::briefly || !worker_.has_most(session_);
}

bool Lane::in_turn(uint64_t after) {
    return session_.order.wait_for(after, [this] { return session_.ended() || transport_->hung_up(); });
}

const std::array<Lane::Own, 8> Lane::kOwn{{
    {wire::kOpCopyOut, &Lane::copy_out},
    {wire::kOpCopyBoxOut, &Lane::copy_out},
    {wire::kOpNextCopyBack, &Lane::next_copy_back},
    {wire::kOpNextHostCall, &Lane::next_host_call},
    {wire::kOpMemoryLook, &Lane::look_into_memory},
    {wire::kOpGraphLook, &Lane::look_into_graph},
    {wire::kOpTakeNotices, &Lane::give_notices},
    {wire::kOpInterrupt, &Lane::interrupt},
}};

const Lane::Own* Lane::find_own(uint16_t opcode) {
    const auto own =
        std::find_if(kOwn.begin(), kOwn.end(), [opcode](const Own& each) { return each.opcode == opcode; });
    return own == kOwn.end() ? nullptr : &*own;
}

bool Lane::sees_to(uint16_t opcode) {
    return find_own(opcode) != nullptr;
}

bool Lane::run_frame(const wire::FrameHeader& header, std::span<const std::byte> payload) {
    if (session_.ended()) return false;
    if (header.device >= worker_.devices.size()) return malformed(header, "the device does not exist");
    use_device(header.device);
    wire::Reader reader(payload);
    if (const Own* own = find_own(header.opcode)) return (this->*own->run)(header, reader);
    const Handler* handler = find_handler(header.opcode);
    if (!handler) return malformed(header, "no call has this opcode");
    return handler->how == How::post ? post(header, *handler, reader) : ask(header, *handler, reader);
}

bool Lane::post(const wire::FrameHeader& header, const Handler& handler, wire::Reader& payload) {
    if (header.order == 0 || session_.order.executed() >= header.order) {
        return malformed(header, "its number has been used");
    }
    if (!in_turn(header.order - 1)) return false;
    CUresult result = static_cast<CUresult>(worker_.poisoned.load(std::memory_order_relaxed));
    if (result == CUDA_SUCCESS && !has_room(handler, payload)) result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS) {
        const SharedStreams::Turn turn(worker_.shared_streams, session_, header.device);
        Context context(worker_, session_, header.device);
        reply_.clear();
        result = handler.run(context, header.flags, payload, reply_);
        if (context.used_default()) session_.own_work.used_default(header.device);
        if (context.used_own()) session_.own_work.used_own(header.device);
    }
    if (result == kMalformed) return malformed(header, handler.name);
    if (result != CUDA_SUCCESS) {
        worker_.note(result, handler.name);
        session_.hold(result, handler.name);
    }
    session_.order.executed(header.order);
    return true;
}

bool Lane::ask(const wire::FrameHeader& header, const Handler& handler, wire::Reader& payload) {
    if (!in_turn(header.order)) return false;
    if (const auto poisoned = static_cast<CUresult>(worker_.poisoned.load())) return send_reply(poisoned, {});
    CUresult held = handler.how == How::fetch ? CUDA_SUCCESS : session_.take_held();
    if (held != CUDA_SUCCESS && handler.how == How::ask) return send_reply(held, {});
    if (!has_room(handler, payload)) return send_reply(CUDA_ERROR_OUT_OF_MEMORY, {});
    Context context(worker_, session_, header.device);
    reply_.clear();
    CUresult result;
    {
        const Stopwatch stopwatch(worker_.status.busy_microseconds);
        result = handler.run(context, header.flags, payload, reply_);
    }
    if (result == kMalformed) return malformed(header, handler.name);
    // An asynchronous copy may have failed meanwhile, and this was the wait for it.
    if (handler.how == How::sync && held == CUDA_SUCCESS) held = session_.take_held();
    if (handler.how == How::sync || handler.how == How::fetch) worker_.output.drain(worker_, session_);
    worker_.note(result, handler.name);
    if (result == CUDA_SUCCESS && held != CUDA_SUCCESS) return send_reply(held, {});
    if (held != CUDA_SUCCESS) session_.hold(held, "an earlier call");  // for the next call to tell
    // Only loads and links say more than the status when they fail: the compiler's log.
    const bool has_log = header.opcode == wire::kOpLoadLibrary || header.opcode == wire::kOpLink;
    return send_reply(result,
                      result == CUDA_SUCCESS || has_log ? reply_.bytes() : std::span<const std::byte>{});
}

// In no order with other calls: what is posted may wait for the very function that is done with this. It
// neither takes a held error, which is for the program's own calls, nor minds that the context is lost.
bool Lane::next_host_call(const wire::FrameHeader& header, wire::Reader& payload) {
    uint64_t done;
    if (!payload.take(done) || !payload.finished()) return malformed(header, "the next host call");
    wire::HostCallReply reply{};
    switch (session_.host_calls->next(done, reply)) {
        case HostCalls::Next::malformed:
            return malformed(header, "the next host call");
        case HostCalls::Next::gone:
            return false;
        case HostCalls::Next::there:
            return send_reply(CUDA_SUCCESS, std::as_bytes(std::span(&reply, 1)));
    }
    return false;
}

bool Lane::look_into_graph(const wire::FrameHeader& header, wire::Reader& payload) {
    Context context(worker_, session_, header.device);
    reply_.clear();
    const CUresult result = handle_graph_look(context, 0, payload, reply_);
    if (result == kMalformed) return malformed(header, "a look into a graph");
    return send_reply(result, result == CUDA_SUCCESS ? reply_.bytes() : std::span<const std::byte>{});
}

bool Lane::send_box(const CopyPlace& place, CUstream stream, CUresult& result) {
    Context context(worker_, session_, static_cast<uint8_t>(current_device_));
    if (outgoing_.empty()) outgoing_.resize(wire::kChunk);
    return wire::cut(place.box, wire::kChunk, [&](const wire::Piece& piece) {
        const CopyPlace part = part_of(place, piece);
        {
            const Stopwatch stopwatch(worker_.status.busy_microseconds);
            result = copy_piece_out(context, outgoing_.data(), part, stream);
            if (result == CUDA_SUCCESS) result = invoke(worker_.driver.cuStreamSynchronize, stream);
        }
        worker_.output.drain(worker_, session_);
        return result == CUDA_SUCCESS &&
               send_reply(CUDA_SUCCESS, std::span(outgoing_).first(wire::volume(part.box)));
    });
}

bool Lane::copy_out(const wire::FrameHeader& header, wire::Reader& payload) {
    wire::BoxHead head{};
    if (header.opcode == wire::kOpCopyOut) {
        wire::CopyHead range{};
        payload.take(range);
        head = {wire::flat(range.address, range.bytes), range.stream};
    } else {
        payload.take(head);
    }
    if (!payload.finished() || !wire::well_formed(head.box)) return malformed(header, "cuMemcpyDtoH");
    if (!in_turn(header.order)) return false;
    if (const auto poisoned = static_cast<CUresult>(worker_.poisoned.load())) return send_reply(poisoned, {});
    if (const CUresult held = session_.take_held()) return send_reply(held, {});
    Context context(worker_, session_, header.device);
    CUstream stream;
    if (!context.stream(head.stream, stream)) return send_reply(CUDA_ERROR_INVALID_HANDLE, {});
    CopyPlace from;
    if (CUresult error = find_place(context, head.box, from)) return send_reply(error, {});
    CUresult result = CUDA_SUCCESS;
    const bool sent = send_box(from, stream, result);
    if (result == CUDA_SUCCESS) return sent;
    worker_.note(result, "cuMemcpyDtoH");
    return send_reply(result, {});
}

// Not in its turn, and also when the context is lost: it says why.
bool Lane::give_notices(const wire::FrameHeader& header, wire::Reader& payload) {
    if (!payload.finished()) return malformed(header, "notices");
    reply_.clear();
    session_.notices.take(reply_);
    return send_reply(CUDA_SUCCESS, reply_.bytes());
}

// Not in its turn: the call in whose turn it would be may be the one that never ends.
bool Lane::interrupt(const wire::FrameHeader& header, wire::Reader& payload) {
    wire::InterruptMessage message{};
    if (!payload.take(message) || !payload.finished()) return malformed(header, "an interrupt");
    if (session_.software.interrupt()) return send_reply(CUDA_SUCCESS, {});
    if (!message.end_worker) return send_reply(CUDA_ERROR_NOT_SUPPORTED, {});
    send_reply(CUDA_SUCCESS, {});
    worker_.end("session " + session_.name() + " has interrupted a kernel, which cannot be stopped alone");
}

bool Lane::send_reply(CUresult status, std::span<const std::byte> payload) {
    wire::ReplyHeader header{static_cast<uint32_t>(payload.size()), static_cast<int32_t>(status)};
    if (session_.notices.waiting()) header.length |= wire::kNoticesWait;
    if (wire::is_sticky(status) && worker_.poisoned.load() == CUDA_SUCCESS)
        header.length |= wire::kContextGoesOn;
    iovec parts[2] = {{&header, sizeof header}, {const_cast<std::byte*>(payload.data()), payload.size()}};
    return transport_->send(parts, 2);
}

}  // namespace worker
