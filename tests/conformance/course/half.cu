// Half precision and bfloat16: conversions, arithmetic in pairs, and a comparison with what rounding must give.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "course.h"

__global__ void axpy(const __half2* x, __half2* y, __half2 a, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __hfma2(a, x[i], y[i]);
}

__global__ void brain(const float* in, float* out, int n) {
    const int i = threadIdx.x;
    if (i >= n) return;
    const __nv_bfloat16 value = __float2bfloat16(in[i]);
    out[2 * i] = __bfloat162float(value);
    out[2 * i + 1] = __bfloat162float(__hmul(value, value));
}

__global__ void specials(float* out) {
    const __half big = __float2half(60000.0f);
    out[0] = __half2float(__hadd(big, big));
    out[1] = __half2float(__float2half(1e-7f));
    out[2] = __hisnan(__hsub(__hadd(big, big), __hadd(big, big)));
    out[3] = __hlt(__float2half(1), __float2half(2));
    out[4] = __half2float(hsqrt(__float2half(2)));
    out[5] = __half2int_rn(__float2half(2.5f));
    out[6] = __half2int_ru(__float2half(2.25f));
    out[7] = __half2float(__hmax(__float2half(-1), __float2half(3)));
}

int main() {
    const int n = 64;
    std::vector<__half2> x(n), y(n);
    std::vector<float> want;
    for (int i = 0; i < n; ++i) {
        x[i] = __floats2half2_rn(i * 0.25f, -i);
        y[i] = __floats2half2_rn(1, i);
        want.push_back(i * 0.5f + 1);
        want.push_back(-2.0f * i + i);
    }
    Device<__half2> dx(x), dy(y);
    axpy<<<2, 32>>>(dx, dy, __floats2half2_rn(2, 2), n);
    CHECK_LAUNCH();
    std::vector<float> got;
    for (const __half2 pair : dy.host()) {
        got.push_back(__low2float(pair));
        got.push_back(__high2float(pair));
    }
    compare("pairs", got, want);
    const std::vector<float> in{1.0f, 3.14159274f, -0.1f, 1e38f, 256.5f};
    Device<float> din(in), dout(2 * in.size());
    brain<<<1, 32>>>(din, dout, static_cast<int>(in.size()));
    CHECK_LAUNCH();
    for (float v : dout.host()) printf("%.9g ", v);
    printf("\n");
    Device<float> out(8);
    specials<<<1, 1>>>(out);
    CHECK_LAUNCH();
    for (float v : out.host()) printf("%g ", v);
    printf("\n");
}
