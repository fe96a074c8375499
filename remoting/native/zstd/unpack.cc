#include "zstd/unpack.h"

#include <zstd.h>

namespace zstd {

bool unpack(std::span<const std::byte> packed, std::span<char> into) noexcept {
    const size_t written = ZSTD_decompress(into.data(), into.size(), packed.data(), packed.size());
    return ZSTD_isError(written) == 0 && written == into.size();
}

}  // namespace zstd
