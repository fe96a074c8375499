// A fast Fourier transform in shared memory, there and back again.
#include "course.h"

constexpr int kPoints = 256;

__device__ float2 times(float2 a, float2 b) { return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }

__global__ void fft(float2* data, float sign) {
    __shared__ float2 line[kPoints];
    const int t = threadIdx.x;
    float2* mine = data + blockIdx.x * kPoints;
    for (int i = t; i < kPoints; i += blockDim.x) line[__brev(i) >> 24] = mine[i];
    for (int half = 1; half < kPoints; half *= 2) {
        __syncthreads();
        const int group = t / half, at = t % half, low = 2 * group * half + at, high = low + half;
        float s, c;
        sincospif(sign * at / half, &s, &c);
        const float2 turned = times(make_float2(c, s), line[high]), base = line[low];
        line[low] = make_float2(base.x + turned.x, base.y + turned.y);
        line[high] = make_float2(base.x - turned.x, base.y - turned.y);
    }
    __syncthreads();
    for (int i = t; i < kPoints; i += blockDim.x) mine[i] = line[i];
}

int main() {
    const int lines = 3;
    Random random(12);
    std::vector<float2> in(lines * kPoints);
    for (auto& x : in) x = make_float2(random.unit(), random.unit());
    Device<float2> data(in);
    fft<<<lines, kPoints / 2>>>(data, -1);
    CHECK_LAUNCH();
    const auto spectrum = data.host();
    std::vector<float> got, want;
    for (int line = 0; line < lines; ++line)
        for (int k = 0; k < kPoints; k += 37) {
            double re = 0, im = 0;
            for (int i = 0; i < kPoints; ++i) {
                const double angle = -2 * 3.14159265358979323846 * k * i / kPoints;
                const float2 x = in[line * kPoints + i];
                re += x.x * std::cos(angle) - x.y * std::sin(angle);
                im += x.x * std::sin(angle) + x.y * std::cos(angle);
            }
            got.insert(got.end(), {spectrum[line * kPoints + k].x, spectrum[line * kPoints + k].y});
            want.insert(want.end(), {static_cast<float>(re), static_cast<float>(im)});
        }
    compare("spectrum", got, want, 1e-4);
    fft<<<lines, kPoints / 2>>>(data, 1);
    CHECK_LAUNCH();
    got.clear(), want.clear();
    const auto back = data.host();
    for (size_t i = 0; i < back.size(); ++i) {
        got.push_back(back[i].x / kPoints);
        want.push_back(in[i].x);
    }
    compare("and back", got, want, 1e-5);
}
