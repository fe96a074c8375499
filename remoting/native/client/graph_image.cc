#include "graph_image.h"

#include <algorithm>
#include <cstring>

#include "call.h"

namespace client {
namespace {

constexpr uint64_t kAlign = 64;

CUresult fetch(Call& call, uint64_t graph, uint16_t opcode, std::byte* to, uint64_t offset, uint64_t bytes,
               bool wait) {
    for (uint64_t done = 0; done < bytes;) {
        const auto chunk = static_cast<uint32_t>(std::min<uint64_t>(bytes - done, wire::kChunk));
        wire::GraphOutput wanted{graph, offset + done, chunk, wait};
        static_assert(sizeof wanted == sizeof(wire::GraphLook));  // whose `give` is not set
        const iovec part{&wanted, sizeof wanted};
        std::span<const std::byte> payload;
        if (CUresult error = call.ask_parts(opcode, 0, &part, 1, payload)) return error;
        uint32_t has_ended = 0;
        if (payload.size() < sizeof has_ended) return CUDA_ERROR_UNKNOWN;
        std::memcpy(&has_ended, payload.data(), sizeof has_ended);
        if (!has_ended) return CUDA_ERROR_NOT_READY;
        if (payload.size() == sizeof has_ended) return CUDA_ERROR_NOT_FOUND;
        if (payload.size() != sizeof has_ended + chunk) return CUDA_ERROR_UNKNOWN;
        std::memcpy(to + done, payload.data() + sizeof has_ended, chunk);
        done += chunk;
    }
    return CUDA_SUCCESS;
}

void send(Call& call, uint64_t graph, const std::byte* from, uint64_t offset, uint64_t bytes) {
    for (uint64_t done = 0; done < bytes;) {
        const auto chunk = static_cast<uint32_t>(std::min<uint64_t>(bytes - done, wire::kChunk));
        wire::GraphLook look{graph, offset + done, chunk, 1};
        const iovec parts[2] = {{&look, sizeof look}, {const_cast<std::byte*>(from) + done, chunk}};
        std::span<const std::byte> nothing;
        if (call.ask_parts(wire::kOpGraphLook, 0, parts, 2, nothing) != CUDA_SUCCESS) return;
        done += chunk;
    }
}

}  // namespace

CUresult bring(Call& call, uint64_t graph, uint16_t opcode, const wire::Box& to, uint64_t offset, bool wait) {
    auto* start = reinterpret_cast<std::byte*>(to.address);
    if (wire::is_flat(to)) return fetch(call, graph, opcode, start, offset, to.width, wait);
    std::vector<std::byte> rows(wire::span(to));
    if (CUresult error = fetch(call, graph, opcode, rows.data(), offset, rows.size(), wait)) return error;
    for (uint64_t z = 0; z < to.depth; ++z) {
        for (uint64_t y = 0; y < to.height; ++y) {
            const uint64_t at = (z * to.rows + y) * to.pitch;
            std::memcpy(start + at, rows.data() + at, to.width);
        }
    }
    return CUDA_SUCCESS;
}

void give(Call& call, uint64_t graph, const wire::Box& from, uint64_t offset) {
    const auto* start = reinterpret_cast<const std::byte*>(from.address);
    if (wire::is_flat(from)) return send(call, graph, start, offset, from.width);
    for (uint64_t z = 0; z < from.depth; ++z) {
        for (uint64_t y = 0; y < from.height; ++y) {
            const uint64_t at = (z * from.rows + y) * from.pitch;
            send(call, graph, start + at, offset + at, from.width);
        }
    }
}

ImageLayout::ImageLayout(std::vector<wire::Box> ends) {
    std::sort(ends.begin(), ends.end(), [](const auto& a, const auto& b) { return a.address < b.address; });
    for (const wire::Box& end : ends) {
        const uint64_t stop = end.address + wire::span(end);
        if (!ranges_.empty() && end.address < ranges_.back().start + ranges_.back().bytes) {
            HostRange& last = ranges_.back();
            last.bytes = std::max(last.bytes, stop - last.start);
        } else {
            ranges_.push_back({end.address, stop - end.address, 0});
        }
    }
    for (HostRange& range : ranges_) {
        range.offset = bytes_;
        bytes_ += (range.bytes + kAlign - 1) / kAlign * kAlign;
    }
}

uint64_t ImageLayout::offset_of(uint64_t address) const {
    auto after = std::upper_bound(ranges_.begin(), ranges_.end(), address,
                                  [](uint64_t value, const HostRange& range) { return value < range.start; });
    const HostRange& range = *std::prev(after);
    return range.offset + (address - range.start);
}

}  // namespace client
