// The transforms of cuFFT at the CPU end.
#pragma once

#include "cufft/messages.h"
#include "work.h"

namespace maths::cufft {

// Does a call whose operands were looked up.
CUresult run_function(uint16_t function, void* arguments, Work& work);

}  // namespace maths::cufft
