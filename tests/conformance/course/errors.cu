// Errors that a program can go on after, each read once.
#include "course.h"

__global__ void nothing() {}
__global__ void many(int* out) { out[threadIdx.x] = threadIdx.x; }

void show(const char* what, cudaError_t error) { printf("%s: %s\n", what, cudaGetErrorString(error)); }

int main() {
    nothing<<<1, 2000>>>();
    show("2000 threads a block, peeked", cudaPeekAtLastError());
    show("2000 threads a block", cudaGetLastError());
    show("read again", cudaGetLastError());
    nothing<<<0, 1>>>();
    show("no blocks", cudaGetLastError());
    nothing<<<1, 1, 1 << 20>>>();
    show("a megabyte of shared memory", cudaGetLastError());
    void* memory = nullptr;
    show("more memory than any GPU has", cudaMalloc(&memory, 1ull << 50));
    show("last error", cudaGetLastError());
    show("copy to nowhere", cudaMemcpy(nullptr, &memory, 8, cudaMemcpyHostToDevice));
    show("set a device that is not there", cudaSetDevice(1000));
    show("free nothing", cudaFree(nullptr));
    int local = 0;
    show("free what was never allocated", cudaFree(&local));
    cudaGetLastError();
    cudaStream_t stream;
    show("a stream", cudaStreamCreate(&stream));
    show("its end", cudaStreamDestroy(stream));
    Device<int> out(8);
    many<<<1, 8>>>(out);
    show("and a launch that is right", cudaDeviceSynchronize());
    printf("%d %s %s\n", out.host()[7], cudaGetErrorName(cudaErrorInvalidValue), cudaGetErrorString(static_cast<cudaError_t>(123456)));
}
