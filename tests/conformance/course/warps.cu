// What the lanes of a warp tell each other: votes, ballots, matches, shuffles, and who is active.
#include "course.h"

__global__ void ask(int* out) {
    const int lane = threadIdx.x;
    out[lane] = __all_sync(~0u, lane < 32) + 2 * __any_sync(~0u, lane == 5) + 4 * __all_sync(~0u, lane == 5);
    out[32 + lane] = __popc(__ballot_sync(~0u, lane % 3 == 0));
    out[64 + lane] = __shfl_up_sync(~0u, lane, 3, 16);
    out[96 + lane] = __shfl_sync(~0u, lane * lane, (lane + 1) % 32);
    out[128 + lane] = static_cast<int>(__match_any_sync(~0u, lane / 10));
    if (lane < 20 && lane % 2 == 0) out[160 + lane] = __popc(__activemask());
    __syncwarp();
    int rank = 0;
    if (lane > 10) rank = __popc(__ballot_sync(0xfffff800u, lane % 4 == 0) & ((1u << lane) - 1));
    out[192 + lane] = rank;
}

int main() {
    Device<int> out(224);
    CHECK(cudaMemset(out, 0, 224 * sizeof(int)));
    ask<<<1, 32>>>(out);
    CHECK_LAUNCH();
    const auto got = out.host();
    for (int row = 0; row < 7; ++row) {
        for (int lane = 0; lane < 32; ++lane) printf("%x ", got[row * 32 + lane]);
        printf("\n");
    }
}
