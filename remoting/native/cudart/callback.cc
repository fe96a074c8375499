// cudaStreamAddCallback: a program's function that wants the runtime's error code where the driver gives its
// own.
#include <memory>

#include "forward.h"

using namespace cudart;

namespace {

struct Callback {
    cudaStreamCallback_t function;
    void* data;
};

void CUDA_CB call_program(CUstream stream, CUresult status, void* given) {
    const std::unique_ptr<Callback> callback(static_cast<Callback*>(given));
    callback->function(stream, translated(status), callback->data);
}

}  // namespace

extern "C" cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback,
                                             void* userData, unsigned int flags) {
    return call<Need::context>([&](const Driver& driver) {
        if (!callback) return CUDA_ERROR_INVALID_VALUE;
        auto given = std::make_unique<Callback>(callback, userData);
        const CUresult result = invoke(driver.cuStreamAddCallback, stream, call_program, given.get(), flags);
        if (result == CUDA_SUCCESS) given.release();
        return result;
    });
}
