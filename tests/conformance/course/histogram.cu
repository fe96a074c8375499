// A histogram with atomics in global memory, and one with a private copy a block in shared memory.
#include "course.h"

__global__ void direct(const unsigned char* text, int n, unsigned* bins) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&bins[text[i]], 1u);
}

__global__ void privatised(const unsigned char* text, int n, unsigned* bins) {
    __shared__ unsigned own[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) own[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&own[text[i]], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        if (own[i]) atomicAdd(&bins[i], own[i]);
}

int main() {
    const int n = 60000;
    Random random(4);
    std::vector<unsigned char> text(n);
    std::vector<unsigned> want(256);
    for (auto& c : text) ++want[c = static_cast<unsigned char>((random.next() >> 16) * (random.next() >> 20))];
    Device<unsigned char> data(text);
    Device<unsigned> bins(256);
    CHECK(cudaMemset(bins, 0, 256 * sizeof(unsigned)));
    direct<<<8, 192>>>(data, n, bins);
    CHECK_LAUNCH();
    compare("global atomics", bins.host(), want);
    CHECK(cudaMemset(bins, 0, 256 * sizeof(unsigned)));
    privatised<<<8, 192>>>(data, n, bins);
    CHECK_LAUNCH();
    compare("shared atomics", bins.host(), want);
}
