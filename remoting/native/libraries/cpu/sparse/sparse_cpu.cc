#include "sparse/sparse_cpu.h"

namespace maths::cusparse {

CUresult run_function(uint16_t function, void* arguments, Work& work) {
    switch (function) {
#include "cusparse_cpu.inc"
        default:
            return CUDA_ERROR_NOT_SUPPORTED;
    }
}

}  // namespace maths::cusparse
