// Cooperative groups: tiles of a warp, groups of those who came, and a whole grid that waits for itself.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include "course.h"

namespace cg = cooperative_groups;

__global__ void tiles(const int* in, int* sums, int* odd) {
    const auto block = cg::this_thread_block();
    const auto tile = cg::tiled_partition<8>(block);
    const int value = in[block.thread_rank()];
    const int sum = cg::reduce(tile, value, cg::plus<int>());
    if (tile.thread_rank() == 0) sums[block.thread_rank() / 8] = sum;
    if (value % 2) {
        const auto here = cg::coalesced_threads();
        if (here.thread_rank() == 0) atomicAdd(odd, static_cast<int>(here.size()));
    }
}

// Each round halves the data; every block needs what the others wrote in the round before.
__global__ void halve(int* data, int n) {
    const auto grid = cg::this_grid();
    for (; n > 1; n /= 2) {
        for (int i = grid.thread_rank(); i < n / 2; i += grid.size()) data[i] += data[i + n / 2];
        grid.sync();
    }
}

int main() {
    const int threads = 96, n = 4096;
    std::vector<int> in(threads), want(threads / 8);
    int odd_count = 0;
    for (int i = 0; i < threads; ++i) {
        want[i / 8] += in[i] = i * 7 % 13;
        odd_count += in[i] % 2;
    }
    Device<int> data(in), sums(threads / 8), odd(1);
    CHECK(cudaMemset(odd, 0, sizeof(int)));
    tiles<<<1, threads>>>(data, sums, odd);
    CHECK_LAUNCH();
    compare("tiles", sums.host(), want);
    compare("odd values", odd.host(), std::vector<int>{odd_count});
    int supported = 0, blocks = 0;
    CHECK(cudaDeviceGetAttribute(&supported, cudaDevAttrCooperativeLaunch, 0));
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, halve, 128, 0));
    printf("cooperative launch: %d, blocks a multiprocessor: %s\n", supported, blocks > 0 ? "some" : "none");
    std::vector<int> ones(n, 1);
    Device<int> all(ones);
    int* pointer = all;
    int count = n;
    void* arguments[] = {&pointer, &count};
    CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(halve), dim3(4), dim3(128), arguments, 0, nullptr));
    int total = 0;
    CHECK(cudaMemcpy(&total, pointer, sizeof total, cudaMemcpyDeviceToHost));
    printf("grid sum: %d\n", total);
    const auto refused = cudaLaunchCooperativeKernel(reinterpret_cast<void*>(halve), dim3(1 << 20), dim3(128), arguments, 0, nullptr);
    printf("a million blocks: %s\n", cudaGetErrorString(refused));
}
