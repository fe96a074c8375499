// cuFFT's functions: plans are made here, and their transforms posted.
#include <array>
#include <cstdint>
#include <new>

#include "cufft/plan.h"
#include "cufft/status.h"
#include "roles.h"

using namespace cufft;
using maths::Fit;
using maths::cufft::Plan;

namespace {

// A plan's work area is none of the program's: on a software GPU there is none, and on a real one NVIDIA's library
// says its size where the plan runs (docs/design/libraries.md).
constexpr size_t kWorkArea = 0;

struct Types {
    int64_t input, output, execution;
};

// cufftType.
bool types_of(int type, Types& types) {
    using namespace maths;
    switch (type) {
        case 0x29:
            return types = {kC32, kC32, kC32}, true;
        case 0x2a:
            return types = {kF32, kC32, kC32}, true;
        case 0x2c:
            return types = {kC32, kF32, kC32}, true;
        case 0x69:
            return types = {kC64, kC64, kC64}, true;
        case 0x6a:
            return types = {kF64, kC64, kC64}, true;
        case 0x6c:
            return types = {kC64, kF64, kC64}, true;
        default:
            return false;
    }
}

// Of a program's arguments, where integers are of 32 or of 64 bits.
template <typename Int>
struct Request {
    int rank;
    const Int* n;
    const Int* input_embed;
    Int input_stride, input_distance;
    const Int* output_embed;
    Int output_stride, output_distance;
    Int batch;
};

template <typename Int>
maths::cufft::Layout layout_of(const Request<Int>& request, const Int* embed, Int stride, Int distance) {
    maths::cufft::Layout layout{{1, 1, 1}, stride, distance};
    for (int i = 0; i < request.rank; ++i) layout.embed[i] = embed[i];
    return layout;
}

template <typename Int>
Status read(const Request<Int>& request, const Types& types, Plan& plan) {
    if (request.rank < 1 || request.rank > maths::cufft::kMostDimensions) return kInvalidValue;
    if (!request.n) return kInvalidValue;
    plan = {};
    plan.rank = request.rank;
    for (int i = 0; i < maths::cufft::kMostDimensions; ++i) plan.n[i] = i < request.rank ? request.n[i] : 1;
    plan.batch = request.batch;
    plan.advanced = request.input_embed && request.output_embed;
    if (plan.advanced) {
        plan.input = layout_of(request, request.input_embed, request.input_stride, request.input_distance);
        plan.output = layout_of(request, request.output_embed, request.output_stride, request.output_distance);
    }
    plan.input_type = types.input;
    plan.output_type = types.output;
    plan.execution_type = types.execution;
    switch (maths::cufft::fit_of(plan)) {
        case Fit::invalid:
            return kInvalidSize;
        case Fit::unsupported:
            library_unsupported("cufftXtMakePlanMany of these types and sizes");
            return kNotSupported;
        default:
            return kSuccess;
    }
}

// Says what a plan of it would take, and makes none.
template <typename Int>
Status size(const Request<Int>& request, const Types& types, size_t* bytes) {
    Plan plan;
    if (!bytes) return kInvalidValue;
    const Status status = read(request, types, plan);
    if (status == kSuccess) *bytes = kWorkArea;
    return status;
}

template <typename Int>
Status make(int handle, const Request<Int>& request, const Types& types, size_t* bytes) {
    const auto own = Plans::get().find(handle);
    if (!own) return kInvalidPlan;
    const std::lock_guard lock(own->mutex);
    if (own->is_made) return kInvalidPlan;
    const Status status = read(request, types, own->plan);
    own->is_made = status == kSuccess;
    if (own->is_made && bytes) *bytes = kWorkArea;
    return status;
}

template <typename Int>
Status make(int handle, const Request<Int>& request, int type, size_t* bytes) {
    Types types;
    return types_of(type, types) ? make(handle, request, types, bytes) : kInvalidType;
}

template <typename Int>
Status size(const Request<Int>& request, int type, size_t* bytes) {
    Types types;
    return types_of(type, types) ? size(request, types, bytes) : kInvalidType;
}

Status create(int* handle) {
    if (!handle) return kInvalidValue;
    if (const Status status = look()) return status;
    try {
        *handle = Plans::get().add();
    } catch (const std::bad_alloc&) {
        return kAllocFailed;
    }
    return kSuccess;
}

Status create(int* handle, const Request<int>& request, int type) {
    int made = 0;
    if (!handle) return kInvalidValue;
    Status status = create(&made);
    if (status != kSuccess) return status;
    status = make(made, request, type, nullptr);
    if (status == kSuccess) {
        *handle = made;
    } else {
        destroy(made);
    }
    return status;
}

// Without a layout: one behind another.
template <size_t rank>
struct Dense {
    std::array<int, rank> n;
    int batch = 1;
    operator Request<int>() const { return {rank, n.data(), nullptr, 1, 0, nullptr, 1, 0, batch}; }
};
template <size_t rank>
Request<int> request_of(const Dense<rank>& dense) {
    return dense;
}

Status execute_as(int handle, int type, const void* input, void* output, int64_t direction) {
    Types types;
    const auto own = Plans::get().find(handle);
    if (!own || !types_of(type, types)) return kInvalidPlan;
    {
        const std::lock_guard lock(own->mutex);
        if (!own->is_made) return kInvalidPlan;
        if (own->plan.input_type != types.input || own->plan.output_type != types.output) return kInvalidType;
    }
    return execute(handle, input, output, direction);
}

}  // namespace

CUFFT_EXPORT Status cufftCreate(int* handle) {
    return create(handle);
}

CUFFT_EXPORT Status cufftDestroy(int handle) {
    return destroy(handle);
}

#define CUFFT_SHAPES(name, rank, sizes, ...)                                                               \
    CUFFT_EXPORT Status cufftPlan##name(int* handle, __VA_ARGS__) {                                        \
        const Dense<rank> dense sizes;                                                                     \
        return create(handle, request_of(dense), type);                                                    \
    }                                                                                                      \
    CUFFT_EXPORT Status cufftMakePlan##name(int handle, __VA_ARGS__, size_t* bytes) {                      \
        const Dense<rank> dense sizes;                                                                     \
        return make(handle, request_of(dense), type, bytes);                                               \
    }                                                                                                      \
    CUFFT_EXPORT Status cufftGetSize##name(int handle, __VA_ARGS__, size_t* bytes) {                       \
        const Dense<rank> dense sizes;                                                                     \
        return Plans::get().find(handle) ? size(request_of(dense), type, bytes) : kInvalidPlan;            \
    }                                                                                                      \
    CUFFT_EXPORT Status cufftEstimate##name(__VA_ARGS__, size_t* bytes) {                                  \
        const Dense<rank> dense sizes;                                                                     \
        return size(request_of(dense), type, bytes);                                                       \
    }

#define CUFFT_SIZES_1D {{nx}, batch}
#define CUFFT_SIZES_2D {{nx, ny}}
#define CUFFT_SIZES_3D {{nx, ny, nz}}
CUFFT_SHAPES(1d, 1, CUFFT_SIZES_1D, int nx, int type, int batch)
CUFFT_SHAPES(2d, 2, CUFFT_SIZES_2D, int nx, int ny, int type)
CUFFT_SHAPES(3d, 3, CUFFT_SIZES_3D, int nx, int ny, int nz, int type)

#define CUFFT_MANY(Int)                                                                               \
    int rank, Int *n, Int *inembed, Int istride, Int idist, Int *onembed, Int ostride, Int odist, int type, Int batch
#define CUFFT_REQUEST {rank, n, inembed, istride, idist, onembed, ostride, odist, batch}

CUFFT_EXPORT Status cufftPlanMany(int* handle, CUFFT_MANY(int)) {
    return create(handle, Request<int> CUFFT_REQUEST, type);
}

CUFFT_EXPORT Status cufftMakePlanMany(int handle, CUFFT_MANY(int), size_t* bytes) {
    return make(handle, Request<int> CUFFT_REQUEST, type, bytes);
}

CUFFT_EXPORT Status cufftMakePlanMany64(int handle, CUFFT_MANY(long long), size_t* bytes) {
    return make(handle, Request<long long> CUFFT_REQUEST, type, bytes);
}

CUFFT_EXPORT Status cufftGetSizeMany(int handle, CUFFT_MANY(int), size_t* bytes) {
    return Plans::get().find(handle) ? size(Request<int> CUFFT_REQUEST, type, bytes) : kInvalidPlan;
}

CUFFT_EXPORT Status cufftGetSizeMany64(int handle, CUFFT_MANY(long long), size_t* bytes) {
    return Plans::get().find(handle) ? size(Request<long long> CUFFT_REQUEST, type, bytes) : kInvalidPlan;
}

CUFFT_EXPORT Status cufftEstimateMany(CUFFT_MANY(int), size_t* bytes) {
    return size(Request<int> CUFFT_REQUEST, type, bytes);
}

#define CUFFT_TYPED_MANY                                                                                        \
    int rank, long long *n, long long *inembed, long long istride, long long idist, int input, long long *onembed, \
        long long ostride, long long odist, int output, long long batch, size_t *bytes, int execution

CUFFT_EXPORT Status cufftXtMakePlanMany(int handle, CUFFT_TYPED_MANY) {
    return make(handle, Request<long long> CUFFT_REQUEST, Types{input, output, execution}, bytes);
}

CUFFT_EXPORT Status cufftXtGetSizeMany(int handle, CUFFT_TYPED_MANY) {
    if (!Plans::get().find(handle)) return kInvalidPlan;
    return size(Request<long long> CUFFT_REQUEST, Types{input, output, execution}, bytes);
}

CUFFT_EXPORT Status cufftGetSize(int handle, size_t* bytes) {
    if (!Plans::get().find(handle)) return kInvalidPlan;
    if (!bytes) return kInvalidValue;
    *bytes = kWorkArea;
    return kSuccess;
}

CUFFT_EXPORT Status cufftSetStream(int handle, CUstream stream) {
    const auto own = Plans::get().find(handle);
    if (!own) return kInvalidPlan;
    const std::lock_guard lock(own->mutex);
    own->stream = stream;
    return kSuccess;
}

// There is no work area of the program's, so nothing to allocate and nothing to keep.
CUFFT_EXPORT Status cufftSetAutoAllocation(int handle, int) {
    return Plans::get().find(handle) ? kSuccess : kInvalidPlan;
}

CUFFT_EXPORT Status cufftSetWorkArea(int handle, void*) {
    return Plans::get().find(handle) ? kSuccess : kInvalidPlan;
}

CUFFT_EXPORT Status cufftExecC2C(int handle, void* input, void* output, int direction) {
    return execute_as(handle, 0x29, input, output, direction);
}

CUFFT_EXPORT Status cufftExecR2C(int handle, void* input, void* output) {
    return execute_as(handle, 0x2a, input, output, maths::cufft::kForward);
}

CUFFT_EXPORT Status cufftExecC2R(int handle, void* input, void* output) {
    return execute_as(handle, 0x2c, input, output, maths::cufft::kInverse);
}

CUFFT_EXPORT Status cufftExecZ2Z(int handle, void* input, void* output, int direction) {
    return execute_as(handle, 0x69, input, output, direction);
}

CUFFT_EXPORT Status cufftExecD2Z(int handle, void* input, void* output) {
    return execute_as(handle, 0x6a, input, output, maths::cufft::kForward);
}

CUFFT_EXPORT Status cufftExecZ2D(int handle, void* input, void* output) {
    return execute_as(handle, 0x6c, input, output, maths::cufft::kInverse);
}

// Between real and complex numbers the direction goes without saying.
CUFFT_EXPORT Status cufftXtExec(int handle, void* input, void* output, int direction) {
    const auto own = Plans::get().find(handle);
    if (!own) return kInvalidPlan;
    maths::cufft::Kind kind;
    {
        const std::lock_guard lock(own->mutex);
        if (!own->is_made) return kInvalidPlan;
        kind = kind_of(own->plan);
    }
    using maths::cufft::Kind;
    const int64_t from_kind = kind == Kind::to_complex ? maths::cufft::kForward : maths::cufft::kInverse;
    return execute(handle, input, output, kind == Kind::complex ? direction : from_kind);
}
