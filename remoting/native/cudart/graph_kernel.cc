// Graph nodes that launch, and nodes of any kind in one structure.
#include "copy_shape.h"
#include "forward.h"
#include "registry.h"

using namespace cudart;

namespace {

cudaError_t driver_kernel(const Driver& driver, const cudaKernelNodeParams& from,
                          CUDA_KERNEL_NODE_PARAMS_v2& to) {
    to = {.func = nullptr,
          .gridDimX = from.gridDim.x,
          .gridDimY = from.gridDim.y,
          .gridDimZ = from.gridDim.z,
          .blockDimX = from.blockDim.x,
          .blockDimY = from.blockDim.y,
          .blockDimZ = from.blockDim.z,
          .sharedMemBytes = from.sharedMemBytes,
          .kernelParams = from.kernelParams,
          .extra = from.extra,
          .kern = nullptr,
          .ctx = nullptr};
    return find_context_function(driver, from.func, to.func);
}

cudaKernelNodeParams runtime_kernel(const CUDA_KERNEL_NODE_PARAMS_v2& from) {
    cudaKernelNodeParams to = {};
    to.func = host_address(from.func ? from.func : reinterpret_cast<CUfunction>(from.kern));
    to.gridDim = {from.gridDimX, from.gridDimY, from.gridDimZ};
    to.blockDim = {from.blockDimX, from.blockDimY, from.blockDimZ};
    to.sharedMemBytes = from.sharedMemBytes;
    to.kernelParams = from.kernelParams;
    to.extra = from.extra;
    return to;
}

// `use(driver, CUDA_KERNEL_NODE_PARAMS_v2)`.
template <typename Use>
cudaError_t with_kernel(const cudaKernelNodeParams* given, Use use) {
    return call<Need::context>([&](const Driver& driver) {
        CUDA_KERNEL_NODE_PARAMS_v2 params;
        if (!given) return cudaErrorInvalidValue;
        if (cudaError_t error = driver_kernel(driver, *given, params); error != cudaSuccess) return error;
        return translated(use(driver, &params));
    });
}

// Any node's parameters in the driver's words. All kinds but two are laid out alike.
cudaError_t driver_node(const Driver& driver, const cudaGraphNodeParams& from, CUgraphNodeParams& to) {
    static_assert(sizeof from == sizeof to);
    std::memcpy(&to, &from, sizeof to);
    if (from.type == cudaGraphNodeTypeKernel) {
        const auto& kernel = from.kernel;
        const cudaKernelNodeParams plain = {kernel.func,           kernel.gridDim,      kernel.blockDim,
                                            kernel.sharedMemBytes, kernel.kernelParams, kernel.extra};
        CUDA_KERNEL_NODE_PARAMS_v2 params;
        if (cudaError_t error = driver_kernel(driver, plain, params); error != cudaSuccess) return error;
        static_assert(sizeof params == sizeof to.kernel);
        std::memcpy(&to.kernel, &params, sizeof params);
    } else if (from.type == cudaGraphNodeTypeMemcpy) {
        Shape shape;
        if (cudaError_t error = shape_of(driver, from.memcpy.copyParams, shape); error != cudaSuccess)
            return error;
        to.memcpy = {.flags = 0, .reserved = 0, .copyCtx = nullptr, .copyParams = driver_copy(shape)};
        driver.cuCtxGetCurrent(&to.memcpy.copyCtx);
    }
    return cudaSuccess;
}

// `use(driver, CUgraphNodeParams)`; what the driver writes back into them, the program gets.
template <typename Use>
cudaError_t with_node(cudaGraphNodeParams* given, Use use) {
    return call<Need::context>([&](const Driver& driver) {
        CUgraphNodeParams params;
        if (!given) return cudaErrorInvalidValue;
        if (cudaError_t error = driver_node(driver, *given, params); error != cudaSuccess) return error;
        const CUresult result = use(driver, &params);
        if (given->type == cudaGraphNodeTypeMemAlloc)
            given->alloc.dptr = reinterpret_cast<void*>(params.alloc.dptr);
        if (given->type == cudaGraphNodeTypeConditional) {
            given->conditional.phGraph_out = as<cudaGraph_t*>(params.conditional.phGraph_out);
        }
        return translated(result);
    });
}

}  // namespace

extern "C" {

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                   const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                   const cudaKernelNodeParams* pNodeParams) {
    return with_kernel(pNodeParams, [&](const Driver& driver, auto* params) {
        return invoke(driver.cuGraphAddKernelNode_v2, pGraphNode, graph, pDependencies, numDependencies,
                      params);
    });
}

cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* pNodeParams) {
    return call<Need::context>([&](const Driver& driver) {
        CUDA_KERNEL_NODE_PARAMS_v2 params;
        if (!pNodeParams) return CUDA_ERROR_INVALID_VALUE;
        const CUresult result = invoke(driver.cuGraphKernelNodeGetParams_v2, node, &params);
        if (result == CUDA_SUCCESS) *pNodeParams = runtime_kernel(params);
        return result;
    });
}

cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams* pNodeParams) {
    return with_kernel(pNodeParams, [&](const Driver& driver, auto* params) {
        return invoke(driver.cuGraphKernelNodeSetParams_v2, node, params);
    });
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* pNodeParams) {
    return with_kernel(pNodeParams, [&](const Driver& driver, auto* params) {
        return invoke(driver.cuGraphExecKernelNodeSetParams_v2, hGraphExec, node, params);
    });
}

#if CUDART_VERSION >= 13000
cudaError_t cudaGraphAddNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                             const cudaGraphNode_t* pDependencies, const cudaGraphEdgeData* dependencyData,
                             size_t numDependencies, cudaGraphNodeParams* nodeParams) {
    return with_node(nodeParams, [&](const Driver& driver, auto* params) {
        return invoke(driver.cuGraphAddNode_v2, pGraphNode, graph, pDependencies, dependencyData,
                      numDependencies, params);
    });
}
#else
cudaError_t cudaGraphAddNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                             const cudaGraphNode_t* pDependencies, size_t numDependencies,
                             cudaGraphNodeParams* nodeParams) {
    return with_node(nodeParams, [&](const Driver& driver, auto* params) {
        return invoke(driver.cuGraphAddNode, pGraphNode, graph, pDependencies, numDependencies, params);
    });
}

cudaError_t cudaGraphAddNode_v2(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                const cudaGraphNode_t* pDependencies, const cudaGraphEdgeData* dependencyData,
                                size_t numDependencies, cudaGraphNodeParams* nodeParams) {
    return with_node(nodeParams, [&](const Driver& driver, auto* params) {
        return invoke(driver.cuGraphAddNode_v2, pGraphNode, graph, pDependencies, dependencyData,
                      numDependencies, params);
    });
}
#endif

cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node, cudaGraphNodeParams* nodeParams) {
    return with_node(nodeParams, [&](const Driver& driver, auto* params) {
        return invoke(driver.cuGraphNodeSetParams, node, params);
    });
}

cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t graphExec, cudaGraphNode_t node,
                                       cudaGraphNodeParams* nodeParams) {
    return with_node(nodeParams, [&](const Driver& driver, auto* params) {
        return invoke(driver.cuGraphExecNodeSetParams, graphExec, node, params);
    });
}

cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle* pHandle_out, cudaGraph_t graph,
                                             unsigned int defaultLaunchValue, unsigned int flags) {
    return call<Need::context>([&](const Driver& driver) {
        CUcontext context = nullptr;
        driver.cuCtxGetCurrent(&context);
        return invoke(driver.cuGraphConditionalHandleCreate, pHandle_out, graph, context, defaultLaunchValue,
                      flags);
    });
}
}
