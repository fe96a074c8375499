// zstd, which nvcc compresses PTX with since CUDA 13.
#pragma once

#include <cstddef>
#include <span>

namespace zstd {

// Unpacks one frame. True only when it filled `into` exactly.
bool unpack(std::span<const std::byte> packed, std::span<char> into) noexcept;

}  // namespace zstd
