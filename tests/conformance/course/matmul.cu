// The matrix product, first with one thread an element, then with tiles in shared memory.
#include "course.h"

constexpr int kTile = 16;

__global__ void naive(const float* a, const float* b, float* c, int m, int n, int k) {
    const int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m || column >= n) return;
    float sum = 0;
    for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + column];
    c[row * n + column] = sum;
}

__global__ void tiled(const float* a, const float* b, float* c, int m, int n, int k) {
    __shared__ float left[kTile][kTile], right[kTile][kTile + 1];
    const int row = blockIdx.y * kTile + threadIdx.y, column = blockIdx.x * kTile + threadIdx.x;
    float sum = 0;
    for (int step = 0; step < k; step += kTile) {
        const int x = step + threadIdx.x, y = step + threadIdx.y;
        left[threadIdx.y][threadIdx.x] = row < m && x < k ? a[row * k + x] : 0;
        right[threadIdx.y][threadIdx.x] = y < k && column < n ? b[y * n + column] : 0;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < kTile; ++i) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && column < n) c[row * n + column] = sum;
}

int main() {
    const int m = 67, n = 45, k = 101;
    Random random(1);
    std::vector<float> a(m * k), b(k * n), want(m * n);
    for (float& x : a) x = random.unit() - 0.5f;
    for (float& x : b) x = random.unit() - 0.5f;
    for (int i = 0; i < m; ++i)
        for (int j = 0; j < n; ++j) {
            double sum = 0;
            for (int l = 0; l < k; ++l) sum += static_cast<double>(a[i * k + l]) * b[l * n + j];
            want[i * n + j] = static_cast<float>(sum);
        }
    Device<float> da(a), db(b), dc(m * n);
    const dim3 block(kTile, kTile), grid((n + kTile - 1) / kTile, (m + kTile - 1) / kTile);
    naive<<<grid, block>>>(da, db, dc, m, n, k);
    CHECK_LAUNCH();
    compare("naive product", dc.host(), want, 1e-5);
    CHECK(cudaMemset(dc, 0xff, m * n * sizeof(float)));
    tiled<<<grid, block>>>(da, db, dc, m, n, k);
    CHECK_LAUNCH();
    compare("tiled product", dc.host(), want, 1e-5);
}
