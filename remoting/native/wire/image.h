// What a program hands to cuLibraryLoadData and its kin: a pointer without a size. The image says how long it
// is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace wire {

// The length of the image at the start of `available`: PTX text with its NUL, an ELF file, or a fatbin.
// Nothing when it is none of them, does not fit, or is larger than kMaxImage. Reads nothing outside
// `available`.
std::optional<uint64_t> image_bytes(std::span<const std::byte> available);

// An image that is nothing but a pointer to another one: not to be taken from another process.
bool is_fatbin_wrapper(const void* image);

// What a fatbin wrapper at `image` points to; `image` itself when it is not a wrapper.
const void* unwrap_fatbin(const void* image);

}  // namespace wire
