// The functions of cuSPARSE at the CPU end: an overload of `run` for each family of functions.txt.
#pragma once

#include "cusparse_messages.h"
#include "work.h"

namespace maths::cusparse {

#include "cusparse_families.inc"

// Does a call whose operands were looked up.
CUresult run_function(uint16_t function, void* arguments, Work& work);

}  // namespace maths::cusparse
