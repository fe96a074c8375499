// A one-dimensional stencil with a halo in shared memory; the coefficients are in constant memory.
#include "course.h"

constexpr int kRadius = 3, kBlock = 128;
__constant__ float weights[2 * kRadius + 1];

__global__ void stencil(const float* in, float* out, int n) {
    __shared__ float line[kBlock + 2 * kRadius];
    const int i = blockIdx.x * kBlock + threadIdx.x, at = threadIdx.x + kRadius;
    line[at] = i < n ? in[i] : 0;
    if (threadIdx.x < kRadius) {
        line[threadIdx.x] = i >= kRadius ? in[i - kRadius] : 0;
        line[at + kBlock] = i + kBlock < n ? in[i + kBlock] : 0;
    }
    __syncthreads();
    if (i >= n) return;
    float sum = 0;
    for (int j = -kRadius; j <= kRadius; ++j) sum += weights[j + kRadius] * line[at + j];
    out[i] = sum;
}

int main() {
    const int n = 5000;
    const float host_weights[] = {0.5f, -1, 2, 3, 2, -1, 0.5f};
    Random random(5);
    std::vector<float> in(n), want(n);
    for (float& x : in) x = static_cast<float>(random.next() % 64);
    for (int i = 0; i < n; ++i)
        for (int j = -kRadius; j <= kRadius; ++j)
            if (i + j >= 0 && i + j < n) want[i] += host_weights[j + kRadius] * in[i + j];
    CHECK(cudaMemcpyToSymbol(weights, host_weights, sizeof host_weights));
    float back[2 * kRadius + 1];
    CHECK(cudaMemcpyFromSymbol(back, weights, sizeof back));
    void* address = nullptr;
    size_t bytes = 0;
    CHECK(cudaGetSymbolAddress(&address, weights));
    CHECK(cudaGetSymbolSize(&bytes, weights));
    printf("constant memory: %zu bytes, middle weight %g\n", bytes, back[kRadius]);
    Device<float> source(in), target(n);
    stencil<<<(n + kBlock - 1) / kBlock, kBlock>>>(source, target, n);
    CHECK_LAUNCH();
    compare("stencil", target.host(), want);
}
