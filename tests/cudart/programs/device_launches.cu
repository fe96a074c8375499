// Kernels that launch kernels, as CUDA 12 and later compile them.
#include <cooperative_groups.h>

#include <cstdio>
#include <vector>

namespace cg = cooperative_groups;

#define CHECK(call)                                                                   \
    do {                                                                              \
        const cudaError_t error = (call);                                             \
        if (error != cudaSuccess) printf("%s: %s\n", #call, cudaGetErrorString(error)); \
    } while (0)

struct Range {
    int first, last;
    double unused[3];
};

// Each part in a stream of its own; the deepest sort by selection.
__global__ void quicksort(int* values, Range range, char depth) {
    int low = range.first, high = range.last;
    if (high - low < 8 || depth > 12) {
        for (int i = low; i < high; ++i) {
            int least = i;
            for (int j = i + 1; j <= high; ++j) least = values[j] < values[least] ? j : least;
            const int value = values[i];
            values[i] = values[least], values[least] = value;
        }
        return;
    }
    const int pivot = values[(low + high) / 2];
    while (low <= high) {
        while (values[low] < pivot) ++low;
        while (values[high] > pivot) --high;
        if (low > high) break;
        const int value = values[low];
        values[low++] = values[high], values[high--] = value;
    }
    cudaStream_t left, right;
    cudaStreamCreateWithFlags(&left, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&right, cudaStreamNonBlocking);
    if (range.first < high) quicksort<<<1, 1, 0, left>>>(values, Range{range.first, high, {}}, depth + 1);
    if (low < range.last) quicksort<<<1, 1, 0, right>>>(values, Range{low, range.last, {}}, depth + 1);
    cudaStreamDestroy(left);
    cudaStreamDestroy(right);
}

__global__ void say(const char* what, int number) {
    printf("%s %d\n", what, number);
}

__global__ void in_order() {
    cudaEvent_t event;
    cudaStream_t stream;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    say<<<1, 1, 0, cudaStreamTailLaunch>>>("tail", 4);
    say<<<1, 1, 0, stream>>>("stream", 1);
    cudaEventRecord(event, stream);
    cudaStreamWaitEvent(0, event, 0);
    say<<<1, 1>>>("after the event", 2);
    say<<<1, 1>>>("block", 3);
    cudaEventDestroy(event);
    cudaStreamDestroy(stream);
}

template <int kThreads>
__global__ void sum_of_block(const int* values, int* sum) {
    extern __shared__ int part[];
    cg::thread_block block = cg::this_thread_block();
    auto tile = cg::tiled_partition<32>(block);
    int mine = values[block.thread_rank()];
    for (int step = tile.size() / 2; step > 0; step /= 2) mine += tile.shfl_down(mine, step);
    if (tile.thread_rank() == 0) part[tile.meta_group_rank()] = mine;
    block.sync();
    if (block.thread_rank() == 0) {
        for (int i = 1; i < kThreads / 32; ++i) part[0] += part[i];
        atomicAdd(sum, part[0]);
    }
}

__global__ void fill(int* values, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) values[i] = i;
}

__global__ void free_values(int* values) {
    cudaFree(values);
}

// Memory of a block, made, used and given back by kernels in order.
__global__ void sums(int* sum) {
    int* values;
    if (cudaMalloc(&values, 256 * sizeof(int)) != cudaSuccess) return;
    fill<<<2, 128>>>(values, 256);
    sum_of_block<256><<<1, 256, 8 * sizeof(int)>>>(values, sum);
    cudaMemsetAsync(values, 0, 128 * sizeof(int));
    sum_of_block<256><<<1, 256, 8 * sizeof(int)>>>(values, sum);
    free_values<<<1, 1, 0, cudaStreamTailLaunch>>>(values);
}

typedef void (*Kernel)(int*, int);
__device__ Kernel chosen = fill;

__global__ void through_a_pointer(int* values, int count) {
    chosen<<<1, count>>>(values, count);
}

__global__ void many(int* values) {
    fill<<<1, 1, 0, cudaStreamFireAndForget>>>(values, 1);
    if (cudaPeekAtLastError() != cudaSuccess) atomicAdd(values + 1, 1);
}

__global__ void large_block(int* values) {
    extern __shared__ int part[];
    part[14999 - threadIdx.x] = threadIdx.x;
    __syncthreads();
    values[threadIdx.x] = part[14999 - 31 + threadIdx.x];
}

__global__ void launch_large(int* values) {
    large_block<<<1, 32, 60000>>>(values);
}

__global__ void wrong(int* values) {
    fill<<<1, 2000>>>(values, 1);
    const cudaError_t error = cudaGetLastError();
    printf("%s: %s; then %s\n", cudaGetErrorName(error), cudaGetErrorString(error),
           cudaGetErrorName(cudaGetLastError()));
}

__global__ void ask() {
    int device, count, threads, sizes;
    size_t stack;
    cudaGetDevice(&device);
    cudaGetDeviceCount(&count);
    cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerBlock, device);
    sizes = cudaDeviceGetLimit(&stack, cudaLimitStackSize);
    printf("device %d of %d, %d threads, limit %d: %s\n", device, count, threads, sizes,
           stack >= 1024 ? "enough" : "little");
}

int main() {
    int* values;
    constexpr int kCount = 3000;
    CHECK(cudaMalloc(&values, kCount * sizeof(int)));
    std::vector<int> host(kCount);
    for (int i = 0; i < kCount; ++i) host[i] = int(i * 2654435761u >> 8) % 1000;
    CHECK(cudaMemcpy(values, host.data(), kCount * sizeof(int), cudaMemcpyHostToDevice));
    quicksort<<<1, 1>>>(values, Range{0, kCount - 1, {}}, 0);
    CHECK(cudaMemcpy(host.data(), values, kCount * sizeof(int), cudaMemcpyDeviceToHost));
    bool sorted = true;
    for (int i = 1; i < kCount; ++i) sorted = sorted && host[i - 1] <= host[i];
    printf("sorted: %d\n", sorted);

    in_order<<<1, 1>>>();
    CHECK(cudaDeviceSynchronize());

    CHECK(cudaMemset(values, 0, kCount * sizeof(int)));
    sums<<<3, 1>>>(values);
    CHECK(cudaMemcpy(host.data(), values, sizeof(int), cudaMemcpyDeviceToHost));
    printf("sums: %d\n", host[0] - 3 * (255 * 256 / 2) - 3 * (255 * 256 / 2 - 127 * 128 / 2));

    through_a_pointer<<<1, 1>>>(values, 100);
    CHECK(cudaMemcpy(host.data(), values, 100 * sizeof(int), cudaMemcpyDeviceToHost));
    printf("through a pointer: %d\n", host[99]);

    // A graph that holds a parent, and no more launches pending than the limit says.
    CHECK(cudaMemset(values, 0, kCount * sizeof(int)));
    CHECK(cudaDeviceSetLimit(cudaLimitDevRuntimePendingLaunchCount, 3000));
    size_t pending;
    CHECK(cudaDeviceGetLimit(&pending, cudaLimitDevRuntimePendingLaunchCount));
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t instance;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    many<<<3, 1000, 0, stream>>>(values);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&instance, graph, 0));
    for (int i = 0; i < 2; ++i) CHECK(cudaGraphLaunch(instance, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(host.data(), values, 2 * sizeof(int), cudaMemcpyDeviceToHost));
    printf("limit %zu, refused launches: %d\n", pending, host[1]);

    CHECK(cudaFuncSetAttribute(large_block, cudaFuncAttributeMaxDynamicSharedMemorySize, 60000));
    launch_large<<<1, 1>>>(values);
    CHECK(cudaMemcpy(host.data(), values, 32 * sizeof(int), cudaMemcpyDeviceToHost));
    printf("large block: %d %d\n", host[0], host[31]);

    ask<<<1, 1>>>();
    CHECK(cudaDeviceSynchronize());
    wrong<<<1, 1>>>(values);
    CHECK(cudaDeviceSynchronize());
    return 0;
}
