// What each program of the course shares: a check of every call, and a comparison with the CPU's result.
#pragma once
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

inline void check(cudaError_t error, const char* call) {
    if (error == cudaSuccess) return;
    std::printf("%s: %s (%s)\n", call, cudaGetErrorString(error), cudaGetErrorName(error));
    std::exit(1);
}
#define CHECK(call) check((call), #call)
#define CHECK_LAUNCH() check(cudaGetLastError(), "launch")

// Device memory that holds a copy of a vector and goes back at the end of its scope.
template <typename T>
struct Device {
    T* data = nullptr;
    size_t count = 0;
    explicit Device(size_t n) : count(n) { CHECK(cudaMalloc(&data, n * sizeof(T))); }
    explicit Device(const std::vector<T>& host) : Device(host.size()) {
        CHECK(cudaMemcpy(data, host.data(), count * sizeof(T), cudaMemcpyHostToDevice));
    }
    Device(const Device&) = delete;
    ~Device() { CHECK(cudaFree(data)); }
    operator T*() const { return data; }
    std::vector<T> host() const {
        std::vector<T> copy(count);
        CHECK(cudaMemcpy(copy.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost));
        return copy;
    }
};

// Numbers that are the same on every machine.
struct Random {
    unsigned state;
    explicit Random(unsigned seed) : state(seed) {}
    unsigned next() { return state = state * 1664525u + 1013904223u; }
    float unit() { return static_cast<float>(next() >> 8) / 16777216.0f; }
};

template <typename T>
inline void compare(const char* what, const std::vector<T>& got, const std::vector<T>& want, double tolerance = 0) {
    for (size_t i = 0; i < want.size(); ++i) {
        const double off = std::fabs(static_cast<double>(got[i]) - static_cast<double>(want[i]));
        if (!(off <= tolerance * (1 + std::fabs(static_cast<double>(want[i]))))) {
            std::printf("%s: element %zu is %g, and the CPU has %g\n", what, i, static_cast<double>(got[i]),
                        static_cast<double>(want[i]));
            std::exit(1);
        }
    }
    std::printf("%s: %zu elements as on the CPU\n", what, want.size());
}
