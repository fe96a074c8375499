#include "image.h"

#include <elf.h>

#include <algorithm>
#include <cstring>

#include "fatbin.h"
#include "protocol.h"

namespace wire {
namespace {

constexpr uint32_t kWrapperMagic = 0x466243B1;

struct FatbinHeader {
    uint32_t magic;
    uint16_t version;
    uint16_t header_bytes;
    uint64_t body_bytes;
};

struct FatbinWrapper {
    uint32_t magic;
    uint32_t version;
    const void* fatbin;
    const void* more;
};

// Both limits keep the sums below from overflowing.
bool inside(uint64_t offset, uint64_t bytes, uint64_t limit) {
    return offset <= limit && bytes <= limit - offset;
}

template <typename T>
bool read(std::span<const std::byte> from, uint64_t offset, T& value) {
    if (!inside(offset, sizeof value, from.size())) return false;
    std::memcpy(&value, from.data() + offset, sizeof value);
    return true;
}

std::optional<uint64_t> elf_bytes(std::span<const std::byte> image) {
    Elf64_Ehdr header;
    if (!read(image, 0, header) || header.e_ident[EI_CLASS] != ELFCLASS64) return std::nullopt;
    uint64_t end = sizeof header;
    auto include = [&](uint64_t offset, uint64_t bytes) {
        if (!inside(offset, bytes, std::min<uint64_t>(kMaxImage, image.size()))) return false;
        end = std::max(end, offset + bytes);
        return true;
    };
    if (!include(header.e_shoff, uint64_t{header.e_shnum} * header.e_shentsize) ||
        !include(header.e_phoff, uint64_t{header.e_phnum} * header.e_phentsize)) {
        return std::nullopt;
    }
    if (header.e_shnum > 0 && header.e_shentsize < sizeof(Elf64_Shdr)) return std::nullopt;
    for (uint32_t i = 0; i < header.e_shnum; ++i) {
        Elf64_Shdr section;
        if (!read(image, header.e_shoff + uint64_t{i} * header.e_shentsize, section)) return std::nullopt;
        if (section.sh_type != SHT_NOBITS && !include(section.sh_offset, section.sh_size))
            return std::nullopt;
    }
    return end;
}

std::optional<uint64_t> fatbin_bytes(std::span<const std::byte> image) {
    FatbinHeader header;
    if (!read(image, 0, header)) return std::nullopt;
    const uint64_t limit = std::min<uint64_t>(kMaxImage, image.size());
    // A header that says that it is shorter than it is would cut the image off inside itself.
    if (header.header_bytes < sizeof header || !inside(header.header_bytes, header.body_bytes, limit)) {
        return std::nullopt;
    }
    return header.header_bytes + header.body_bytes;
}

// PTX is text; what starts with a byte that no text has is an image of a kind that we do not know, or a
// wrapper: a driver follows its pointer.
std::optional<uint64_t> text_bytes(std::span<const std::byte> image) {
    const auto* text = reinterpret_cast<const char*>(image.data());
    const auto first = static_cast<unsigned char>(*text);
    if (first >= 0x7f || (first < ' ' && first != '\n' && first != '\t' && first != '\r'))
        return std::nullopt;
    const size_t limit = std::min<size_t>(kMaxImage, image.size());
    const size_t length = strnlen(text, limit);
    if (length == limit) return std::nullopt;
    return length + 1;
}

}  // namespace

std::optional<uint64_t> image_bytes(std::span<const std::byte> available) {
    if (available.empty()) return std::nullopt;
    // The first byte is looked at alone: a text may be shorter than a magic number.
    const auto first = static_cast<unsigned char>(available[0]);
    uint32_t magic;
    if (first == ELFMAG[0]) {
        if (!read(available, 0, magic) || std::memcmp(&magic, ELFMAG, SELFMAG) != 0) return std::nullopt;
        return elf_bytes(available);
    }
    if (first == (kFatbinMagic & 0xff) && read(available, 0, magic) && magic == kFatbinMagic) {
        return fatbin_bytes(available);
    }
    return text_bytes(available);
}

bool is_fatbin_wrapper(const void* image) {
    const auto first = *static_cast<const unsigned char*>(image);
    return first == (kWrapperMagic & 0xff) && std::memcmp(image, &kWrapperMagic, sizeof kWrapperMagic) == 0;
}

const void* unwrap_fatbin(const void* image) {
    if (!is_fatbin_wrapper(image)) return image;
    FatbinWrapper wrapper;
    std::memcpy(&wrapper, image, sizeof wrapper);
    return wrapper.fatbin;
}

}  // namespace wire
