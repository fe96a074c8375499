// Host threads, each with its own default stream; compiled with --default-stream per-thread.
#include <thread>

#include "course.h"

__global__ void chain(int* data, int n, int factor) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) data[i] = data[i] * factor + 1;
}

int main() {
    const int threads = 4, n = 2000, rounds = 20;
    std::vector<std::thread> workers;
    std::vector<std::vector<int>> results(threads);
    for (int t = 0; t < threads; ++t) {
        workers.emplace_back([t, &results] {
            CHECK(cudaSetDevice(0));
            std::vector<int> host(n, t);
            int* data = nullptr;
            CHECK(cudaMalloc(&data, n * sizeof(int)));
            CHECK(cudaMemcpyAsync(data, host.data(), n * sizeof(int), cudaMemcpyHostToDevice));
            for (int i = 0; i < rounds; ++i) chain<<<4, 128>>>(data, n, t + 1);
            CHECK(cudaMemcpyAsync(host.data(), data, n * sizeof(int), cudaMemcpyDeviceToHost));
            CHECK(cudaStreamSynchronize(cudaStreamPerThread));
            CHECK(cudaFree(data));
            results[t] = host;
        });
    }
    for (auto& worker : workers) worker.join();
    for (int t = 0; t < threads; ++t) {
        unsigned want = t;
        for (int i = 0; i < rounds; ++i) want = want * (t + 1) + 1;
        compare("a thread's chain", results[t], std::vector<int>(n, static_cast<int>(want)));
    }
}
