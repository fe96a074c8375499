#include "call.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "calls_wire.h"
#include "context.h"
#include "graph_replay.h"
#include "lane.h"
#include "memory_map.h"
#include "notices.h"
#include "pool.h"
#include "session.h"
#include "shared_memory.h"
#include "stream_event.h"
#include "thread.h"
#include "traffic.h"

namespace client {
namespace {

// The rows of a box in this process's memory, in the order of its bytes.
template <typename Visit>
void for_each_row(const wire::Box& box, Visit visit) {
    for (uint64_t z = 0; z < box.depth; ++z) {
        for (uint64_t y = 0; y < box.height; ++y) {
            visit(reinterpret_cast<std::byte*>(box.address + (z * box.rows + y) * box.pitch));
        }
    }
}

std::unique_ptr<std::byte[]> room_for_piece(const wire::Box& box) {
    const uint64_t bytes = std::min<uint64_t>(wire::volume(box), wire::kChunk);
    return std::make_unique_for_overwrite<std::byte[]>(bytes);
}

}  // namespace

CUresult Call::connect_lane() {
    Session& session = Session::get();
    if (CUresult error = session.error()) return error;
    if (Thread::current().in_callback) return CUDA_ERROR_NOT_PERMITTED;
    lane_ = Thread::current().lane;
    if (!lane_) lane_ = session.lane();
    if (lane_) return CUDA_SUCCESS;
    const CUresult error = session.error();  // the life may have ended meanwhile
    return error ? error : CUDA_ERROR_DEVICE_UNAVAILABLE;
}

CUresult Call::begin() {
    if (CUresult error = connect_lane()) return error;
    Context* context = nullptr;
    if (CUresult error = find_current(context)) return error;
    device_ = context->device;
    return CUDA_SUCCESS;
}

CUresult Call::begin_for(CUstream handle) {
    const auto value = reinterpret_cast<uint64_t>(handle);
    if (value <= kPerThreadStreamHandle) return begin();
    if (CUresult error = connect_lane()) return error;
    const Stream* stream = streams().find(value);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    device_ = stream->device;
    return CUDA_SUCCESS;
}

CUresult Call::begin_on(uint8_t device) {
    if (CUresult error = connect_lane()) return error;
    device_ = device;
    return CUDA_SUCCESS;
}

CUresult Call::begin_without_context() {
    if (CUresult error = connect_lane()) return error;
    const Context* context = current_context();
    device_ = context ? context->device : 0;
    return CUDA_SUCCESS;
}

CUresult Call::begin_anew() {
    if (CUresult error = Session::get().go_on()) return error;
    return begin_without_context();
}

bool Call::stream(CUstream handle, bool per_thread, uint64_t& wire) const {
    wire = reinterpret_cast<uint64_t>(handle);
    if (wire == 0 && per_thread) wire = kPerThreadStreamHandle;
    return wire <= kPerThreadStreamHandle || streams().find(wire) != nullptr;
}

bool Call::event(CUevent handle, uint64_t& wire) const {
    wire = reinterpret_cast<uint64_t>(handle);
    return events().find(wire) != nullptr;
}

bool Call::pool(CUmemoryPool handle, uint64_t& wire) const {
    return pool_of(handle, wire) != nullptr;
}

CUresult Call::uses_memory() {
    return SharedMemory::get().any() ? SharedMemory::get().to_device(*this) : CUDA_SUCCESS;
}

Call::~Call() {
    if (uses_shared_) SharedMemory::get().end_use();
}

CUresult Call::results_visible(bool of_all) {
    SharedMemory& shared = SharedMemory::get();
    CUresult result = CUDA_SUCCESS;
    if (shared.any() && of_all) result = shared.to_host(*this);
    if (shared.any() && !of_all) result = shared.show(*this);
    if (!GraphOutputs::get().any()) return result;
    const CUresult delivered = GraphOutputs::get().deliver(*this);
    return result == CUDA_SUCCESS ? delivered : result;
}

CUresult Call::wait_for_stream(uint64_t stream) {
    const wire::cuStreamSynchronize_message message{stream};
    return synchronize(wire::kOp_cuStreamSynchronize, 0, &message, sizeof message, nullptr, 0);
}

CUresult Call::fill_visible(uint64_t address, bool per_thread) {
    const auto memory = MemoryMap::get().find(address);
    if (memory && memory->in_place) {
        if (CUresult error = wait_for_stream(per_thread ? kPerThreadStreamHandle : 0)) return error;
    }
    return results_visible();
}

wire::FrameHeader Call::header(uint16_t opcode, uint8_t flags, size_t bytes, uint64_t order) const {
    return {static_cast<uint32_t>(bytes), opcode, Session::get().number_in_lease(device_), flags, order};
}

CUresult Call::lost() {
    Session::get().lose("the other end has closed it");
    return Session::get().error();
}

CUresult Call::answered(int32_t status) {
    // Of this reply: the one that brings the notices has its own.
    const bool context_goes_on = lane_->context_goes_on;
    if (!Notices::get().tell(*lane_)) return lost();
    const auto result = static_cast<CUresult>(status);
    if (result != CUDA_SUCCESS) Session::get().note(result, context_goes_on);
    return result;
}

CUresult Call::post(uint16_t opcode, uint8_t flags, const void* message, size_t bytes) {
    const iovec part{const_cast<void*>(message), bytes};
    return post_parts(opcode, flags, &part, 1);
}

CUresult Call::post_parts(uint16_t opcode, uint8_t flags, const iovec* parts, int count) {
    Session& session = Session::get();
    size_t bytes = 0;
    for (int i = 0; i < count; ++i) bytes += parts[i].iov_len;
    wire::FrameHeader head = header(opcode, flags, bytes, session.next_order());
    iovec all[7] = {{&head, sizeof head}};
    std::copy(parts, parts + count, all + 1);
    if (!lane_->post(all, count + 1, sizeof head + bytes)) return lost();
    if (lane_->has_unsent() && !session.flusher().schedule(session, *lane_)) return lost();
    return CUDA_SUCCESS;
}

CUresult Call::ask_parts(uint16_t opcode, uint8_t flags, const iovec* parts, int count,
                         std::span<const std::byte>& payload) {
    size_t bytes = 0;
    for (int i = 0; i < count; ++i) bytes += parts[i].iov_len;
    wire::FrameHeader head = header(opcode, flags, bytes, Session::get().posted());
    iovec all[7] = {{&head, sizeof head}};
    std::copy(parts, parts + count, all + 1);
    wire::ReplyHeader reply{};
    Traffic::get().waits();
    if (!lane_->send_now(all, count + 1) || !lane_->receive(reply, payload)) return lost();
    return answered(reply.status);
}

CUresult Call::ask(uint16_t opcode, uint8_t flags, const void* message, size_t bytes, void* out,
                   size_t out_bytes) {
    const iovec part{const_cast<void*>(message), bytes};
    std::span<const std::byte> payload;
    if (CUresult error = ask_parts(opcode, flags, &part, 1, payload)) return error;
    if (payload.size() != out_bytes) return lost();
    if (out_bytes > 0) std::memcpy(out, payload.data(), out_bytes);
    return CUDA_SUCCESS;
}

CUresult Call::synchronize(uint16_t opcode, uint8_t flags, const void* message, size_t bytes, void* out,
                           size_t out_bytes) {
    Session& session = Session::get();
    const bool of_all = opcode == wire::kOp_cuCtxSynchronize;
    const uint64_t posted = session.posted();
    lane_->long_wait().is_for_work(true, device_);
    CUresult result = ask(opcode, flags, message, bytes, out, out_bytes);
    lane_->long_wait().is_for_work(false, device_);
    if (result == CUDA_SUCCESS && of_all) session.streams_known().waited_for_device(device_, posted);
    // Work that was refused or lost is told, and what else was waited for is there.
    const bool has_waited = result != CUDA_ERROR_NOT_READY && session.error() == CUDA_SUCCESS;
    const CUresult seen = has_waited ? results_visible(of_all) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS) result = seen;
    // What was to be seen may not have come: the life has ended meanwhile.
    const bool ends = result == CUDA_SUCCESS && Session::get().error() == CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return ends ? CUDA_ERROR_CONTEXT_IS_DESTROYED : result;
}

CUresult Call::copy_in(uint64_t address, const void* from, uint64_t bytes, uint64_t stream, bool whole) {
    const auto* source = static_cast<const std::byte*>(from);
    while (bytes > 0) {
        const uint64_t chunk = std::min<uint64_t>(bytes, wire::kChunk);
        wire::CopyHead head{address, chunk, stream};
        Traffic::get().copied(chunk);
        const iovec parts[2] = {{&head, sizeof head}, {const_cast<std::byte*>(source), chunk}};
        if (CUresult error = post_parts(wire::kOpCopyIn, whole ? wire::kWholeCopy : 0, parts, 2))
            return error;
        address += chunk;
        source += chunk;
        bytes -= chunk;
    }
    return CUDA_SUCCESS;
}

CUresult Call::copy_out(void* to, uint64_t address, uint64_t bytes, uint64_t stream) {
    const wire::CopyHead message{address, bytes, stream};
    wire::FrameHeader head = header(wire::kOpCopyOut, 0, sizeof message, Session::get().posted());
    const iovec parts[2] = {{&head, sizeof head}, {const_cast<wire::CopyHead*>(&message), sizeof message}};
    Traffic::get().waits();
    if (!lane_->send_now(parts, 2)) return lost();
    return receive_box_of_work(wire::flat(reinterpret_cast<uint64_t>(to), bytes));
}

CUresult Call::receive_box_of_work(const wire::Box& to) {
    lane_->long_wait().is_for_work(true, device_);
    const CUresult result = receive_box(to);
    lane_->long_wait().is_for_work(false, device_);
    return result;
}

// What is flat comes where it belongs, the rest by way of a piece without gaps.
CUresult Call::receive_box(const wire::Box& to) {
    const auto packed = wire::is_flat(to) ? nullptr : room_for_piece(to);
    bool whole = true;
    wire::ReplyHeader reply{};
    wire::cut(to, wire::kChunk, [&](const wire::Piece& piece) {
        const wire::Box here = wire::part_of(to, piece);
        auto* const first = packed ? packed.get() : reinterpret_cast<std::byte*>(here.address);
        whole = lane_->receive_into(reply, first, wire::volume(here));
        if (!whole || reply.status != CUDA_SUCCESS) return false;
        Traffic::get().copied(wire::volume(here));
        const std::byte* next = first;
        if (packed)
            for_each_row(here, [&](std::byte* row) {
                std::memcpy(row, next, here.width);
                next += here.width;
            });
        return true;
    });
    return whole ? answered(reply.status) : lost();
}

bool Call::next_copy_back(uint64_t done, wire::CopyBackReply& next) {
    wire::FrameHeader head = header(wire::kOpNextCopyBack, 0, sizeof done, 0);
    const iovec parts[2] = {{&head, sizeof head}, {&done, sizeof done}};
    wire::ReplyHeader reply{};
    const bool answered = lane_->send_now(parts, 2) && lane_->receive_one_into(reply, &next, sizeof next);
    if (answered && reply.status == CUDA_SUCCESS) return true;
    lost();
    return false;
}

// The worker copies one chunk while others travel. Their answers come in their order.
CUresult Call::look_in_chunks(uint64_t address, std::byte* host, uint64_t bytes, bool give) {
    constexpr uint64_t kUnderWay = 4;
    const uint64_t chunks = (bytes + wire::kChunk - 1) / wire::kChunk;
    const auto size = [&](uint64_t chunk) {
        return static_cast<uint32_t>(std::min<uint64_t>(bytes - chunk * wire::kChunk, wire::kChunk));
    };
    const auto ask = [&](uint64_t chunk) {
        wire::MemoryLook message{address + chunk * wire::kChunk, size(chunk), give};
        const size_t payload = give ? size(chunk) : 0;
        wire::FrameHeader head =
            header(wire::kOpMemoryLook, 0, sizeof message + payload, Session::get().posted());
        const iovec parts[3] = {
            {&head, sizeof head}, {&message, sizeof message}, {host + chunk * wire::kChunk, payload}};
        return lane_->send_now(parts, give ? 3 : 2);
    };
    wire::ReplyHeader failed{};
    bool context_goes_on = false;
    Traffic::get().waits();
    for (uint64_t asked = 0, done = 0; done < asked || (asked < chunks && failed.status == 0); ++done) {
        for (; asked < chunks && asked < done + kUnderWay && failed.status == 0; ++asked) {
            if (!ask(asked)) return lost();
        }
        wire::ReplyHeader reply{};
        const size_t payload = give ? 0 : size(done);
        if (!lane_->receive_one_into(reply, host + done * wire::kChunk, payload)) return lost();
        if (reply.status == CUDA_SUCCESS) Traffic::get().copied(size(done));
        if (reply.status == CUDA_SUCCESS || failed.status != CUDA_SUCCESS) continue;
        failed = reply;
        context_goes_on = lane_->context_goes_on;
    }
    if (failed.status != CUDA_SUCCESS) lane_->context_goes_on = context_goes_on;
    return answered(failed.status);
}

CUresult Call::look(uint64_t address, std::byte* to, uint64_t bytes) {
    return look_in_chunks(address, to, bytes, false);
}

CUresult Call::give(uint64_t address, const std::byte* from, uint64_t bytes) {
    return look_in_chunks(address, const_cast<std::byte*>(from), bytes, true);
}

bool Call::nothing_before() const {
    return lane_->quiet;
}

CUresult Call::copy_box_in(const wire::Box& to, const wire::Box& from, uint64_t stream, bool whole) {
    if (wire::is_flat(to) && wire::is_flat(from)) {
        return copy_in(to.address, reinterpret_cast<const void*>(from.address), to.width, stream, whole);
    }
    const auto packed = room_for_piece(to);
    CUresult result = CUDA_SUCCESS;
    wire::cut(to, wire::kChunk, [&](const wire::Piece& piece) {
        const wire::Box there = wire::part_of(to, piece), here = wire::part_of(from, piece);
        std::byte* next = packed.get();
        for_each_row(here, [&](std::byte* row) {
            std::memcpy(next, row, here.width);
            next += here.width;
        });
        wire::BoxHead head{there, stream};
        Traffic::get().copied(wire::volume(here));
        const iovec parts[2] = {{&head, sizeof head}, {packed.get(), wire::volume(here)}};
        result = post_parts(wire::kOpCopyBoxIn, whole ? wire::kWholeCopy : 0, parts, 2);
        return result == CUDA_SUCCESS;
    });
    return result;
}

CUresult Call::copy_box_out(const wire::Box& to, const wire::Box& from, uint64_t stream) {
    if (wire::is_flat(to) && wire::is_flat(from)) {
        return copy_out(reinterpret_cast<void*>(to.address), from.address, to.width, stream);
    }
    wire::BoxHead message{from, stream};
    wire::FrameHeader head = header(wire::kOpCopyBoxOut, 0, sizeof message, Session::get().posted());
    const iovec parts[2] = {{&head, sizeof head}, {&message, sizeof message}};
    Traffic::get().waits();
    return lane_->send_now(parts, 2) ? receive_box_of_work(to) : lost();
}

}  // namespace client
