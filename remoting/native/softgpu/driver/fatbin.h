// Fatbins: what nvcc embeds. Holds the same code for several architectures, as machine code and as PTX, the
// latter often compressed.
#pragma once

#include <optional>
#include <vector>

#include "image.h"

namespace softgpu::driver {

bool is_fatbin(uint32_t magic);  // a fatbin or the wrapper that points to one

// The best PTX in it: of the newest architecture that is not above ours, else of the oldest above, which asks for
// least that is not here. Throws RefusedImage when there is none.
std::vector<NamedText> read_fatbin(const void* image, std::optional<size_t> bytes);

// The same for bytes that may be a fatbin by accident: nothing where read_fatbin throws.
std::optional<NamedText> find_ptx(const void* image, size_t bytes) noexcept;

}  // namespace softgpu::driver
