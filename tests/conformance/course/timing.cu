// Times taken with events: later events are later, and what has no time says so.
#include "course.h"

__global__ void spin(long long* out, int rounds) {
    const long long start = clock64();
    long long x = threadIdx.x;
    for (int i = 0; i < rounds; ++i) x = x * 3 + i;
    out[blockIdx.x * blockDim.x + threadIdx.x] = x | (clock64() < start);
}

int main() {
    Device<long long> out(1024);
    cudaEvent_t start, middle, end, untimed;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&middle));
    CHECK(cudaEventCreate(&end));
    CHECK(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
    CHECK(cudaEventRecord(start));
    spin<<<8, 128>>>(out, 1000);
    CHECK(cudaEventRecord(middle));
    spin<<<8, 128>>>(out, 2000);
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventRecord(untimed));
    CHECK(cudaEventSynchronize(end));
    CHECK(cudaEventSynchronize(untimed));
    float first = -1, second = -1, both = -1, none = -1;
    CHECK(cudaEventElapsedTime(&first, start, middle));
    CHECK(cudaEventElapsedTime(&second, middle, end));
    CHECK(cudaEventElapsedTime(&both, start, end));
    printf("first: %s\n", first > 0 ? "took time" : "took none");
    printf("second: %s\n", second > 0 ? "took time" : "took none");
    printf("both: %s\n", std::fabs(both - first - second) <= 0.01 + 0.01 * both ? "their sum" : "not their sum");
    printf("without timing: %s\n", cudaGetErrorString(cudaEventElapsedTime(&none, start, untimed)));
    printf("last error: %s\n", cudaGetErrorName(cudaGetLastError()));
    printf("after it was read: %s\n", cudaGetErrorName(cudaGetLastError()));
}
