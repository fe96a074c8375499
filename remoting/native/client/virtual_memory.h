// Memory at an address of one's choice, for those parts of the client that need it.
#pragma once

#include <cstdint>

#include "call.h"

namespace client {

// Device memory at [base, base + bytes), which `handle` then names. NOT_SUPPORTED where the driver cannot, or
// where the addresses are taken.
CUresult place_memory(Call& call, uint64_t base, uint64_t bytes, uint64_t in_use, uint64_t& handle);
void forget_physicals();
void take_memory_away(Call& call, uint64_t base, uint64_t bytes, uint64_t handle);

}  // namespace client
