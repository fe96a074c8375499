// Values that a session really has (its handles, its memory), that are nearly those, or that lie at the ends
// of the ranges: drawn from a fuzzer's bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "box.h"
#include "fuzzing/fuzzed_data.h"
#include "payload.h"
#include "protocol.h"

namespace hostile {

class Values {
  public:
    // `memory`: an address of the lease, of at least a page.
    Values(fuzzing::FuzzedData& data, uint64_t memory) : data_(data), known_{memory} {}

    // What an answer begins with is often an address: a reservation's, an allocation's, a variable's.
    void heard(uint64_t value);

  protected:
    static constexpr size_t kKnown = 8;
    static constexpr uint64_t kGranule = 2 << 20;

    uint64_t value();
    uint64_t handle();
    uint64_t handle(wire::HandleKind kind);
    uint64_t address();
    uint32_t count();
    wire::Box box();
    void words(wire::Writer& to, int most);

    fuzzing::FuzzedData& data_;
    std::vector<uint64_t> known_;  // addresses
};

inline void Values::heard(uint64_t value) {
    if (known_.size() == kKnown) known_.erase(known_.begin() + 1);
    known_.push_back(value);
}

inline uint64_t Values::handle() {
    static constexpr wire::HandleKind kKinds[] = {
        wire::HandleKind::stream,         wire::HandleKind::event,    wire::HandleKind::library,
        wire::HandleKind::kernel,         wire::HandleKind::exec,     wire::HandleKind::context,
        wire::HandleKind::pool,           wire::HandleKind::physical, wire::HandleKind::array,
        wire::HandleKind::mipmapped_array};
    return wire::make_handle(data_.one_of(kKinds), 1, data_.in_range<uint32_t>(0, 3));
}

// Nearly always of this kind.
inline uint64_t Values::handle(wire::HandleKind kind) {
    if (data_.in_range<int>(0, 15) == 0) return value();
    return wire::make_handle(kind, 1, data_.in_range<uint32_t>(0, 3));
}

inline uint64_t Values::address() {
    return known_[data_.in_range<size_t>(0, known_.size() - 1)] + data_.in_range<uint64_t>(0, 8) * 512;
}

inline uint64_t Values::value() {
    switch (data_.in_range<int>(0, 5)) {
        case 0:
            return handle();
        case 1:
            return address();
        case 2:
            return data_.in_range<uint64_t>(0, 16);
        case 3:
            return data_.coin() ? kGranule : data_.in_range<uint64_t>(0, 4096);
        case 4:
            return ~data_.in_range<uint64_t>(0, 4096);
        default:
            return uint64_t{1} << data_.in_range<int>(0, 63);
    }
}

inline uint32_t Values::count() {
    return data_.in_range<int>(0, 7) == 0 ? static_cast<uint32_t>(value()) : data_.in_range<uint32_t>(0, 8);
}

inline wire::Box Values::box() {
    if (data_.coin()) return wire::flat(address(), data_.in_range<uint64_t>(0, 2048));
    const auto side = [&] { return data_.in_range<int>(0, 7) ? count() : value(); };
    if (data_.in_range<int>(0, 3) == 0) {
        const uint64_t offset = data_.coin() ? count() * 4 : value();
        return {offset, side() * 8, side(), side() * 4, side(), side(), handle(wire::HandleKind::array)};
    }
    return {data_.coin() ? address() : value(), side() * 8, side(), side(), side(), side()};
}

inline void Values::words(wire::Writer& to, int most) {
    for (int i = data_.in_range<int>(0, most); i > 0; --i) {
        switch (data_.in_range<int>(0, 7)) {
            case 0:
                to.put(data_.any<uint8_t>());
                break;
            case 1:
                to.put(data_.any<uint16_t>());
                break;
            case 2:
            case 3:
                to.put(count());
                break;
            default:
                to.put(value());
        }
    }
}

}  // namespace hostile
