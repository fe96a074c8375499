// Stream-ordered allocation: memory that lives between two points of a stream.
#include "course.h"

__global__ void fill(int* data, int n, int value) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) data[i] = value;
}

__global__ void collect(const int* data, int n, int* out) {
    __shared__ int sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) atomicAdd(&sum, data[i]);
    __syncthreads();
    if (threadIdx.x == 0) *out += sum;
}

int main() {
    int supported = 0;
    CHECK(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, 0));
    printf("pools: %d\n", supported);
    cudaMemPool_t pool;
    CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
    unsigned long long keep = ~0ull;
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    int* out = nullptr;
    CHECK(cudaMallocAsync(&out, sizeof(int), stream));
    CHECK(cudaMemsetAsync(out, 0, sizeof(int), stream));
    int want = 0;
    for (int round = 1; round <= 10; ++round) {
        int* data = nullptr;
        const int n = 1000 * round;
        CHECK(cudaMallocAsync(&data, n * sizeof(int), stream));
        fill<<<1, 256, 0, stream>>>(data, n, round);
        collect<<<1, 256, 0, stream>>>(data, n, out);
        CHECK(cudaFreeAsync(data, stream));
        want += n * round;
    }
    int got = 0;
    CHECK(cudaMemcpyAsync(&got, out, sizeof(int), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaFreeAsync(out, stream));
    CHECK(cudaStreamSynchronize(stream));
    compare("sum", std::vector<int>{got}, std::vector<int>{want});
    unsigned long long used = 1;
    CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
    printf("still used: %llu\n", used);
    CHECK(cudaMemPoolTrimTo(pool, 0));
    CHECK(cudaStreamDestroy(stream));
}
