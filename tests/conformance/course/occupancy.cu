// How many threads fit: attributes of a kernel, its occupancy, and a block size chosen by the runtime.
#include "course.h"

__global__ void __launch_bounds__(256) kernel(float* data, int n) {
    __shared__ float tile[256];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = i < n ? data[i] : 0;
    __syncthreads();
    if (i < n) data[i] = tile[threadIdx.x] + 1;
}

int main() {
    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, kernel));
    printf("static shared memory: %zu, threads: %d\n", attributes.sharedSizeBytes, attributes.maxThreadsPerBlock);
    int least_grid = 0, block = 0, active = 0, multiprocessors = 0;
    CHECK(cudaOccupancyMaxPotentialBlockSize(&least_grid, &block, kernel, 0, 0));
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&active, kernel, block, 0));
    CHECK(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
    printf("block: %s, grid: %s\n", block > 0 && block <= 256 && block % 32 == 0 ? "plausible" : "odd",
           least_grid == active * multiprocessors ? "fills the device" : "odd");
    const int n = 10000;
    Device<float> data(n);
    CHECK(cudaMemset(data, 0, n * sizeof(float)));
    kernel<<<(n + block - 1) / block, block>>>(data, n);
    CHECK_LAUNCH();
    compare("ones", data.host(), std::vector<float>(n, 1));
    kernel<<<1, 512>>>(data, n);
    printf("more than its bound: %s\n", cudaGetErrorString(cudaGetLastError()));
}
