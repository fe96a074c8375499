// The functions of cuBLASLt at the CPU end.
#pragma once

#include "cublasLt_messages.h"
#include "work.h"

namespace maths::cublasLt {

#include "cublasLt_families.inc"

// Does a call whose operands were looked up.
CUresult run_function(uint16_t function, void* arguments, Work& work);

}  // namespace maths::cublasLt
