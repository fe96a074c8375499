// The random numbers of a call, for whoever has them made: the CPU end, or a generator of the host.
#pragma once

#include <functional>

#include "curand/messages.h"

namespace maths::curand {

// Writes them to `output`. `stopped` is asked now and then whether to leave the rest.
void write_numbers(const Generate& call, void* output, const std::function<bool()>& stopped);
void write_numbers(const GenerateTwister& call, void* output, const std::function<bool()>& stopped);

// At most so many bytes it takes to work in.
uint64_t room_for(const Generate& call);
// What is left of a twister after a call.
void pass_over(Twister& twister, int64_t result, int64_t count);

}  // namespace maths::curand
