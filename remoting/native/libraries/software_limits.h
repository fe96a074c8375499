// What a software GPU does at most, since nothing can interrupt it or it has no room: asked where a program
// calls, and again where the call runs. A GPU has no such limits.
#pragma once

#include "operands.h"

namespace maths {

// LAPACK runs to its end, so what would take hours is not begun. `operations` are those of real numbers.
void limit_operations(Look& look, Type type, double operations);

// OpenBLAS lays vectors, and a sum of each of its threads, into a buffer of its own, and does not look
// whether they fit: how long a vector may be.
int64_t most_elements(uint64_t element_bytes, uint64_t threads);
void limit_vectors(Look& look, Type type, int64_t elements);

}  // namespace maths
