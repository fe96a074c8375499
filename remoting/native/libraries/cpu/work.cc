#include "work.h"

namespace maths {
namespace {

// Each device has its own.
Budget& budget_of(unsigned device) {
    static auto* const all = new Budget[kGkMostDevices];  // never destroyed: calls may run at exit
    return all[device % kGkMostDevices];
}

std::string mib(uint64_t bytes) {
    constexpr uint64_t kMib = 1 << 20;
    return std::to_string(bytes / kMib + (bytes % kMib != 0)) + " MiB";
}

}  // namespace

void Work::reserve(uint64_t bytes) {
    room_ = {};  // nothing is held while it waits
    const auto stops = [this] { return stopped(); };
    switch (budget_of(slice_.device).reserve(bytes, source_, stops, room_)) {
        case Budget::Answer::reserved:
            return;
        case Budget::Answer::stopped:
            throw Stopped{};
        case Budget::Answer::too_large:
            fail(CUDA_ERROR_OUT_OF_MEMORY, "it takes " + mib(bytes) +
                                               " to work in, beside its operands, and the device has " +
                                               mib(slice_.memory) + " in all");
        case Budget::Answer::none_left:
            fail(CUDA_ERROR_OUT_OF_MEMORY, "it takes " + mib(bytes) +
                                               " to work in, beside its operands, and of the device's " +
                                               mib(slice_.memory) + " so much is not free");
    }
}

}  // namespace maths
