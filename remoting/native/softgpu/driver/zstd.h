// zstd, which nvcc compresses PTX with since CUDA 13: the system's libzstd.so.1, opened when it is first
// needed.
#pragma once

#include <cstddef>
#include <span>

namespace softgpu::driver {

enum class Zstd { unpacked, damaged, absent };

// Unpacks one frame. `unpacked` only when it filled `into` exactly; `absent` when this machine has no
// libzstd.so.1.
Zstd unpack_zstd(std::span<const std::byte> packed, std::span<char> into) noexcept;

}  // namespace softgpu::driver
