// A graph captured from streams, and one made by hand; both replayed with changed inputs.
#include "course.h"

__global__ void scale(float* data, int n, float factor) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] *= factor;
}

__global__ void join(const float* a, const float* b, float* c, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

int main() {
    const int n = 500;
    std::vector<float> in(n), out(n);
    Device<float> a(n), b(n), c(n);
    cudaStream_t main_stream, side;
    cudaEvent_t fork, joined;
    CHECK(cudaStreamCreate(&main_stream));
    CHECK(cudaStreamCreate(&side));
    CHECK(cudaEventCreate(&fork));
    CHECK(cudaEventCreate(&joined));
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(main_stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaMemcpyAsync(a, in.data(), n * sizeof(float), cudaMemcpyHostToDevice, main_stream));
    CHECK(cudaEventRecord(fork, main_stream));
    CHECK(cudaStreamWaitEvent(side, fork, 0));
    CHECK(cudaMemcpyAsync(b, a, n * sizeof(float), cudaMemcpyDeviceToDevice, side));
    scale<<<4, 128, 0, side>>>(b, n, 10);
    CHECK(cudaEventRecord(joined, side));
    CHECK(cudaStreamWaitEvent(main_stream, joined, 0));
    join<<<4, 128, 0, main_stream>>>(a, b, c, n);
    CHECK(cudaMemcpyAsync(out.data(), c, n * sizeof(float), cudaMemcpyDeviceToHost, main_stream));
    CHECK(cudaStreamEndCapture(main_stream, &graph));
    size_t nodes = 0;
    CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
    printf("captured: %zu nodes\n", nodes);
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int round = 1; round <= 3; ++round) {
        std::vector<float> want(n);
        for (int i = 0; i < n; ++i) want[i] = 11 * (in[i] = static_cast<float>(i * round));
        CHECK(cudaGraphLaunch(exec, main_stream));
        CHECK(cudaStreamSynchronize(main_stream));
        compare("replay", out, want);
    }
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));

    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t fill, grow;
    cudaMemsetParams zero = {};
    zero.dst = a;
    zero.elementSize = 4;
    zero.value = 0x3f800000;  // 1.0f
    zero.width = n;
    zero.height = 1;
    CHECK(cudaGraphAddMemsetNode(&fill, graph, nullptr, 0, &zero));
    float* data = a;
    int count = n;
    float factor = 3;
    void* arguments[] = {&data, &count, &factor};
    cudaKernelNodeParams kernel = {};
    kernel.func = reinterpret_cast<void*>(scale);
    kernel.gridDim = dim3(4);
    kernel.blockDim = dim3(128);
    kernel.kernelParams = arguments;
    CHECK(cudaGraphAddKernelNode(&grow, graph, &fill, 1, &kernel));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, main_stream));
    CHECK(cudaStreamSynchronize(main_stream));
    compare("by hand", a.host(), std::vector<float>(n, 3));
    factor = 5;
    CHECK(cudaGraphExecKernelNodeSetParams(exec, grow, &kernel));
    CHECK(cudaGraphLaunch(exec, main_stream));
    CHECK(cudaStreamSynchronize(main_stream));
    compare("with another factor", a.host(), std::vector<float>(n, 5));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
}
