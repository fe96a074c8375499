// What a client may name by number before a driver, with the type of each value. A driver knows more than we
// do: an option that a later release adds may be a pointer, and none of a client's values may become one
// here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "cuda_abi.h"

namespace worker {

// Bytes of the value of a launch attribute that launches and kernel nodes may have. Those with handles,
// addresses or a driver's pointers are none of them; our client sends no other.
std::optional<size_t> launch_attribute_bytes(uint32_t id);

// Whether a function's attribute may be set; all of them are ints.
bool function_attribute_allowed(uint32_t attribute);

// Whether access may be given so: none, to read, to read and write.
bool access_allowed(uint32_t flags);

}  // namespace worker
