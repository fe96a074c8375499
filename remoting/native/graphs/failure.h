// How graph code refuses: by throwing Failure, which the entry points turn into a CUresult.
#pragma once

#include "cuda_abi.h"

namespace graphs {

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

}  // namespace graphs
