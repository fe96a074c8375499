// The random numbers of cuRAND at the CPU end.
#pragma once

#include "curand/messages.h"
#include "work.h"

namespace maths::curand {

// Does a call whose operands were looked up.
CUresult run_function(uint16_t function, void* arguments, Work& work);

}  // namespace maths::curand
