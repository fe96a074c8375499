// What of a lane has arrived and is not done. It has addresses for the largest frame from its start, and
// memory only for what has come: an idle lane gives that back.
#pragma once

#include <cstddef>
#include <span>

#include "protocol.h"

namespace worker {

class LaneBuffer {
  public:
    // The largest frame lies in one piece, and small ones that come together are received together.
    static constexpr size_t kBytes =
        (sizeof(wire::FrameHeader) + wire::kMaxPayload + 128 * 1024) / 4096 * 4096;

    LaneBuffer();
    ~LaneBuffer();
    LaneBuffer(const LaneBuffer&) = delete;
    LaneBuffer& operator=(const LaneBuffer&) = delete;

    // False when the system has no room for it.
    explicit operator bool() const { return data_ != nullptr; }

    std::span<const std::byte> content() const { return {data_, used_}; }
    std::span<std::byte> room() const { return {data_ + used_, kBytes - used_}; }
    // `bytes` have been written into the room.
    void grow(size_t bytes);
    // The first `bytes` are done.
    void drop(size_t bytes);

    // How much memory it may have now, and gives back what holds nothing.
    size_t resident() const { return touched_; }
    void release();

  private:
    std::byte* data_;
    size_t used_ = 0;
    size_t touched_ = 0;
};

}  // namespace worker
