// A sum in four ways: a tree in shared memory, with dynamic shared memory, with shuffles, with atomics.
#include "course.h"

__global__ void tree(const int* in, int* out, int n) {
    __shared__ int part[256];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = i < n ? in[i] : 0;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}

__global__ void dynamic(const int* in, int* out, int n) {
    extern __shared__ int part[];
    int sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += in[i];
    part[threadIdx.x] = sum;
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    }
    if (threadIdx.x == 0) atomicAdd(out, part[0]);
}

__global__ void shuffle(const int* in, int* out, int n) {
    __shared__ int warps[32];
    const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int sum = i < n ? in[i] : 0;
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffff, sum, step);
    if (lane == 0) warps[warp] = sum;
    __syncthreads();
    if (warp != 0) return;
    sum = lane < blockDim.x / 32 ? warps[lane] : 0;
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
    if (lane == 0) atomicAdd(out, sum);
}

int main() {
    const int n = 50021, blocks = (n + 255) / 256;
    Random random(2);
    std::vector<int> in(n);
    int want = 0;
    for (int& x : in) want += x = static_cast<int>(random.next() % 1000) - 300;
    Device<int> data(in), parts(blocks), total(1);
    tree<<<blocks, 256>>>(data, parts, n);
    CHECK_LAUNCH();
    int sum = 0;
    for (int part : parts.host()) sum += part;
    compare("tree", std::vector<int>{sum}, std::vector<int>{want});
    CHECK(cudaMemset(total, 0, sizeof(int)));
    dynamic<<<7, 128, 128 * sizeof(int)>>>(data, total, n);
    CHECK_LAUNCH();
    compare("dynamic shared memory", total.host(), std::vector<int>{want});
    CHECK(cudaMemset(total, 0, sizeof(int)));
    shuffle<<<blocks, 256>>>(data, total, n);
    CHECK_LAUNCH();
    compare("shuffles", total.host(), std::vector<int>{want});
}
