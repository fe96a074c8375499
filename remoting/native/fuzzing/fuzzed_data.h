// What a fuzzer's input says, as numbers and choices: as LLVM's FuzzedDataProvider does, in the little that
// is used here, so that fuzzers build with a compiler that does not bring that header along.
//
// Numbers are read from the end of the input, so that what stands at its beginning keeps its place when
// libFuzzer changes a number. Past the end every answer is the smallest: no input is too short.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

namespace fuzzing {

class FuzzedData {
  public:
    explicit FuzzedData(std::span<const uint8_t> bytes) : bytes_(bytes) {}

    size_t remaining_bytes() const { return bytes_.size(); }

    // Between `least` and `most`, both among them. Takes as many bytes as that range needs.
    template <typename Number>
    Number in_range(std::type_identity_t<Number> least, std::type_identity_t<Number> most) {
        static_assert(std::is_integral_v<Number> && sizeof(Number) <= sizeof(uint64_t));
        const uint64_t range = static_cast<uint64_t>(most) - static_cast<uint64_t>(least);
        uint64_t value = 0;
        for (size_t taken = 0; taken < sizeof(Number) && range >> (8 * taken) != 0 && !bytes_.empty();
             ++taken) {
            value = value << 8 | bytes_.back();
            bytes_ = bytes_.first(bytes_.size() - 1);
        }
        if (range != std::numeric_limits<uint64_t>::max()) value %= range + 1;
        return static_cast<Number>(static_cast<uint64_t>(least) + value);
    }

    template <typename Number>
    Number any() {
        return in_range<Number>(std::numeric_limits<Number>::min(), std::numeric_limits<Number>::max());
    }

    bool coin() { return any<uint8_t>() & 1; }

    template <typename Value, size_t kCount>
    const Value& one_of(const Value (&values)[kCount]) {
        return values[in_range<size_t>(0, kCount - 1)];
    }

  private:
    std::span<const uint8_t> bytes_;
};

}  // namespace fuzzing
