#include "call.h"

#include <algorithm>
#include <cstring>

#include "context.h"
#include "graph.h"
#include "lane.h"
#include "session.h"
#include "shared_memory.h"
#include "stream_event.h"
#include "thread.h"

namespace client {

CUresult Call::connect_lane() {
    Session& session = Session::get();
    if (CUresult error = session.error()) return error;
    lane_ = Thread::current().lane;
    if (!lane_) lane_ = session.lane();
    return lane_ ? CUDA_SUCCESS : CUDA_ERROR_DEVICE_UNAVAILABLE;
}

CUresult Call::begin() {
    if (CUresult error = connect_lane()) return error;
    const Context* context = current_context();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    device_ = context->device;
    return CUDA_SUCCESS;
}

CUresult Call::begin_without_context() {
    if (CUresult error = connect_lane()) return error;
    const Context* context = current_context();
    device_ = context ? context->device : 0;
    return CUDA_SUCCESS;
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
    const int device = device_of_pool(handle);
    wire = static_cast<uint64_t>(device);
    return device >= 0;
}

bool Call::graph(CUgraph handle, uint64_t& wire) const {
    wire = reinterpret_cast<uint64_t>(handle);
    return graphs().find(wire) != nullptr;
}

bool Call::exec(CUgraphExec handle, uint64_t& wire) const {
    wire = reinterpret_cast<uint64_t>(handle);
    return execs().find(wire) != nullptr;
}

void Call::uses_memory() {
    if (SharedMemory::get().any()) SharedMemory::get().to_device(*this);
}

void Call::results_visible() {
    if (SharedMemory::get().any()) SharedMemory::get().to_host(*this);
}

wire::FrameHeader Call::header(uint16_t opcode, uint8_t flags, size_t bytes, uint64_t order) const {
    return {static_cast<uint32_t>(bytes), opcode, device_, flags, order};
}

CUresult Call::lost() {
    Session::get().lose("the other end has closed it");
    return Session::get().error();
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
    if (!lane_->send_now(all, count + 1) || !lane_->receive(reply, payload)) return lost();
    const auto status = static_cast<CUresult>(reply.status);
    if (status != CUDA_SUCCESS) Session::get().note(status);
    return status;
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
    const CUresult result = ask(opcode, flags, message, bytes, out, out_bytes);
    if (result == CUDA_SUCCESS) results_visible();
    return result;
}

CUresult Call::copy_in(uint64_t address, const void* from, uint64_t bytes, uint64_t stream, bool whole) {
    const auto* source = static_cast<const std::byte*>(from);
    while (bytes > 0) {
        const uint64_t chunk = std::min<uint64_t>(bytes, wire::kChunk);
        wire::CopyHead head{address, chunk, stream};
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
    if (!lane_->send_now(parts, 2)) return lost();
    auto* target = static_cast<std::byte*>(to);
    while (bytes > 0) {
        const uint64_t chunk = std::min<uint64_t>(bytes, wire::kChunk);
        wire::ReplyHeader reply{};
        if (!lane_->receive_into(reply, target, chunk)) return lost();
        if (const auto status = static_cast<CUresult>(reply.status)) {
            Session::get().note(status);
            return status;
        }
        target += chunk;
        bytes -= chunk;
    }
    return CUDA_SUCCESS;
}

}  // namespace client
