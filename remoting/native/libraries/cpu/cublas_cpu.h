// The functions of cuBLAS at the CPU end: an overload of `run` for each family of functions.txt.
#pragma once

#include "cublas_messages.h"
#include "work.h"

namespace maths::cublas {

#include "cublas_families.inc"

// Does a call whose operands were looked up.
CUresult run_function(uint16_t function, void* arguments, Work& work);

}  // namespace maths::cublas
