// Pi from points in a square, by cuRAND: prints it, and whether the same seed gives the same again.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

#if __has_include(<curand.h>)
#include <curand.h>
#else  // as the documentation has them
typedef struct curandGenerator_st *curandGenerator_t;
enum { CURAND_RNG_PSEUDO_PHILOX4_32_10 = 161 };
extern "C" int curandCreateGenerator(curandGenerator_t *, int);
extern "C" int curandSetPseudoRandomGeneratorSeed(curandGenerator_t, unsigned long long);
extern "C" int curandGenerateUniform(curandGenerator_t, float *, size_t);
extern "C" int curandDestroyGenerator(curandGenerator_t);
#endif

#define CHECK(call)                                                   \
    do {                                                              \
        int status = static_cast<int>(call);                          \
        if (status != 0) {                                            \
            fprintf(stderr, "%s: status %d\n", #call, status);        \
            exit(1);                                                  \
        }                                                             \
    } while (0)

__global__ void count(const float *x, const float *y, int n, unsigned long long *inside) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] * x[i] + y[i] * y[i] <= 1) atomicAdd(inside, 1ull);
}

unsigned long long points_inside(int n) {
    float *points;
    unsigned long long *inside, result;
    curandGenerator_t generator;
    CHECK(cudaMalloc(&points, 2 * n * sizeof(float)));
    CHECK(cudaMalloc(&inside, sizeof *inside));
    CHECK(cudaMemset(inside, 0, sizeof *inside));
    CHECK(curandCreateGenerator(&generator, CURAND_RNG_PSEUDO_PHILOX4_32_10));
    CHECK(curandSetPseudoRandomGeneratorSeed(generator, 1234));
    CHECK(curandGenerateUniform(generator, points, 2 * n));
    count<<<(n + 255) / 256, 256>>>(points, points + n, n, inside);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(&result, inside, sizeof result, cudaMemcpyDeviceToHost));
    CHECK(curandDestroyGenerator(generator));
    CHECK(cudaFree(points));
    CHECK(cudaFree(inside));
    return result;
}

int main() {
    const int n = 1 << 18;
    const unsigned long long first = points_inside(n), again = points_inside(n);
    const double pi = 4.0 * first / n;
    printf("%s %s\n", fabs(pi - 3.14159265) < 0.02 ? "pi" : "not pi", first == again ? "again" : "different");
}
