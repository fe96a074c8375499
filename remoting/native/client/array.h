// Arrays and mipmapped arrays, as the client keeps them: handles and shapes. What is in them is the worker's.
#pragma once

#include <cstdint>
#include <vector>

namespace client {

// Takes the arrays that the context owned off the tables: their handles.
std::vector<uint64_t> take_arrays(uint64_t context);
void forget_arrays();  // the life ends (life.h)

}  // namespace client
