// Kernels of a CUDA C++ course with the bugs that students write, and their corrected forms.
//
// As a program: `course wrong` or `course right` runs them, with a device's number on that device. What they compute
// is not looked at.
#include <cooperative_groups.h>
#include <mma.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace cg = cooperative_groups;

constexpr int kTile = 16, kThreads = 256;

struct Data {
    float *in, *out;
    int* counts;
};

template <bool right>
__global__ void tiled_product(Data data) {
    __shared__ float a[kTile][kTile], b[kTile][kTile];
    const int row = threadIdx.y, column = threadIdx.x, width = 2 * kTile;
    float sum = 0;
    for (int tile = 0; tile < width; tile += kTile) {
        a[row][column] = data.in[row * width + tile + column];
        b[row][column] = data.in[(tile + row) * width + column];
        __syncthreads();
        for (int k = 0; k < kTile; ++k) sum += a[row][k] * b[k][column];
        if (right) __syncthreads();
    }
    data.out[row * kTile + column] = sum;
}

// The last warp without barriers, as it was written for GPUs whose lanes went in step.
template <bool right>
__global__ void warp_reduction(Data data) {
    __shared__ volatile float part[64];
    const int t = threadIdx.x;
    part[t] = data.in[t];
    __syncthreads();
    if (t >= 32) return;
    for (int step = 32; step > 0; step /= 2) {
        const float other = part[t + step];
        if (right) __syncwarp();
        part[t] = part[t] + other;
        if (right) __syncwarp();
    }
    if (t == 0) data.out[0] = part[0];
}

template <bool right>
__global__ void lock(Data data) {
    __shared__ int held, count;
    if (threadIdx.x == 0) held = count = 0;
    __syncthreads();
    bool done = false;
    while (!done) {
        if (atomicCAS(&held, 0, 1) == 0) {
            if (right) __threadfence_block();
            ++count;
            if (right) __threadfence_block();
            atomicExch(&held, 0);
            done = true;
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) data.counts[0] = count;
}

template <bool right>
__global__ void flag(Data data) {
    __shared__ volatile int ready;
    __shared__ float value;
    if (threadIdx.x == 0) ready = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        value = data.in[0];
        if (right) __threadfence_block();
        ready = 1;
    } else if (threadIdx.x == 64) {
        while (!ready) {
        }
        if (right) __threadfence_block();
        data.out[0] = value;
    }
}

// Threads 0 to 63 fill, threads 64 to 127 use, and meet at a barrier of their own.
template <bool right>
__global__ void named_barriers(Data data) {
    __shared__ float part[64];
    const int t = threadIdx.x;
    if (t < 64) {
        part[t] = data.in[t];
        asm volatile("bar.arrive 1, 128;" ::: "memory");
    } else if (t < 128) {
        if (right) asm volatile("bar.sync 1, 128;" ::: "memory");
        data.out[t] = part[127 - t];
        if (!right) asm volatile("bar.sync 1, 128;" ::: "memory");
    }
}

template <bool right>
__global__ void group_of_lanes(Data data) {
    __shared__ float part[kThreads];
    const auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    const int t = threadIdx.x;
    part[t] = data.in[t];
    if (right) tile.sync();
    data.out[t] = part[t ^ 15];
}

template <bool right>
__global__ void dynamic_halo(Data data) {
    extern __shared__ float line[];
    const int t = threadIdx.x;
    line[t] = data.in[t];
    if (right) __syncthreads();
    data.out[t] = line[(t + 1) % blockDim.x];
}

template <bool right>
__global__ void branch_barrier(Data data) {
    __shared__ float part[kThreads];
    const int t = threadIdx.x;
    part[t] = data.in[t];
    if (right) {
        __syncthreads();
    } else if (t % 2 == 0) {
        __syncthreads();
        part[t] += 1;
    } else {
        __syncthreads();
        part[t] += 2;
    }
    data.out[t] = part[t];
}

template <bool right>
__global__ void matrix_of_a_warp(Data data) {
    using namespace nvcuda;
    __shared__ half a[256], b[256];
    __shared__ float c[256];
    for (int i = threadIdx.x; i < 256; i += 32) a[i] = b[i] = __float2half(1);
    if (right) __syncwarp();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> factor;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0);
    wmma::load_matrix_sync(left, a, 16);
    wmma::load_matrix_sync(factor, b, 16);
    wmma::mma_sync(sum, left, factor, sum);
    wmma::store_matrix_sync(c, sum, 16, wmma::mem_row_major);
    if (right) __syncwarp();
    data.out[threadIdx.x] = c[threadIdx.x * 8 + 7];
}

// The same with the instruction that reads rows.
template <bool right>
__global__ void rows_of_a_matrix(Data data) {
    __shared__ __align__(16) half rows[64];
    const int t = threadIdx.x;
    rows[t] = rows[t + 32] = __float2half(1);
    if (right) __syncwarp();
    unsigned pair;
    const auto row = unsigned(__cvta_generic_to_shared(&rows[t % 8 * 8]));
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(pair) : "r"(row) : "memory");
    data.counts[t] = int(pair);
}

// Copies that go on in the background until they are waited for.
template <bool right>
__global__ void background_copy(Data data) {
    __shared__ float part[kThreads];
    const int t = threadIdx.x;
    const auto to = unsigned(__cvta_generic_to_shared(&part[t]));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(data.in + t) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    if (right) asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    data.out[t] = part[kThreads - 1 - t];
}

// Shared memory is what an earlier block left there.
template <bool right>
__global__ void counters(Data data) {
    __shared__ int counts[32];
    const int t = threadIdx.x;
    if (right && t < 32) counts[t] = 0;
    __syncthreads();
    atomicAdd(&counts[int(data.in[t]) % 32], 1);
    __syncthreads();
    if (t < 32) data.counts[t] = counts[t];
}

template <bool right>
__global__ void histogram(Data data) {
    __shared__ int counts[4];
    const int t = threadIdx.x, bin = t % 4;
    if (t < 4) counts[t] = 0;
    __syncthreads();
    if (right)
        atomicAdd(&counts[bin], 1);
    else
        counts[bin] += 1;
    __syncthreads();
    if (t < 4) data.counts[t] = counts[t];
}

// An own double-precision addition, as the programming guide has it: a plain read, then compare and swap.
template <bool right>
__global__ void own_addition(Data data) {
    __shared__ int sum;
    if (threadIdx.x == 0) sum = 0;
    if (right) __syncthreads();
    int seen = sum, expected;
    do {
        expected = seen;
        seen = atomicCAS(&sum, expected, expected + 1);
    } while (seen != expected);
    __syncthreads();
    if (threadIdx.x == 0) data.counts[0] = sum;
}

template <bool right>
__global__ void sum_of_blocks(Data data) {
    const float value = data.in[blockIdx.x * blockDim.x + threadIdx.x];
    if (right)
        atomicAdd(&data.out[0], value);
    else
        data.out[0] += value;
}

// In place, so that a block reads what its neighbour writes.
template <bool right>
__global__ void smooth(Data data) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    const float next = data.in[(i + 1) % n], own = data.in[i];
    __syncthreads();
    (right ? data.out : data.in)[i] = (own + next) / 2;
}

// The last block to come adds up what the others have left.
template <bool right>
__global__ void last_block(Data data) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        data.out[1 + blockIdx.x] = data.in[blockIdx.x];
        if (right) __threadfence();
        last = atomicAdd(data.counts, 1) == int(gridDim.x) - 1;
    }
    __syncthreads();
    if (!last || threadIdx.x != 0) return;
    if (right) __threadfence();
    float sum = 0;
    for (unsigned i = 0; i < gridDim.x; ++i) sum += data.out[1 + i];
    data.out[0] = sum;
}

template <bool right>
__global__ void whole_grid(Data data) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    data.out[i] = data.in[i];
    if (right) cg::this_grid().sync();
    data.in[i] = data.out[n - 1 - i];
}

struct Exercise {
    const char* name;
    void (*wrong)(Data);
    void (*right)(Data);
    dim3 grid, block;
    size_t shared = 0;
    bool cooperative = false;
};

#define EXERCISE(name, ...) {#name, name<false>, name<true>, __VA_ARGS__}
const Exercise kExercises[] = {
    EXERCISE(tiled_product, 1, dim3(kTile, kTile)),
    EXERCISE(warp_reduction, 1, 64),
    EXERCISE(lock, 1, 128),
    EXERCISE(flag, 1, 128),
    EXERCISE(named_barriers, 1, 160),
    EXERCISE(group_of_lanes, 1, kThreads),
    EXERCISE(dynamic_halo, 1, kThreads, kThreads * sizeof(float)),
    EXERCISE(branch_barrier, 1, kThreads),
    EXERCISE(matrix_of_a_warp, 1, 32),
    EXERCISE(rows_of_a_matrix, 1, 32),
    EXERCISE(background_copy, 1, kThreads),
    EXERCISE(counters, 1, 64),
    EXERCISE(histogram, 1, 64),
    EXERCISE(own_addition, 1, 64),
    EXERCISE(sum_of_blocks, 4, 1),
    EXERCISE(smooth, 4, 64),
    EXERCISE(last_block, 8, 32),
    EXERCISE(whole_grid, 4, 64, 0, true),
};

int main(int count, char** arguments) {
    const bool right = count > 1 && std::strcmp(arguments[1], "right") == 0;
    cudaSetDevice(count > 2 ? std::atoi(arguments[2]) : 0);
    const std::vector<float> host(4096, 1.0f);
    const size_t bytes = host.size() * sizeof(float);
    for (const Exercise& exercise : kExercises) {
        Data data{};
        cudaMalloc(&data.in, bytes);
        cudaMalloc(&data.out, bytes);
        cudaMalloc(&data.counts, bytes);
        cudaMemcpy(data.in, host.data(), bytes, cudaMemcpyHostToDevice);
        cudaMemset(data.out, 0, bytes);
        cudaMemset(data.counts, 0, bytes);
        void* parameters[] = {&data};
        auto* kernel = reinterpret_cast<void*>(right ? exercise.right : exercise.wrong);
        auto* launch = exercise.cooperative ? cudaLaunchCooperativeKernel<void> : cudaLaunchKernel<void>;
        launch(kernel, exercise.grid, exercise.block, parameters, exercise.shared, nullptr);
        std::printf("%s: %s\n", exercise.name, cudaGetErrorString(cudaDeviceSynchronize()));
    }
}
