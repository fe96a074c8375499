// An address that belongs to nobody: the error stays with the process, and its name is known.
#include "course.h"

__global__ void wild(int* pointer) { pointer[threadIdx.x] = 1; }

int main() {
    int* good = nullptr;
    CHECK(cudaMalloc(&good, 64));
    wild<<<1, 4>>>(reinterpret_cast<int*>(0x10));
    printf("launch: %s\n", cudaGetErrorName(cudaGetLastError()));
    printf("synchronize: %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    printf("last error: %s\n", cudaGetErrorName(cudaGetLastError()));
    printf("another call: %s\n", cudaGetErrorName(cudaFree(good)));
    int value = 0;
    printf("a copy: %s\n", cudaGetErrorName(cudaMemcpy(&value, good, 4, cudaMemcpyDeviceToHost)));
    wild<<<1, 4>>>(good);
    printf("another launch: %s\n", cudaGetErrorName(cudaGetLastError()));
}
