// A sparse matrix times a vector: a thread a row, and a warp a row.
#include "course.h"

__global__ void by_thread(const int* start, const int* column, const float* value, const float* x, float* y, int rows) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0;
    for (int i = start[row]; i < start[row + 1]; ++i) sum += value[i] * __ldg(&x[column[i]]);
    y[row] = sum;
}

__global__ void by_warp(const int* start, const int* column, const float* value, const float* x, float* y, int rows) {
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float sum = 0;
    for (int i = start[row] + lane; i < start[row + 1]; i += 32) sum += value[i] * x[column[i]];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (lane == 0) y[row] = sum;
}

int main() {
    const int rows = 333, columns = 400;
    Random random(10);
    std::vector<int> start{0}, column;
    std::vector<float> value, x(columns), want(rows);
    for (float& v : x) v = static_cast<float>(random.next() % 10);
    for (int row = 0; row < rows; ++row) {
        const int entries = row % 50 == 7 ? 200 : random.next() % 6;
        for (int i = 0; i < entries; ++i) {
            column.push_back(random.next() % columns);
            value.push_back(static_cast<float>(random.next() % 7) - 3);
            want[row] += value.back() * x[column.back()];
        }
        start.push_back(static_cast<int>(column.size()));
    }
    Device<int> starts(start), places(column);
    Device<float> values(value), vector(x), result(rows);
    by_thread<<<(rows + 63) / 64, 64>>>(starts, places, values, vector, result, rows);
    CHECK_LAUNCH();
    compare("a thread a row", result.host(), want);
    CHECK(cudaMemset(result, 0, rows * sizeof(float)));
    by_warp<<<(rows * 32 + 127) / 128, 128>>>(starts, places, values, vector, result, rows);
    CHECK_LAUNCH();
    compare("a warp a row", result.host(), want);
}
