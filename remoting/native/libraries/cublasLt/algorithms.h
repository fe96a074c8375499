// Whether there is an algorithm for a product: on a GPU NVIDIA's own heuristic is asked, which no rule of
// ours knows.
#pragma once

#include "cublas/status.h"
#include "cublasLt_messages.h"

namespace cublasLt {

// Of a product that fits, whose operands' addresses are what the program's will be multiples of.
// `most_workspace`: what the program will bring at most; 0: none, so the stream's own serves it. `workspace`:
// how much of it the algorithm needs.
cublas::Status find_algorithm(maths::cublasLt::matmul message, bool scalars_on_device,
                              uint64_t most_workspace, uint64_t& workspace);

}  // namespace cublasLt
