// Pinned memory in pieces over four streams, with events that say when a piece may be used.
#include "course.h"

__global__ void work(float* data, int n, float factor) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] = data[i] * factor + 1;
}

int main() {
    const int streams = 4, n = 1 << 14, piece = n / streams;
    float *in = nullptr, *out = nullptr, *device = nullptr;
    CHECK(cudaMallocHost(&in, n * sizeof(float)));
    CHECK(cudaHostAlloc(&out, n * sizeof(float), cudaHostAllocDefault));
    CHECK(cudaMalloc(&device, n * sizeof(float)));
    std::vector<float> want(n);
    for (int i = 0; i < n; ++i) want[i] = ((in[i] = static_cast<float>(i % 1000)) * 2 + 1) * 3 + 1;
    cudaStream_t stream[streams];
    cudaEvent_t done[streams];
    for (int s = 0; s < streams; ++s) {
        CHECK(cudaStreamCreateWithFlags(&stream[s], s % 2 ? cudaStreamNonBlocking : cudaStreamDefault));
        CHECK(cudaEventCreateWithFlags(&done[s], cudaEventDisableTiming));
        const int at = s * piece;
        CHECK(cudaMemcpyAsync(device + at, in + at, piece * sizeof(float), cudaMemcpyHostToDevice, stream[s]));
        work<<<(piece + 127) / 128, 128, 0, stream[s]>>>(device + at, piece, 2);
        CHECK(cudaEventRecord(done[s], stream[s]));
    }
    // The second round goes on the neighbour's stream, which has to wait for the first.
    for (int s = 0; s < streams; ++s) {
        const int at = s * piece, next = (s + 1) % streams;
        CHECK(cudaStreamWaitEvent(stream[next], done[s], 0));
        work<<<(piece + 127) / 128, 128, 0, stream[next]>>>(device + at, piece, 3);
        CHECK(cudaMemcpyAsync(out + at, device + at, piece * sizeof(float), cudaMemcpyDeviceToHost, stream[next]));
    }
    for (int s = 0; s < streams; ++s) {
        CHECK(cudaStreamSynchronize(stream[s]));
        CHECK(cudaStreamQuery(stream[s]));
        CHECK(cudaEventQuery(done[s]));
    }
    compare("pieces", std::vector<float>(out, out + n), want);
    for (int s = 0; s < streams; ++s) {
        CHECK(cudaEventDestroy(done[s]));
        CHECK(cudaStreamDestroy(stream[s]));
    }
    CHECK(cudaFreeHost(in));
    CHECK(cudaFreeHost(out));
    CHECK(cudaFree(device));
}
