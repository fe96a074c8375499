#include "load_cost.h"

#include <elf.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "fatbin.h"
#include "protocol.h"
#include "softgpu/driver/lz4.h"
#include "text_cost.h"
#include "zstd/unpack.h"

namespace worker {
namespace {

constexpr uint64_t kFixed = 8ull << 20;  // of any load: tables, and what the allocator rounds up

constexpr uint64_t kUnreadable = 384;  // a byte of what we cannot unpack

// What a character stands for at most, to NVIDIA's compiler: a statement, an operand more, a block or a
// label.
constexpr uint64_t kStatement = 12 * 1024, kOperand = 256, kBlock = 1024, kByte = 16, kFunction = 64 * 1024;

uint64_t occurrences(std::string_view text, std::string_view word) {
    uint64_t count = 0;
    for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + word.size())) ++count;
    return count;
}

uint64_t text_cost_on_nvidia(std::string_view text) {
    std::array<uint64_t, 256> seen{};
    for (const char c : text) ++seen[static_cast<unsigned char>(c)];
    return seen[';'] * kStatement + seen[','] * kOperand + (seen['{'] + seen[':']) * kBlock +
           text.size() * kByte + (occurrences(text, ".entry") + occurrences(text, ".func")) * kFunction;
}

bool is_elf(std::span<const std::byte> image) {
    return image.size() >= SELFMAG && std::memcmp(image.data(), ELFMAG, SELFMAG) == 0;
}

std::string_view text_of(std::span<const std::byte> image) {
    const auto* text = reinterpret_cast<const char*>(image.data());
    return {text, strnlen(text, image.size())};
}

// Machine code is copied, relocated and copied to the GPU.
uint64_t plain_cost(std::span<const std::byte> image, bool software) {
    constexpr uint64_t kCopies = 4;
    if (is_elf(image)) return kFixed + kCopies * image.size();
    const std::string_view text = text_of(image);
    return kFixed + (software ? text_cost_on_software(text) : text_cost_on_nvidia(text));
}

bool is_too_much(const wire::FatbinEntry& entry) {
    return entry.packing != wire::FatbinEntry::Packing::none && entry.plain_bytes > wire::kMaxImage;
}

uint64_t entry_cost(const wire::FatbinEntry& entry, bool software) {
    using wire::FatbinEntry;
    if (entry.packing == FatbinEntry::Packing::none) return plain_cost(entry.content, software);
    if (is_too_much(entry)) return UINT64_MAX;
    std::string plain(entry.plain_bytes, '\0');
    const bool whole = entry.packing == FatbinEntry::Packing::zstd
                           ? zstd::unpack(entry.content, plain)
                           : softgpu::driver::unpack_lz4(entry.content, plain);
    // What we cannot unpack, a driver may: as if it were text, and dear.
    if (!whole) return kFixed + wire::times(entry.plain_bytes, kUnreadable);
    const uint64_t unpacking = 2 * entry.plain_bytes;  // and a copy of as much as is text
    return std::max(unpacking, plain_cost(std::as_bytes(std::span(plain)), software));
}

}  // namespace

bool unpacks_to_too_much(std::span<const std::byte> image) {
    bool any = false;
    if (!wire::is_fatbin(image)) return any;
    wire::each_entry(image, [&](const wire::FatbinEntry& entry) { any = any || is_too_much(entry); });
    return any;
}

uint64_t unpacking_cost(std::span<const std::byte> image) {
    uint64_t most = 0;
    if (!wire::is_fatbin(image)) return most;
    wire::each_entry(image, [&](const wire::FatbinEntry& entry) {
        if (entry.packing != wire::FatbinEntry::Packing::none) most = std::max(most, entry.plain_bytes);
    });
    return most;
}

uint64_t load_cost(std::span<const std::byte> image, bool software) {
    if (image.empty()) return kFixed;
    if (!wire::is_fatbin(image)) return plain_cost(image, software);
    uint64_t most = kFixed;
    wire::each_entry(
        image, [&](const wire::FatbinEntry& entry) { most = std::max(most, entry_cost(entry, software)); });
    return most;
}

}  // namespace worker
