// The functions of cuSOLVER at the CPU end.
#pragma once

#include "cusolver_messages.h"
#include "work.h"

namespace maths::cusolver {

#include "cusolver_families.inc"

// Does a call whose operands were looked up.
CUresult run_function(uint16_t function, void* arguments, Work& work);

}  // namespace maths::cusolver
