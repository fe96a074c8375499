// The functions of cuDNN at the CPU end: an overload of `run` for each family of functions.txt.
#pragma once

#include "cudnn_messages.h"
#include "work.h"

namespace maths::cudnn {

#include "cudnn_families.inc"

// Does a call whose operands were looked up.
CUresult run_function(uint16_t function, void* arguments, Work& work);

}  // namespace maths::cudnn
