// Streams, events, capture.
#include "device_code.h"

namespace {

void order() {
    Object object({{device_code()}});
    Numbers numbers(64, 1);
    cudaStream_t first, second;
    cudaEvent_t done, end;
    EXPECT_OK(cudaStreamCreate(&first));
    EXPECT_OK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    EXPECT_OK(cudaEventCreate(&done));
    EXPECT_OK(cudaEventCreateWithFlags(&end, cudaEventDefault));
    EXPECT_OK(object.launch_add(numbers.device, 64, 1, 64, first));
    EXPECT_OK(cudaEventRecord(done, first));
    EXPECT_OK(cudaStreamWaitEvent(second, done, 0));
    EXPECT_OK(object.launch_add(numbers.device, 64, 1, 64, second));
    EXPECT_OK(cudaEventRecord(end, second));
    EXPECT_OK(cudaEventSynchronize(end));
    float ms = -1;
    EXPECT_OK(cudaEventElapsedTime(&ms, done, end));
    EXPECT(ms >= 0);
    EXPECT_OK(cudaStreamQuery(second));
    EXPECT(numbers.read() == std::vector<int>(64, 3));
    unsigned flags = 9;
    EXPECT_OK(cudaStreamGetFlags(second, &flags));
    EXPECT(flags == cudaStreamNonBlocking);
    EXPECT_OK(cudaEventDestroy(done));
    EXPECT_OK(cudaEventDestroy(end));
    EXPECT_OK(cudaStreamDestroy(first));
    EXPECT_OK(cudaStreamDestroy(second));
}

void priorities() {
    int least = -99, greatest = 99, own = 99;
    cudaStream_t stream;
    EXPECT_OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    EXPECT(greatest <= least);
    EXPECT_OK(cudaStreamCreateWithPriority(&stream, cudaStreamDefault, greatest));
    EXPECT_OK(cudaStreamGetPriority(stream, &own));
    EXPECT(own == greatest);
    EXPECT_OK(cudaStreamDestroy(stream));
}

void capture() {
    Object object({{device_code()}});
    Numbers numbers(64, 1);
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    EXPECT_OK(cudaStreamCreate(&stream));
    EXPECT_OK(object.launch_add(numbers.device, 64, 1, 64, stream));
    EXPECT_OK(cudaStreamSynchronize(stream));
    EXPECT_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    EXPECT_OK(cudaStreamIsCapturing(stream, &status));
    EXPECT(status == cudaStreamCaptureStatusActive);
    EXPECT_OK(object.launch_add(numbers.device, 64, 1, 64, stream));
    EXPECT_OK(object.launch_add(numbers.device, 64, 1, 64, stream));
    EXPECT_OK(cudaStreamEndCapture(stream, &graph));
    EXPECT_OK(cudaGraphInstantiate(&ready, graph, 0));
    EXPECT(numbers.read() == std::vector<int>(64, 2));
    for (int i = 0; i < 3; ++i) EXPECT_OK(cudaGraphLaunch(ready, stream));
    EXPECT_OK(cudaStreamSynchronize(stream));
    EXPECT(numbers.read() == std::vector<int>(64, 8));
    EXPECT_OK(cudaGraphExecDestroy(ready));
    EXPECT_OK(cudaGraphDestroy(graph));
    EXPECT_OK(cudaStreamDestroy(stream));
}

}  // namespace

int main() {
    order();
    priorities();
    capture();
    return failures;
}
