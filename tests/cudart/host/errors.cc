// Which error a call returns, and whose last error it becomes.
#include <string>
#include <thread>

#include "device_code.h"

namespace {

void last_error() {
    Object object({{device_code()}});
    EXPECT(cudaGetLastError() == cudaSuccess);
    EXPECT_CODE(object.launch_add(nullptr, 1, 1, 4096), cudaErrorInvalidConfiguration);
    EXPECT(cudaPeekAtLastError() == cudaErrorInvalidConfiguration);
    // A success takes nothing back; another error comes in its place.
    EXPECT_OK(cudaDeviceSynchronize());
    EXPECT(cudaPeekAtLastError() == cudaErrorInvalidConfiguration);
    EXPECT_CODE(cudaSetDevice(99), cudaErrorInvalidDevice);
    std::thread([] {
        EXPECT(cudaPeekAtLastError() == cudaSuccess);
        EXPECT_CODE(cudaFree(reinterpret_cast<void*>(8)), cudaErrorInvalidValue);
        EXPECT(cudaGetLastError() == cudaErrorInvalidValue);
    }).join();
    EXPECT(cudaGetLastError() == cudaErrorInvalidDevice);
    EXPECT(cudaGetLastError() == cudaSuccess);
}

void codes() {
    Object object({{device_code()}});
    void* pointer;
    int n = 1, value = 1;
    void* arguments[] = {&pointer, &n, &value};
    const auto launch = [&](dim3 grid, dim3 block, size_t shared) {
        return cudaLaunchKernel(&object.add, grid, block, arguments, shared, nullptr);
    };
    EXPECT_CODE(launch(dim3(0), dim3(1), 0), cudaErrorInvalidConfiguration);
    EXPECT_CODE(launch(dim3(1), dim3(1, 0), 0), cudaErrorInvalidConfiguration);
    EXPECT_CODE(launch(dim3(1, 70000), dim3(1), 0), cudaErrorInvalidConfiguration);
    EXPECT_CODE(launch(dim3(1), dim3(1, 1, 65), 0), cudaErrorInvalidConfiguration);
    EXPECT_CODE(launch(dim3(1), dim3(1), size_t{1} << 30), cudaErrorInvalidValue);
    EXPECT_CODE(launch(dim3(1), dim3(1), size_t{1} << 40), cudaErrorInvalidValue);
    EXPECT_CODE(cudaMalloc(&pointer, size_t{1} << 42), cudaErrorMemoryAllocation);
    EXPECT_CODE(cudaMalloc(nullptr, 4), cudaErrorInvalidValue);
    EXPECT_CODE(cudaMemcpy(&n, &n, 4, static_cast<cudaMemcpyKind>(9)), cudaErrorInvalidMemcpyDirection);
    EXPECT_CODE(cudaStreamSynchronize(reinterpret_cast<cudaStream_t>(0x1234567890)),
                cudaErrorInvalidResourceHandle);
    EXPECT_CODE(cudaIpcGetMemHandle(nullptr, nullptr), cudaErrorNotSupported);
    EXPECT_OK(cudaMalloc(&pointer, 0));
    EXPECT(pointer == nullptr);
    EXPECT_OK(cudaFree(nullptr));
    EXPECT_OK(cudaFreeHost(nullptr));
    cudaGetLastError();
}

void names() {
    const auto is = [](cudaError_t code, const char* name, const char* text) {
        return std::string(name) == cudaGetErrorName(code) && std::string(text) == cudaGetErrorString(code);
    };
    EXPECT(is(cudaSuccess, "cudaSuccess", "no error"));
    EXPECT(is(cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"));
    EXPECT(
        is(cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"));
    EXPECT(is(static_cast<cudaError_t>(54321), "unrecognized error code", "unrecognized error code"));
    for (int code = 0; code < 1000; ++code) EXPECT(*cudaGetErrorString(static_cast<cudaError_t>(code)));
}

// Work that is not finished is no error.
void not_ready() {
    cudaEvent_t event;
    EXPECT_OK(cudaEventCreate(&event));
    cudaGetLastError();
    const cudaError_t state = cudaEventQuery(event);
    EXPECT(state == cudaSuccess || state == cudaErrorNotReady);
    EXPECT(cudaGetLastError() == cudaSuccess);
    EXPECT_OK(cudaEventDestroy(event));
}

}  // namespace

int main() {
    names();
    last_error();
    codes();
    not_ready();
    return failures;
}
