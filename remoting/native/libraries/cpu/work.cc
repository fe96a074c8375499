#include "work.h"

#include <stdexcept>

namespace maths {
namespace {

std::string mib(uint64_t bytes) {
    constexpr uint64_t kMib = 1 << 20;
    return std::to_string(bytes / kMib + (bytes % kMib != 0)) + " MiB";
}

}  // namespace

void Work::reserve(uint64_t bytes) {
    if (has_room_) throw std::logic_error("a call reserves once");
    reserve_again(bytes);
}

void Work::reserve_again(uint64_t bytes) {
    switch (slice_.reserve(slice_.user, bytes)) {
        case kGkRoomIsThere:
            has_room_ = true;
            return;
        case kGkRoomLater:
            throw PutBack{};
        case kGkRoomStopped:
            throw Stopped{};
        case kGkRoomTooLarge:
            fail(CUDA_ERROR_OUT_OF_MEMORY, "it takes " + mib(bytes) +
                                               " to work in, beside its operands, and the device has " +
                                               mib(slice_.memory) + " in all");
        default:
            fail(CUDA_ERROR_OUT_OF_MEMORY, "it takes " + mib(bytes) +
                                               " to work in, beside its operands, and of the device's " +
                                               mib(slice_.memory) + " so much is not free");
    }
}

}  // namespace maths
