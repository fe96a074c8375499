// A transform on its way: what a plan of cuFFT computes, and on which memory. Every field has 64 bits, so that no size
// is cut.
#pragma once

#include "operands.h"

namespace maths::cufft {

enum Function : uint16_t {
    kExec = 0,  // Transform
    kFunctions,
};

// cudaDataType: those that operands.h has not, as nothing but transforms has them.
inline constexpr int64_t kC16 = 6, kCB16 = 15;
inline constexpr int kMostDimensions = 3;
inline constexpr int64_t kForward = -1, kInverse = 1;

// Where elements lie, as FFTW has it: in a dimension `stride` elements apart, rows by `embed`, batches by `distance`.
struct Layout {
    int64_t embed[kMostDimensions];
    int64_t stride, distance;
};

struct Plan {
    int64_t rank;
    int64_t n[kMostDimensions];  // of the real side, slowest first; those beyond the rank are 1
    int64_t batch;
    int64_t advanced;  // 1: by the two layouts; 0: one behind another, where in place rows of reals have room for complex ones
    Layout input, output;
    int64_t input_type, output_type, execution_type;
};

struct Transform {
    uint64_t input, output;
    int64_t direction;
    uint64_t number;  // of the plan in the program's process: NVIDIA's own is kept for it
    Plan plan;
};

enum class Kind { complex, to_complex, to_real };

// One side of a transform: elements in each dimension, and how many elements apart they are; first is the batch. A step
// that is never made is 0.
struct Side {
    int64_t count[1 + kMostDimensions];
    int64_t step[1 + kMostDimensions];
};

bool is_complex(int64_t type);
Type real_part(int64_t type);
Kind kind_of(const Plan& plan);

// Whether sizes and types go together.
Fit fit_of(const Plan& plan);
// Of a plan that fits; the steps are right where the side's extent fits into memory.
Side input_of(const Plan& plan, bool in_place);
Side output_of(const Plan& plan, bool in_place);
uint64_t span_of(const Side& side);

// As generate.py makes them for other libraries.
const char* name_of(uint16_t function);
const char* fields_of(uint16_t function);
Fit look_at(uint16_t function, void* arguments, size_t bytes, Look& look);

}  // namespace maths::cufft
