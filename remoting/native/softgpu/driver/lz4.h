// One block of LZ4, as fatbins hold it.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace softgpu::driver {

// Fills `plain`, whose size is the exact plain size. False when the block is damaged or of another size.
bool unpack_lz4(std::span<const std::byte> packed, std::string& plain);

}  // namespace softgpu::driver
