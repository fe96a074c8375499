// A variable that the host and kernels share, and memory that they share.
#include <cstdio>

__managed__ int counter = 7;
__managed__ float weights[3] = {1, 2, 3};
__device__ int step = 2;

__global__ void advance(int* twice) {
    counter += step;
    weights[threadIdx.x] *= 10;
    if (threadIdx.x == 0) *twice = 2 * counter;
}

int main() {
    int* twice;
    cudaMallocManaged(&twice, sizeof(int));
    std::printf("%d %g\n", counter, weights[2]);
    counter = 40;
    advance<<<1, 1>>>(twice);
    cudaDeviceSynchronize();
    std::printf("%d %d %g %g\n", counter, *twice, weights[0], weights[1]);
    void* address = nullptr;
    cudaGetSymbolAddress(&address, counter);
    std::printf("%s\n", address == &counter ? "one address" : "two addresses");
    std::printf("%s\n", cudaGetErrorString(cudaGetLastError()));
}
