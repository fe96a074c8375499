// Heat on a plate: pitched memory, two-dimensional copies, two buffers that change places.
#include <algorithm>

#include "course.h"

__global__ void step(const float* from, float* to, size_t pitch, int width, int height) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    const auto row = [&](int r) { return reinterpret_cast<const float*>(reinterpret_cast<const char*>(from) + r * pitch); };
    float* out = reinterpret_cast<float*>(reinterpret_cast<char*>(to) + y * pitch);
    if (x == 0 || y == 0 || x == width - 1 || y == height - 1) {
        out[x] = row(y)[x];
    } else {
        out[x] = 0.25f * (row(y)[x - 1] + row(y)[x + 1] + row(y - 1)[x] + row(y + 1)[x]);
    }
}

int main() {
    const int width = 50, height = 37, steps = 60;
    std::vector<float> plate(width * height), other(width * height);
    for (int x = 0; x < width; ++x) plate[x] = 1024;
    float *a = nullptr, *b = nullptr;
    size_t pitch = 0, second = 0;
    CHECK(cudaMallocPitch(&a, &pitch, width * sizeof(float), height));
    CHECK(cudaMallocPitch(&b, &second, width * sizeof(float), height));
    printf("pitch: %s\n", pitch == second && pitch >= width * sizeof(float) && pitch % 32 == 0 ? "plausible" : "odd");
    CHECK(cudaMemcpy2D(a, pitch, plate.data(), width * sizeof(float), width * sizeof(float), height, cudaMemcpyHostToDevice));
    CHECK(cudaMemset2D(b, pitch, 0, width * sizeof(float), height));
    for (int i = 0; i < steps; ++i, std::swap(a, b)) {
        step<<<dim3((width + 15) / 16, (height + 7) / 8), dim3(16, 8)>>>(a, b, pitch, width, height);
    }
    CHECK_LAUNCH();
    std::vector<float> got(width * height);
    CHECK(cudaMemcpy2D(got.data(), width * sizeof(float), a, pitch, width * sizeof(float), height, cudaMemcpyDeviceToHost));
    for (int i = 0; i < steps; ++i, std::swap(plate, other)) {
        for (int y = 0; y < height; ++y)
            for (int x = 0; x < width; ++x) {
                const int at = y * width + x;
                const bool edge = x == 0 || y == 0 || x == width - 1 || y == height - 1;
                other[at] = edge ? plate[at] : 0.25f * (plate[at - 1] + plate[at + 1] + plate[at - width] + plate[at + width]);
            }
    }
    compare("plate", got, plate, 1e-5);
    CHECK(cudaFree(a));
    CHECK(cudaFree(b));
}
