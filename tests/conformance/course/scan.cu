// An exclusive prefix sum over more elements than a block has: Blelloch's scan, sums of blocks, and their scan.
#include "course.h"

constexpr int kBlock = 128, kSpan = 2 * kBlock;

__global__ void scan_blocks(int* data, int* sums, int n) {
    __shared__ int tree[kSpan];
    const int base = blockIdx.x * kSpan, t = threadIdx.x;
    tree[2 * t] = base + 2 * t < n ? data[base + 2 * t] : 0;
    tree[2 * t + 1] = base + 2 * t + 1 < n ? data[base + 2 * t + 1] : 0;
    int step = 1;
    for (int active = kBlock; active > 0; active /= 2, step *= 2) {
        __syncthreads();
        if (t < active) tree[step * (2 * t + 2) - 1] += tree[step * (2 * t + 1) - 1];
    }
    __syncthreads();
    if (t == 0) {
        if (sums) sums[blockIdx.x] = tree[kSpan - 1];
        tree[kSpan - 1] = 0;
    }
    for (int active = 1; active <= kBlock; active *= 2) {
        step /= 2;
        __syncthreads();
        if (t < active) {
            const int left = step * (2 * t + 1) - 1, right = step * (2 * t + 2) - 1, old = tree[left];
            tree[left] = tree[right];
            tree[right] += old;
        }
    }
    __syncthreads();
    if (base + 2 * t < n) data[base + 2 * t] = tree[2 * t];
    if (base + 2 * t + 1 < n) data[base + 2 * t + 1] = tree[2 * t + 1];
}

__global__ void add_sums(int* data, const int* sums, int n) {
    const int i = blockIdx.x * kSpan + threadIdx.x;
    for (int j = i; j < n && j < (blockIdx.x + 1) * kSpan; j += blockDim.x) data[j] += sums[blockIdx.x];
}

int main() {
    const int n = 20011, blocks = (n + kSpan - 1) / kSpan;
    Random random(3);
    std::vector<int> in(n), want(n);
    int sum = 0;
    for (int i = 0; i < n; ++i) {
        in[i] = random.next() % 100;
        want[i] = sum;
        sum += in[i];
    }
    Device<int> data(in), sums(blocks);
    scan_blocks<<<blocks, kBlock>>>(data, sums, n);
    scan_blocks<<<1, kBlock>>>(sums, nullptr, blocks);
    add_sums<<<blocks, kBlock>>>(data, sums, n);
    CHECK_LAUNCH();
    compare("exclusive scan", data.host(), want);
}
