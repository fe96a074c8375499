// A wave's transform by cuFFT, made and looked at by kernels: prints where its two lines are.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

#if __has_include(<cufft.h>)
#include <cufft.h>
#else  // as the documentation has them
typedef int cufftHandle;
typedef float2 cufftComplex;
enum { CUFFT_C2C = 0x29, CUFFT_FORWARD = -1 };
extern "C" int cufftPlan1d(cufftHandle *, int, int, int);
extern "C" int cufftExecC2C(cufftHandle, cufftComplex *, cufftComplex *, int);
extern "C" int cufftDestroy(cufftHandle);
#endif

#define CHECK(call)                                                   \
    do {                                                              \
        int status = static_cast<int>(call);                          \
        if (status != 0) {                                            \
            fprintf(stderr, "%s: status %d\n", #call, status);        \
            exit(1);                                                  \
        }                                                             \
    } while (0)

__global__ void wave(cufftComplex *x, int n, int turns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = {cospif(2.0f * turns * i / n), 0};
}

__global__ void magnitudes(const cufftComplex *x, float *size, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) size[i] = sqrtf(x[i].x * x[i].x + x[i].y * x[i].y);
}

int main() {
    const int n = 1024, turns = 37;
    cufftComplex *x;
    float *size;
    cufftHandle plan;
    CHECK(cudaMallocManaged(&x, n * sizeof *x));
    CHECK(cudaMallocManaged(&size, n * sizeof *size));
    CHECK(cufftPlan1d(&plan, n, CUFFT_C2C, 1));
    wave<<<n / 256, 256>>>(x, n, turns);
    CHECK(cufftExecC2C(plan, x, x, CUFFT_FORWARD));
    magnitudes<<<n / 256, 256>>>(x, size, n);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < n; ++i) {
        if (size[i] > 1) printf("%d %.0f\n", i, size[i]);
    }
    CHECK(cufftDestroy(plan));
}
