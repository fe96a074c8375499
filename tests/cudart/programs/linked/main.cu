// Two objects linked on the device (nvcc -rdc=true): a function and a variable of the other one.
#include <cstdio>

extern __device__ int twice(int value);
extern __device__ int bonus;

__global__ void compute(int* result) { *result = twice(21) + bonus; }

int main() {
    int *device, result = 0;
    cudaMalloc(&device, sizeof(int));
    compute<<<1, 1>>>(device);
    std::printf("%s\n", cudaGetErrorString(cudaGetLastError()));
    cudaMemcpy(&result, device, sizeof result, cudaMemcpyDeviceToHost);
    std::printf("%d\n", result);
    const int five = 5;
    cudaMemcpyToSymbol(bonus, &five, sizeof five);
    compute<<<1, 1>>>(device);
    cudaMemcpy(&result, device, sizeof result, cudaMemcpyDeviceToHost);
    std::printf("%d\n", result);
}
