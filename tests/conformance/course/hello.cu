// The first program: a few threads say who they are.
#include "course.h"

__global__ void hello() {
    printf("hello from block %d of %d, thread (%d,%d)\n", blockIdx.x, gridDim.x, threadIdx.x, threadIdx.y);
}

int main() {
    for (int block = 1; block <= 2; ++block) {
        hello<<<1, dim3(2, block)>>>();
        CHECK_LAUNCH();
        CHECK(cudaDeviceSynchronize());
    }
    printf("and from the host\n");
}
