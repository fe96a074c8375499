// How much of a GPU's memory the variables of an image will take: known before a driver is asked to load it,
// because a driver does not say, and may take the memory only when a kernel is first launched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace worker {

// Bytes of the variables that `image` (PTX text, a cubin or a fatbin) defines and that are not in the image
// itself: all of a text's, and of a cubin those without first values. A fatbin counts as that one of its
// entries which has most; the software GPU loads no machine code, so for it only the texts count. Nothing is
// returned for what cannot be read for certain, or would have to be unpacked to more than an image may have:
// no real driver may load it. Reads nothing outside `image`.
std::optional<uint64_t> variable_bytes(std::span<const std::byte> image, bool software);

}  // namespace worker
