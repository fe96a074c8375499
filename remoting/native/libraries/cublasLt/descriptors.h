// cuBLASLt's descriptors: what a program says of a product before it asks for it. They lie in the program's
// process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cublas/status.h"
#include "handles.h"

namespace cublasLt {

struct Layout {
    uint32_t type = 0;
    int32_t order = 0;
    uint64_t rows = 0, columns = 0;
    int64_t lead = 0;
    int32_t batch = 1;
    int64_t stride = 0, plane = 0;
    uint32_t batch_mode = 0;
};

inline constexpr int32_t kWholeMatrix = 2;  // of cublasFillMode_t
inline constexpr int32_t kSameType = -1;    // as the result's

struct MatmulDescriptor {
    int32_t compute = 0, scale_type = 0, pointer_mode = 0;
    int32_t transa = 0, transb = 0, transc = 0, fill = kWholeMatrix;
    uint32_t epilogue = 1;
    uint64_t bias = 0;
    int64_t bias_stride = 0;
    uint64_t auxiliary = 0;
    int64_t auxiliary_lead = 0, auxiliary_stride = 0, alpha_stride = 0;
    int32_t multiprocessors = 0;
    // Of 8-bit floating point numbers, which are not done: factors of A, B, C, D and of what is kept, and
    // largest numbers.
    uint64_t factors[7] = {};
    int32_t factor_modes[5] = {};
    int8_t fast_sums = 0;
    int32_t bias_type = kSameType, auxiliary_type = kSameType;
};

struct TransformDescriptor {
    int32_t scale_type = 0, pointer_mode = 0, transa = 0, transb = 0;
};

// Hints for the choice of an algorithm, of which there is one.
struct Preference {
    uint32_t search_mode = 0;
    uint64_t most_workspace = 0;
    uint32_t reductions = 7;
    uint32_t align[4] = {256, 256, 256, 256};
    float most_waves = 0;
    uint64_t implementations = UINT64_MAX;
};

// A program copies it, and may configure it: NVIDIA's library chooses by itself on a real GPU.
struct Algorithm {
    int32_t id = 0;
    uint32_t tile = 0, reduction = 0, swizzle = 0, custom = 0, stages = 0;
    int32_t split = 1;
    uint16_t inner_shape = 0, cluster = 0;
    uint64_t workspace = 0;  // that it needs, as the heuristic has found
    uint64_t unused[3] = {};
};
static_assert(sizeof(Algorithm) == 8 * sizeof(uint64_t));

template <typename Descriptor>
libraries::Handles<Descriptor>& all_of() {
    static auto* const all = new libraries::Handles<Descriptor>;  // never destroyed: exit handlers may call
    return *all;
}

// A value of a descriptor, by the number that cuBLASLt's enumerations have for it.
struct Attribute {
    int number;
    size_t offset, bytes;
};

cublas::Status set_attribute(void* descriptor, std::span<const Attribute> attributes, int number,
                             const void* from, size_t bytes, const char* function);
cublas::Status get_attribute(const void* descriptor, std::span<const Attribute> attributes, int number,
                             void* to, size_t bytes, size_t* written, const char* function);

}  // namespace cublasLt
