// The first program of every course: two vectors, a sum, and the errors that a student makes.
#include <cstdio>
#include <vector>

__constant__ float offset[3];

__global__ void add(const float* a, const float* b, float* sum, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) sum[i] = a[i] + b[i] + offset[1];
}

static void check(cudaError_t error, const char* call) {
    if (error != cudaSuccess)
        std::printf("%s: %s (%s)\n", call, cudaGetErrorName(error), cudaGetErrorString(error));
}
#define CHECK(call) check(call, #call)

int main() {
    const int n = 1000;
    std::vector<float> host(n), result(n);
    for (int i = 0; i < n; ++i) host[i] = i;
    float *a, *b, *sum;
    CHECK(cudaMalloc(&a, n * sizeof(float)));
    CHECK(cudaMalloc(&b, n * sizeof(float)));
    CHECK(cudaMalloc(&sum, n * sizeof(float)));
    CHECK(cudaMemcpy(a, host.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(b, host.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    const float five[] = {0, 5, 0};
    CHECK(cudaMemcpyToSymbol(offset, five, sizeof five));
    add<<<(n + 255) / 256, 256>>>(a, b, sum, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(result.data(), sum, n * sizeof(float), cudaMemcpyDeviceToHost));
    std::printf("%g %g\n", result[3], result[n - 1]);

    add<<<1, 2048>>>(a, b, sum, n);
    std::printf("too many threads: %s\n", cudaGetErrorString(cudaGetLastError()));
    std::printf("then: %s\n", cudaGetErrorString(cudaGetLastError()));
    add<<<0, 32>>>(a, b, sum, n);
    std::printf("no blocks: %s\n", cudaGetErrorString(cudaPeekAtLastError()));
    std::printf("still: %s\n", cudaGetErrorString(cudaGetLastError()));
    std::printf("bad pointer: %s\n", cudaGetErrorString(cudaFree(host.data())));
    cudaGetLastError();

    int blocks, threads;
    CHECK(cudaOccupancyMaxPotentialBlockSize(&blocks, &threads, add));
    std::printf("%d threads a block\n", threads);
    CHECK(cudaFree(a));
    CHECK(cudaFree(b));
    CHECK(cudaFree(sum));
}
