#include "curand_cpu.h"

#include "curand/numbers.h"

namespace maths::curand {

CUresult run_function(uint16_t function, void* arguments, Work& work) {
    const auto stopped = [&work] { return work.stopped(); };
    if (function == kGenerate) {
        const auto& call = *static_cast<const Generate*>(arguments);
        work.reserve(room_for(call));
        write_numbers(call, at<void>(call.output), stopped);
    } else if (function == kGenerateTwister) {
        const auto& call = *static_cast<const GenerateTwister*>(arguments);
        work.reserve(room_for(call.call));
        write_numbers(call, at<void>(call.call.output), stopped);
    }
    return CUDA_SUCCESS;
}

}  // namespace maths::curand
