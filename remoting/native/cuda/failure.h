// How an entry point's own code refuses: by throwing Failure, which the entry point's frame turns into a
// CUresult.
#pragma once

#include <new>
#include <type_traits>

#include "cuda_abi.h"

namespace cuda {

struct Failure {
    CUresult code;
};

[[noreturn]] inline void refuse(CUresult code) {
    throw Failure{code};
}

inline void require(bool condition, CUresult otherwise = CUDA_ERROR_INVALID_VALUE) {
    if (!condition) refuse(otherwise);
}

inline void check(CUresult result) {
    if (result != CUDA_SUCCESS) refuse(result);
}

// The frame: runs `body`, which throws Failure, and returns nothing or a CUresult.
template <class Body>
CUresult guarded(Body&& body) noexcept {
    try {
        if constexpr (std::is_void_v<std::invoke_result_t<Body>>) {
            body();
            return CUDA_SUCCESS;
        } else {
            return static_cast<CUresult>(body());
        }
    } catch (const Failure& failure) {
        return failure.code;
    } catch (const std::bad_alloc&) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    } catch (...) {
        return CUDA_ERROR_UNKNOWN;
    }
}

}  // namespace cuda
