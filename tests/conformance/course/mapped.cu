// Host memory that the device reads and writes in its place.
#include "course.h"

__global__ void twice(const int* in, int* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 2 * in[i];
}

int main() {
    const int n = 700;
    int *in = nullptr, *out = nullptr, *device_in = nullptr, *device_out = nullptr;
    CHECK(cudaHostAlloc(&in, n * sizeof(int), cudaHostAllocMapped));
    CHECK(cudaHostAlloc(&out, n * sizeof(int), cudaHostAllocMapped));
    CHECK(cudaHostGetDevicePointer(&device_in, in, 0));
    CHECK(cudaHostGetDevicePointer(&device_out, out, 0));
    std::vector<int> want(n);
    for (int round = 1; round <= 2; ++round) {
        for (int i = 0; i < n; ++i) want[i] = 2 * (in[i] = i * round);
        twice<<<(n + 127) / 128, 128>>>(device_in, device_out, n);
        CHECK_LAUNCH();
        CHECK(cudaDeviceSynchronize());
        compare("mapped", std::vector<int>(out, out + n), want);
    }
    cudaPointerAttributes attributes;
    CHECK(cudaPointerGetAttributes(&attributes, in));
    printf("type: %s\n", attributes.type == cudaMemoryTypeHost ? "host" : "another");
    std::vector<int> plain(n, 3);
    CHECK(cudaPointerGetAttributes(&attributes, plain.data()));
    printf("type: %s\n", attributes.type == cudaMemoryTypeUnregistered ? "unregistered" : "another");
    CHECK(cudaHostRegister(plain.data(), n * sizeof(int), cudaHostRegisterDefault));
    CHECK(cudaMemcpy(device_in, plain.data(), n * sizeof(int), cudaMemcpyDefault));
    CHECK(cudaHostUnregister(plain.data()));
    CHECK(cudaFreeHost(in));
    CHECK(cudaFreeHost(out));
}
