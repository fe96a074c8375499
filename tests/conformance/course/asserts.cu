// An assertion that fails on the device ends the program's work there.
#include <cassert>

#include "course.h"

__global__ void positive(const int* data) { assert(data[threadIdx.x] > 0); }

int main() {
    Device<int>* good = new Device<int>(std::vector<int>{1, 2, 3, 4});
    positive<<<1, 4>>>(*good);
    printf("all positive: %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    Device<int>* bad = new Device<int>(std::vector<int>{1, 2, -3, 4});
    positive<<<1, 4>>>(*bad);
    printf("one is not: %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    fflush(stdout);
    _Exit(0);
}
