// The entries of a fatbin: the same code for several architectures, as machine code and as PTX, often
// compressed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace wire {

inline constexpr uint32_t kFatbinMagic = 0xBA55ED50;

struct FatbinEntry {
    enum class Packing : uint8_t { none, lz4, zstd };
    static constexpr uint16_t kPtx = 1, kElf = 2;

    uint16_t kind;
    uint32_t arch;  // 75: compute capability 7.5
    // 'a' or 'f' behind the architecture (sm_90a, sm_100f): for it alone, or for its family alone. Else 0.
    char only;
    Packing packing;
    uint64_t plain_bytes;                // when it is packed: of what it unpacks to
    std::span<const std::byte> content;  // packed or not; empty when its sizes contradict each other
};

bool is_fatbin(std::span<const std::byte> image);

// Visits the entries of the fatbin `image`; false when its header or an entry is damaged, which ends the
// visit. Reads nothing outside `image`.
bool each_entry(std::span<const std::byte> image, const std::function<void(const FatbinEntry&)>& visit);

}  // namespace wire
