// A transposition through a padded tile, for several types, by a template.
#include "course.h"

template <typename T>
__global__ void transpose(const T* in, T* out, int rows, int columns) {
    __shared__ T tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += blockDim.y)
        if (x < columns && y + i < rows) tile[threadIdx.y + i][threadIdx.x] = in[(y + i) * columns + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += blockDim.y)
        if (x < rows && y + i < columns) out[(y + i) * rows + x] = tile[threadIdx.x][threadIdx.y + i];
}

template <typename T>
void one(const char* name, int rows, int columns) {
    std::vector<T> in(rows * columns), want(rows * columns);
    for (int i = 0; i < rows; ++i)
        for (int j = 0; j < columns; ++j) want[j * rows + i] = in[i * columns + j] = static_cast<T>(i * 31 + j * 7);
    Device<T> source(in), target(rows * columns);
    transpose<T><<<dim3((columns + 31) / 32, (rows + 31) / 32), dim3(32, 8)>>>(source, target, rows, columns);
    CHECK_LAUNCH();
    compare(name, target.host(), want);
}

int main() {
    one<float>("float", 100, 77);
    one<double>("double", 33, 64);
    one<short>("short", 65, 31);
    one<char>("char", 1, 50);
}
