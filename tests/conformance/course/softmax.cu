// Softmax and layer normalisation of rows, with a template for the operation that a block reduces by.
#include <cfloat>

#include "course.h"

struct Sum {
    __device__ static float join(float a, float b) { return a + b; }
    static constexpr float none = 0;
};
struct Most {
    __device__ static float join(float a, float b) { return fmaxf(a, b); }
    static constexpr float none = -FLT_MAX;
};

template <typename Operation>
__device__ float block_reduce(float value) {
    __shared__ float parts[32];
    for (int step = 16; step > 0; step /= 2) value = Operation::join(value, __shfl_xor_sync(~0u, value, step));
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = threadIdx.x % 32 < blockDim.x / 32 ? parts[threadIdx.x % 32] : Operation::none;
    for (int step = 16; step > 0; step /= 2) value = Operation::join(value, __shfl_xor_sync(~0u, value, step));
    return value;
}

__global__ void softmax(const float* in, float* out, int columns) {
    const float* row = in + blockIdx.x * columns;
    float most = -FLT_MAX, sum = 0;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) most = fmaxf(most, row[i]);
    most = block_reduce<Most>(most);
    for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += expf(row[i] - most);
    sum = block_reduce<Sum>(sum);
    for (int i = threadIdx.x; i < columns; i += blockDim.x) out[blockIdx.x * columns + i] = expf(row[i] - most) / sum;
}

__global__ void normalise(const float* in, float* out, int columns) {
    const float* row = in + blockIdx.x * columns;
    float sum = 0, squares = 0;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += row[i];
    const float mean = block_reduce<Sum>(sum) / columns;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) squares += (row[i] - mean) * (row[i] - mean);
    const float scale = rsqrtf(block_reduce<Sum>(squares) / columns + 1e-5f);
    for (int i = threadIdx.x; i < columns; i += blockDim.x) out[blockIdx.x * columns + i] = (row[i] - mean) * scale;
}

int main() {
    const int rows = 9, columns = 301;
    Random random(14);
    std::vector<float> in(rows * columns), soft(rows * columns), normal(rows * columns);
    for (float& x : in) x = 10 * random.unit() - 5;
    for (int row = 0; row < rows; ++row) {
        const float* line = &in[row * columns];
        double sum = 0, mean = 0, squares = 0;
        for (int i = 0; i < columns; ++i) sum += std::exp(static_cast<double>(line[i])), mean += line[i] / columns;
        for (int i = 0; i < columns; ++i) squares += (line[i] - mean) * (line[i] - mean) / columns;
        for (int i = 0; i < columns; ++i) {
            soft[row * columns + i] = static_cast<float>(std::exp(static_cast<double>(line[i])) / sum);
            normal[row * columns + i] = static_cast<float>((line[i] - mean) / std::sqrt(squares + 1e-5));
        }
    }
    Device<float> data(in), out(rows * columns);
    softmax<<<rows, 128>>>(data, out, columns);
    CHECK_LAUNCH();
    compare("softmax", out.host(), soft, 1e-6);
    normalise<<<rows, 128>>>(data, out, columns);
    CHECK_LAUNCH();
    compare("layer normalisation", out.host(), normal, 1e-5);
}
