// Graph nodes that copy and fill.
#include "copy.h"
#include "copy_shape.h"
#include "forward.h"
#include "registry.h"

using namespace cudart;

namespace {

CUcontext current_context(const Driver& driver) {
    CUcontext context = nullptr;
    driver.cuCtxGetCurrent(&context);
    return context;
}

// What a node is to copy: `make(driver, shape)` says it.
template <typename Make, typename Use>
cudaError_t with_copy(Make make, Use use) {
    return call<Need::context>([&](const Driver& driver) {
        Shape shape;
        if (cudaError_t error = make(driver, shape); error != cudaSuccess) return error;
        const CUDA_MEMCPY3D copy = driver_copy(shape);
        return translated(use(driver, &copy));
    });
}

auto region(const cudaMemcpy3DParms* given) {
    return [=](const Driver& driver, Shape& shape) {
        return given ? shape_of(driver, *given, shape) : cudaErrorInvalidValue;
    };
}

auto line(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    return [=](const Driver&, Shape& shape) {
        shape = row(to, from, bytes, kind);
        return known_kind(kind) ? cudaSuccess : cudaErrorInvalidMemcpyDirection;
    };
}

auto to_symbol(const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind) {
    return [=](const Driver& driver, Shape& shape) {
        if (!into_device(kind)) return cudaErrorInvalidMemcpyDirection;
        void* address = nullptr;
        const cudaError_t error = find_part(driver, symbol, offset, bytes, address);
        shape = row(address, from, bytes, kind);
        return error;
    };
}

auto from_symbol(void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind) {
    return [=](const Driver& driver, Shape& shape) {
        if (!out_of_device(kind)) return cudaErrorInvalidMemcpyDirection;
        void* address = nullptr;
        const cudaError_t error = find_part(driver, symbol, offset, bytes, address);
        shape = row(to, address, bytes, kind);
        return error;
    };
}

auto add(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count) {
    return [=](const Driver& driver, const CUDA_MEMCPY3D* copy) {
        return invoke(driver.cuGraphAddMemcpyNode, node, graph, after, count, copy, current_context(driver));
    };
}

auto set(cudaGraphNode_t node) {
    return [=](const Driver& driver, const CUDA_MEMCPY3D* copy) {
        return invoke(driver.cuGraphMemcpyNodeSetParams, node, copy);
    };
}

auto set_in(cudaGraphExec_t exec, cudaGraphNode_t node) {
    return [=](const Driver& driver, const CUDA_MEMCPY3D* copy) {
        return invoke(driver.cuGraphExecMemcpyNodeSetParams, exec, node, copy, current_context(driver));
    };
}

}  // namespace

extern "C" {

cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                   const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                   const cudaMemcpy3DParms* pCopyParams) {
    return with_copy(region(pCopyParams), add(pGraphNode, graph, pDependencies, numDependencies));
}

cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                     const cudaGraphNode_t* pDependencies, size_t numDependencies, void* dst,
                                     const void* src, size_t count, cudaMemcpyKind kind) {
    return with_copy(line(dst, src, count, kind), add(pGraphNode, graph, pDependencies, numDependencies));
}

cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                           const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                           const void* symbol, const void* src, size_t count, size_t offset,
                                           cudaMemcpyKind kind) {
    return with_copy(to_symbol(symbol, src, count, offset, kind),
                     add(pGraphNode, graph, pDependencies, numDependencies));
}

cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                             const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                             void* dst, const void* symbol, size_t count, size_t offset,
                                             cudaMemcpyKind kind) {
    return with_copy(from_symbol(dst, symbol, count, offset, kind),
                     add(pGraphNode, graph, pDependencies, numDependencies));
}

cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, cudaMemcpy3DParms* pNodeParams) {
    return call<Need::context>([&](const Driver& driver) {
        CUDA_MEMCPY3D copy;
        if (!pNodeParams) return CUDA_ERROR_INVALID_VALUE;
        const CUresult result = invoke(driver.cuGraphMemcpyNodeGetParams, node, &copy);
        return result == CUDA_SUCCESS ? runtime_copy(driver, copy, *pNodeParams) : result;
    });
}

cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const cudaMemcpy3DParms* pNodeParams) {
    return with_copy(region(pNodeParams), set(node));
}

cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void* dst, const void* src, size_t count,
                                           cudaMemcpyKind kind) {
    return with_copy(line(dst, src, count, kind), set(node));
}

cudaError_t cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const void* symbol, const void* src,
                                                 size_t count, size_t offset, cudaMemcpyKind kind) {
    return with_copy(to_symbol(symbol, src, count, offset, kind), set(node));
}

cudaError_t cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void* dst, const void* symbol,
                                                   size_t count, size_t offset, cudaMemcpyKind kind) {
    return with_copy(from_symbol(dst, symbol, count, offset, kind), set(node));
}

cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                             const cudaMemcpy3DParms* pNodeParams) {
    return with_copy(region(pNodeParams), set_in(hGraphExec, node));
}

cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t hGraphExec, cudaGraphNode_t node, void* dst,
                                               const void* src, size_t count, cudaMemcpyKind kind) {
    return with_copy(line(dst, src, count, kind), set_in(hGraphExec, node));
}

cudaError_t cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                                     const void* symbol, const void* src, size_t count,
                                                     size_t offset, cudaMemcpyKind kind) {
    return with_copy(to_symbol(symbol, src, count, offset, kind), set_in(hGraphExec, node));
}

cudaError_t cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                                       void* dst, const void* symbol, size_t count,
                                                       size_t offset, cudaMemcpyKind kind) {
    return with_copy(from_symbol(dst, symbol, count, offset, kind), set_in(hGraphExec, node));
}

cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                   const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                   const cudaMemsetParams* pMemsetParams) {
    static_assert(sizeof(cudaMemsetParams) == sizeof(CUDA_MEMSET_NODE_PARAMS));
    return call<Need::context>([&](const Driver& driver) {
        return invoke(driver.cuGraphAddMemsetNode, pGraphNode, graph, pDependencies, numDependencies,
                      pMemsetParams, current_context(driver));
    });
}

cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                             const cudaMemsetParams* pNodeParams) {
    return call<Need::context>([&](const Driver& driver) {
        return invoke(driver.cuGraphExecMemsetNodeSetParams, hGraphExec, node, pNodeParams,
                      current_context(driver));
    });
}
}
