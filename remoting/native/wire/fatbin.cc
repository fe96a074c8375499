#include "fatbin.h"

#include <cstring>

namespace wire {
namespace {

// As they were seen in what nvcc makes of compute_90, compute_90a and compute_100f.
constexpr uint64_t kFlagLz4 = 0x2000, kFlagZstd = 0x8000, kFlagOnlyArch = 0x100000,
                   kFlagOnlyFamily = 0x200000;
constexpr size_t kHeader = 16, kEntryHeader = 64;

template <class T>
T at(std::span<const std::byte> from, size_t offset) {
    T value;
    std::memcpy(&value, from.data() + offset, sizeof value);
    return value;
}

// `from` has at least kEntryHeader bytes; `stored`: those that follow the entry's header.
FatbinEntry entry_at(std::span<const std::byte> from, std::span<const std::byte> stored) {
    const auto flags = at<uint64_t>(from, 40);
    FatbinEntry entry{.kind = at<uint16_t>(from, 0),
                      .arch = at<uint32_t>(from, 28),
                      .only = flags & kFlagOnlyArch     ? 'a'
                              : flags & kFlagOnlyFamily ? 'f'
                                                        : '\0',
                      .packing = flags & kFlagZstd  ? FatbinEntry::Packing::zstd
                                 : flags & kFlagLz4 ? FatbinEntry::Packing::lz4
                                                    : FatbinEntry::Packing::none,
                      .plain_bytes = at<uint64_t>(from, 56),
                      .content = stored};
    if (entry.packing == FatbinEntry::Packing::none) return entry;
    const auto packed_bytes = at<uint32_t>(from, 16);
    entry.content = stored.first(packed_bytes <= stored.size() ? packed_bytes : 0);
    return entry;
}

}  // namespace

bool is_fatbin(std::span<const std::byte> image) {
    return image.size() >= sizeof kFatbinMagic && at<uint32_t>(image, 0) == kFatbinMagic;
}

bool each_entry(std::span<const std::byte> image, const std::function<void(const FatbinEntry&)>& visit) {
    if (image.size() < kHeader || !is_fatbin(image)) return false;
    const auto header_bytes = at<uint16_t>(image, 6);
    const auto body_bytes = at<uint64_t>(image, 8);
    if (header_bytes < kHeader || body_bytes > image.size() || header_bytes > image.size() - body_bytes)
        return false;
    for (auto rest = image.subspan(header_bytes, body_bytes); rest.size() >= kEntryHeader;) {
        const auto entry_header = at<uint32_t>(rest, 4);
        const auto stored = at<uint64_t>(rest, 8);
        if (entry_header < kEntryHeader || entry_header > rest.size() || stored > rest.size() - entry_header)
            return false;
        visit(entry_at(rest, rest.subspan(entry_header, stored)));
        rest = rest.subspan(entry_header + stored);
    }
    return true;
}

}  // namespace wire
