#include "fatbin.h"

#include <cstring>

#include "image_texts.h"
#include "lz4.h"
#include "session.h"
#include "wire/fatbin.h"
#include "zstd/unpack.h"

namespace softgpu::driver {
namespace {

using wire::FatbinEntry;

constexpr uint32_t kWrapper = 0x466243B1;
constexpr uint32_t kArch = 75;

struct Wrapper {
    uint32_t magic, version;
    const void* fatbin;
    const void* const*
        linked_from;  // since version 2: the images that this one was linked from, ended by a null
};

struct Header {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes;  // of the entries after the header
};

[[noreturn]] void refuse_with(CUresult code, const std::string& why) {
    throw RefusedImage(code, "refused a fatbin: " + why);
}

std::string text_of(const FatbinEntry& entry) {
    const char* text = reinterpret_cast<const char*>(entry.content.data());
    if (entry.packing == FatbinEntry::Packing::none) return {text, strnlen(text, entry.content.size())};
    if (entry.plain_bytes > Limits::text_bytes || entry.content.empty()) {
        refuse_with(CUDA_ERROR_INVALID_IMAGE, "its sizes do not fit together");
    }
    std::string plain(entry.plain_bytes, '\0');
    const bool whole = entry.packing == FatbinEntry::Packing::zstd ? zstd::unpack(entry.content, plain)
                                                                   : unpack_lz4(entry.content, plain);
    if (!whole) refuse_with(CUDA_ERROR_INVALID_IMAGE, "its compressed PTX is damaged");
    plain.resize(strnlen(plain.data(), plain.size()));
    plain.shrink_to_fit();  // what follows the end of the text is not kept
    return plain;
}

// The fatbin at `image`, or at what a wrapper there points to, as long as it says that it is.
std::span<const std::byte> whole_fatbin(const void* image, std::optional<size_t> bytes) {
    Header header;
    std::memcpy(&header.magic, image, sizeof header.magic);
    if (header.magic == kWrapper) {
        if (bytes) refuse_with(CUDA_ERROR_INVALID_IMAGE, "a wrapper with a pointer cannot come by value");
        Wrapper wrapper;
        std::memcpy(&wrapper, image, sizeof wrapper);
        require(wrapper.fatbin != nullptr, CUDA_ERROR_INVALID_IMAGE);
        image = wrapper.fatbin;
    }
    if (bytes && *bytes < sizeof header) refuse_with(CUDA_ERROR_INVALID_IMAGE, "it is cut short");
    std::memcpy(&header, image, sizeof header);
    if (header.magic != wire::kFatbinMagic || header.header_bytes < sizeof header ||
        header.bytes > SIZE_MAX - header.header_bytes ||
        (bytes && (header.bytes > *bytes || header.header_bytes > *bytes - header.bytes))) {
        refuse_with(CUDA_ERROR_INVALID_IMAGE, "its header is damaged");
    }
    return {static_cast<const std::byte*>(image), header.header_bytes + header.bytes};
}

// Is `entry` better than `best`? What suits us comes before what is newer; of the first the newest, of the
// second the oldest.
bool is_better(const FatbinEntry& entry, const FatbinEntry& best) {
    if ((entry.arch <= kArch) != (best.arch <= kArch)) return entry.arch <= kArch;
    return entry.arch <= kArch ? entry.arch > best.arch : entry.arch < best.arch;
}

NamedText best_ptx(const void* image, std::optional<size_t> bytes) {
    std::optional<FatbinEntry> best;
    std::string only;  // "sm_90a": what was passed over last
    const bool whole = wire::each_entry(whole_fatbin(image, bytes), [&](const FatbinEntry& entry) {
        if (entry.kind != FatbinEntry::kPtx) return;
        if (entry.only)
            only = "sm_" + std::to_string(entry.arch) + entry.only;
        else if (!best || is_better(entry, *best))
            best = entry;
    });
    if (!whole) refuse_with(CUDA_ERROR_INVALID_IMAGE, "an entry is larger than the whole");
    if (!best) {
        const std::string what = only.empty() ? "it has no PTX, and the software GPU runs PTX only"
                                              : "its only PTX is for " + only + ", which no other GPU runs";
        refuse_with(CUDA_ERROR_NO_BINARY_FOR_GPU, what + std::string(cuda::kBuildWithPtx));
    }
    return {"fatbin", text_of(*best)};
}

}  // namespace

bool is_fatbin(uint32_t magic) {
    return magic == wire::kFatbinMagic || magic == kWrapper;
}

std::vector<NamedText> read_fatbin(const void* image, std::optional<size_t> bytes) {
    std::vector<NamedText> texts;
    texts.push_back(best_ptx(image, bytes));
    return texts;
}

std::optional<NamedText> find_ptx(const void* image, size_t bytes) noexcept try {
    return best_ptx(image, bytes);
} catch (...) {
    return std::nullopt;
}

}  // namespace softgpu::driver
