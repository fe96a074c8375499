#include "dnn/dnn_cpu.h"

namespace maths::cudnn {

CUresult run_function(uint16_t function, void* arguments, Work& work) {
    switch (function) {
#include "cudnn_cpu.inc"
        default:
            return CUDA_ERROR_NOT_SUPPORTED;
    }
}

}  // namespace maths::cudnn
