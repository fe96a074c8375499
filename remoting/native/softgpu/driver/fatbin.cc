#include "fatbin.h"

#include <cstring>

#include "log.h"
#include "lz4.h"

namespace softgpu::driver {
namespace {

constexpr uint32_t kFatbin = 0xBA55ED50;
constexpr uint32_t kWrapper = 0x466243B1;
constexpr uint32_t kArch = 75;
constexpr uint64_t kFlagLz4 = 0x2000, kFlagZstd = 0x8000;
constexpr uint16_t kPtx = 1;

struct Wrapper {
    uint32_t magic, version;
    const void* fatbin;
};

struct Header {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes;  // of the entries after the header
};

// Fields of an entry, by offset; see docs/design/softgpu.md.
struct Entry {
    uint16_t kind;
    uint32_t header_bytes, compressed_bytes, arch;
    uint64_t stored_bytes, flags, plain_bytes;
};
constexpr size_t kEntryHeader = 64;

template <class T>
T at(const std::byte* from, size_t offset) {
    T value;
    std::memcpy(&value, from + offset, sizeof value);
    return value;
}

Entry read_entry(const std::byte* from) {
    return {.kind = at<uint16_t>(from, 0),
            .header_bytes = at<uint32_t>(from, 4),
            .compressed_bytes = at<uint32_t>(from, 16),
            .arch = at<uint32_t>(from, 28),
            .stored_bytes = at<uint64_t>(from, 8),
            .flags = at<uint64_t>(from, 40),
            .plain_bytes = at<uint64_t>(from, 56)};
}

struct Refusal {
    CUresult code;
    std::string why;
};

[[noreturn]] void refuse_with(CUresult code, const std::string& why) {
    throw Refusal{code, why};
}

std::string text_of(const Entry& entry, const std::byte* payload) {
    const char* text = reinterpret_cast<const char*>(payload);
    if (entry.flags & kFlagZstd) {
        refuse_with(CUDA_ERROR_NO_BINARY_FOR_GPU,
                    "its PTX is compressed with zstd, which the software GPU does not read. Build with nvcc "
                    "--no-compress, or --compress-mode=none");
    }
    if (!(entry.flags & kFlagLz4)) return {text, strnlen(text, entry.stored_bytes)};
    if (entry.plain_bytes > Limits::text_bytes || entry.compressed_bytes > entry.stored_bytes) {
        refuse_with(CUDA_ERROR_INVALID_IMAGE, "its sizes do not fit together");
    }
    std::string plain(entry.plain_bytes, '\0');
    if (!unpack_lz4({payload, entry.compressed_bytes}, plain)) {
        refuse_with(CUDA_ERROR_INVALID_IMAGE, "its compressed PTX is damaged");
    }
    plain.resize(strnlen(plain.data(), plain.size()));
    return plain;
}

NamedText best_ptx(const void* image, std::optional<size_t> bytes) {
    const auto* start = static_cast<const std::byte*>(image);
    if (at<uint32_t>(start, 0) == kWrapper) {
        if (bytes) refuse_with(CUDA_ERROR_INVALID_IMAGE, "a wrapper with a pointer cannot come by value");
        Wrapper wrapper;
        std::memcpy(&wrapper, image, sizeof wrapper);
        require(wrapper.fatbin != nullptr, CUDA_ERROR_INVALID_IMAGE);
        start = static_cast<const std::byte*>(wrapper.fatbin);
    }
    if (bytes && *bytes < sizeof(Header)) refuse_with(CUDA_ERROR_INVALID_IMAGE, "it is cut short");
    const Header header = {at<uint32_t>(start, 0), at<uint16_t>(start, 4), at<uint16_t>(start, 6),
                           at<uint64_t>(start, 8)};
    if (header.magic != kFatbin || header.header_bytes < sizeof(Header) ||
        (bytes && (header.bytes > *bytes || header.header_bytes > *bytes - header.bytes))) {
        refuse_with(CUDA_ERROR_INVALID_IMAGE, "its header is damaged");
    }
    std::optional<Entry> best;
    const std::byte* payload = nullptr;
    const std::byte* entries = start + header.header_bytes;
    for (uint64_t offset = 0; header.bytes - offset >= kEntryHeader;) {
        const Entry entry = read_entry(entries + offset);
        const uint64_t room = header.bytes - offset;
        if (entry.header_bytes < kEntryHeader || entry.header_bytes > room ||
            entry.stored_bytes > room - entry.header_bytes) {
            refuse_with(CUDA_ERROR_INVALID_IMAGE, "an entry is larger than the whole");
        }
        if (entry.kind == kPtx && entry.arch <= kArch && (!best || entry.arch > best->arch)) {
            best = entry;
            payload = entries + offset + entry.header_bytes;
        }
        offset += entry.header_bytes + entry.stored_bytes;
    }
    if (!best) {
        refuse_with(CUDA_ERROR_NO_BINARY_FOR_GPU,
                    "it has no PTX for compute capability 7.5 or older, and the software GPU runs PTX only. "
                    "Build with nvcc -gencode arch=compute_75,code=compute_75");
    }
    return {"fatbin", text_of(*best, payload)};
}

}  // namespace

bool is_fatbin(uint32_t magic) {
    return magic == kFatbin || magic == kWrapper;
}

std::vector<NamedText> read_fatbin(const void* image, std::optional<size_t> bytes) try {
    return {best_ptx(image, bytes)};
} catch (const Refusal& refusal) {
    log_line("refused a fatbin: " + refusal.why);
    refuse(refusal.code);
}

std::optional<NamedText> find_ptx(const void* image, size_t bytes) noexcept try {
    return best_ptx(image, bytes);
} catch (...) {
    return std::nullopt;
}

}  // namespace softgpu::driver
