// Functions of the host in a stream: they run in order between the copies around them.
#include <atomic>

#include "course.h"

struct Log {
    std::atomic<int> calls{0};
    int seen[3] = {};
    int* value = nullptr;
};

void note(void* data) {
    Log* log = static_cast<Log*>(data);
    log->seen[log->calls++] = *log->value;
}

void CUDART_CB old_style(cudaStream_t, cudaError_t status, void* data) {
    Log* log = static_cast<Log*>(data);
    if (status == cudaSuccess) log->seen[log->calls++] = *log->value;
}

__global__ void add(int* value, int n) { *value += n; }

int main() {
    Log log;
    CHECK(cudaMallocHost(&log.value, sizeof(int)));
    *log.value = 1;
    Device<int> device(1);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMemcpyAsync(device, log.value, sizeof(int), cudaMemcpyHostToDevice, stream));
    CHECK(cudaLaunchHostFunc(stream, note, &log));
    for (int i = 1; i <= 2; ++i) {
        add<<<1, 1, 0, stream>>>(device, i * 10);
        CHECK(cudaMemcpyAsync(log.value, device, sizeof(int), cudaMemcpyDeviceToHost, stream));
        if (i == 1) {
            CHECK(cudaLaunchHostFunc(stream, note, &log));
        } else {
            CHECK(cudaStreamAddCallback(stream, old_style, &log, 0));
        }
        CHECK(cudaStreamSynchronize(stream));
    }
    printf("%d calls: %d %d %d\n", log.calls.load(), log.seen[0], log.seen[1], log.seen[2]);
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFreeHost(log.value));
}
