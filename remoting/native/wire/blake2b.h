// BLAKE2b with 32 bytes of output (RFC 7693): the name of an image.
#pragma once

#include <cstddef>

#include "protocol.h"

namespace wire {

Digest blake2b(const void* data, size_t bytes);

}  // namespace wire
