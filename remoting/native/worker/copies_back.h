// Asynchronous copies to the client's memory. A stream that comes to one is parked, as at a function of the
// client's (host_calls.h); the lane on which the client's receiver asks copies it and sends it, piece by
// piece, and the stream goes on when the receiver has said that it has all. So the worker holds one piece of
// a session, however large the copies are, and what comes after a copy in its stream comes after it in the
// program's memory.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "copy_place.h"
#include "host_calls.h"

namespace worker {

class CopiesBack {
  public:
    struct Copy {
        CopyPlace from;  // its array is kept
        uint8_t device;
    };

    explicit CopiesBack(std::function<bool()> abandoned)
        : streams(std::make_shared<HostCalls>(std::move(abandoned))) {}

    // False for a ticket that is under way, or more of them than a client of ours has.
    bool add(uint64_t ticket, const Copy& copy);
    // Once; nothing for what is not there.
    std::optional<Copy> take(uint64_t ticket);

    const std::shared_ptr<HostCalls> streams;  // that are parked at a copy, by its ticket

  private:
    std::mutex mutex_;
    std::map<uint64_t, Copy> copies_;
};

}  // namespace worker
