// Graphs made node by node, and what comes back of a captured one.
#include "device_code.h"

namespace {

cudaGraphExec_t ready(cudaGraph_t graph) {
    cudaGraphExec_t exec = nullptr;
    EXPECT_OK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
}

void run(cudaGraphExec_t exec) {
    EXPECT_OK(cudaGraphLaunch(exec, nullptr));
    EXPECT_OK(cudaDeviceSynchronize());
}

void by_nodes() {
    Object object({{device_code()}});
    Numbers numbers(64);
    std::vector<int> in(64, 5), out(64);
    int n = 64, value = 2;
    void* arguments[] = {&numbers.device, &n, &value};
    cudaKernelNodeParams kernel = {};
    kernel.func = &object.add;
    kernel.gridDim = dim3(1);
    kernel.blockDim = dim3(64);
    kernel.kernelParams = arguments;

    cudaGraph_t graph;
    cudaGraphNode_t copy_in, add, copy_out;
    EXPECT_OK(cudaGraphCreate(&graph, 0));
    EXPECT_OK(cudaGraphAddMemcpyNode1D(&copy_in, graph, nullptr, 0, numbers.device, in.data(), 256,
                                       cudaMemcpyHostToDevice));
    EXPECT_OK(cudaGraphAddKernelNode(&add, graph, &copy_in, 1, &kernel));
    EXPECT_OK(cudaGraphAddMemcpyNode1D(&copy_out, graph, &add, 1, out.data(), numbers.device, 256,
                                       cudaMemcpyDeviceToHost));
    cudaGraphExec_t exec = ready(graph);
    run(exec);
    EXPECT(out == std::vector<int>(64, 7));

    value = 10;
    EXPECT_OK(cudaGraphExecKernelNodeSetParams(exec, add, &kernel));
    run(exec);
    EXPECT(out == std::vector<int>(64, 15));

    cudaKernelNodeParams back = {};
    EXPECT_OK(cudaGraphKernelNodeGetParams(add, &back));
    EXPECT(back.func == &object.add && back.blockDim.x == 64);
    cudaMemcpy3DParms copied = {};
    EXPECT_OK(cudaGraphMemcpyNodeGetParams(copy_in, &copied));
    EXPECT(copied.extent.width == 256 && copied.srcPtr.ptr == in.data() &&
           copied.kind == cudaMemcpyHostToDevice);
    EXPECT_CODE(cudaGraphAddKernelNode(&add, graph, nullptr, 0, nullptr), cudaErrorInvalidValue);
    kernel.func = &n;
    EXPECT_CODE(cudaGraphAddKernelNode(&add, graph, nullptr, 0, &kernel), cudaErrorInvalidDeviceFunction);
    EXPECT_OK(cudaGraphExecDestroy(exec));
    EXPECT_OK(cudaGraphDestroy(graph));
    cudaGetLastError();
}

}  // namespace

int main() {
    by_nodes();
    return failures;
}
