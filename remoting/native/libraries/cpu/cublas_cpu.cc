#include "cublas_cpu.h"

namespace maths::cublas {

CUresult run_function(uint16_t function, void* arguments, Work& work) {
    switch (function) {
#include "cublas_cpu.inc"
        default:
            return CUDA_ERROR_NOT_SUPPORTED;
    }
}

}  // namespace maths::cublas
