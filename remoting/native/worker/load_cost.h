// What unpacking, parsing and compiling an image takes of this machine's memory while it lasts, at most: to
// be charged before it begins (HostMemory::Room).
//
// For the software GPU the figures are upper bounds (text_cost.h), which tests/forwarding/test_load_memory.py
// holds against texts of every kind that is dear. NVIDIA's compiler was measured (nvJitLink 13): 2.4 to 10
// KiB an instruction, the most where each is a branch; what it takes beyond that only the agent's bound on
// the whole process stops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace worker {

// Whether an entry of the image says that it unpacks to more than an image may have. Nothing may unpack it:
// to be asked before what follows.
bool unpacks_to_too_much(std::span<const std::byte> image);

// What looking into a packed image takes by itself: 0 where nothing is packed.
uint64_t unpacking_cost(std::span<const std::byte> image);

// Of an image: PTX, a cubin, or a fatbin, of which the dearest entry counts. Unpacks, one entry at a time.
uint64_t load_cost(std::span<const std::byte> image, bool software);

}  // namespace worker
