// Atomics of all kinds, and a lock that is made of one.
#include "course.h"

struct Results {
    int sum, least, most, bits_and, bits_or, bits_xor, wrapped, swapped;
    unsigned long long wide;
    float real;
    double precise;
    int greatest_float;
    int locked;
};

__device__ int lock = 0;

__global__ void all(Results* r) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&r->sum, i);
    atomicMin(&r->least, 7 - i);
    atomicMax(&r->most, i * 3);
    atomicAnd(&r->bits_and, ~(1 << (i % 5)));
    atomicOr(&r->bits_or, 1 << (i % 20));
    atomicXor(&r->bits_xor, i);
    atomicInc(reinterpret_cast<unsigned*>(&r->wrapped), 99);
    if (i == 11) atomicExch(&r->swapped, 4711);
    atomicAdd(&r->wide, 1ull << 32);
    atomicAdd(&r->real, 0.5f);
    atomicAdd(&r->precise, 0.25);
    const float mine = (i * 37 % 101) * 0.5f;
    int seen = r->greatest_float;
    while (__int_as_float(seen) < mine) {
        const int before = atomicCAS(&r->greatest_float, seen, __float_as_int(mine));
        if (before == seen) break;
        seen = before;
    }
    if (threadIdx.x == 0) {
        while (atomicCAS(&lock, 0, 1) != 0) {
        }
        __threadfence();
        volatile int* locked = &r->locked;
        *locked = *locked + 1;
        __threadfence();
        atomicExch(&lock, 0);
    }
}

int main() {
    Results start = {};
    start.bits_and = 255;
    Results* r = nullptr;
    CHECK(cudaMalloc(&r, sizeof start));
    CHECK(cudaMemcpy(r, &start, sizeof start, cudaMemcpyHostToDevice));
    all<<<10, 100>>>(r);
    CHECK_LAUNCH();
    Results end;
    CHECK(cudaMemcpy(&end, r, sizeof end, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(r));
    float greatest;
    memcpy(&greatest, &end.greatest_float, sizeof greatest);
    printf("sum %d least %d most %d\n", end.sum, end.least, end.most);
    printf("and %d or %d xor %d\n", end.bits_and, end.bits_or, end.bits_xor);
    printf("wrapped %d swapped %d wide %llu\n", end.wrapped, end.swapped, end.wide >> 32);
    printf("real %g precise %g greatest %g locked %d\n", end.real, end.precise, greatest, end.locked);
}
