// Pi by throwing darts: a generator a thread, a sum a warp, one atomic a block.
#include "course.h"

__device__ __host__ inline unsigned next(unsigned& state) {
    state ^= state << 13;
    state ^= state >> 17;
    return state ^= state << 5;
}

__device__ __host__ inline int throw_darts(unsigned seed, int darts) {
    unsigned state = seed * 2654435761u + 1;
    int hits = 0;
    for (int i = 0; i < darts; ++i) {
        const unsigned x = next(state) >> 16, y = next(state) >> 16;
        hits += x * static_cast<unsigned long long>(x) + y * static_cast<unsigned long long>(y) < 65536ull * 65536ull;
    }
    return hits;
}

__global__ void pi(unsigned long long* total, int darts) {
    __shared__ unsigned long long block;
    if (threadIdx.x == 0) block = 0;
    __syncthreads();
    int hits = throw_darts(blockIdx.x * blockDim.x + threadIdx.x, darts);
    for (int step = 16; step > 0; step /= 2) hits += __shfl_down_sync(~0u, hits, step);
    if (threadIdx.x % 32 == 0) atomicAdd(&block, static_cast<unsigned long long>(hits));
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(total, block);
}

int main() {
    const int blocks = 16, threads = 128, darts = 200;
    Device<unsigned long long> total(1);
    CHECK(cudaMemset(total, 0, sizeof(unsigned long long)));
    pi<<<blocks, threads>>>(total, darts);
    CHECK_LAUNCH();
    unsigned long long want = 0;
    for (int i = 0; i < blocks * threads; ++i) want += throw_darts(i, darts);
    compare("hits", total.host(), std::vector<unsigned long long>{want});
    printf("pi is about %.2f\n", 4.0 * want / (static_cast<double>(blocks) * threads * darts));
}
