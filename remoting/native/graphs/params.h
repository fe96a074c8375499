// What each kind of node does.
#pragma once

#include <cstddef>
#include <memory>
#include <variant>
#include <vector>

#include "cuda_abi.h"

namespace graphs {

class Graph;
class Allocation;

// A kernel as the library under us knows it, kept as long as a node names it.
struct Kernel {
    struct Param {
        uint32_t offset, bytes;
    };
    virtual ~Kernel() = default;
    std::vector<Param> params;
    uint32_t param_bytes = 0;
};

struct KernelParams {
    static constexpr CUgraphNodeType kType = CU_GRAPH_NODE_TYPE_KERNEL;
    std::shared_ptr<const Kernel> kernel;
    CUfunction func = nullptr;  // these three as the program gave them
    CUkernel kern = nullptr;
    CUcontext ctx = nullptr;
    unsigned grid[3] = {}, block[3] = {}, shared_bytes = 0;
    std::vector<std::byte> packed{};              // the parameters, by the kernel's layout
    std::vector<CUlaunchAttribute> attributes{};  // at most one of an id
};

struct CopyParams {
    static constexpr CUgraphNodeType kType = CU_GRAPH_NODE_TYPE_MEMCPY;
    CUDA_MEMCPY3D copy{};
    CUcontext ctx = nullptr;
};

struct FillParams {
    static constexpr CUgraphNodeType kType = CU_GRAPH_NODE_TYPE_MEMSET;
    CUDA_MEMSET_NODE_PARAMS_v2 fill{};
};

struct HostParams {
    static constexpr CUgraphNodeType kType = CU_GRAPH_NODE_TYPE_HOST;
    CUhostFn fn = nullptr;
    void* data = nullptr;
};

struct ChildParams {
    static constexpr CUgraphNodeType kType = CU_GRAPH_NODE_TYPE_GRAPH;
    std::shared_ptr<Graph> graph;  // the node's own
};

struct EmptyParams {
    static constexpr CUgraphNodeType kType = CU_GRAPH_NODE_TYPE_EMPTY;
};

struct WaitParams {
    static constexpr CUgraphNodeType kType = CU_GRAPH_NODE_TYPE_WAIT_EVENT;
    CUevent event = nullptr;
};

struct RecordParams {
    static constexpr CUgraphNodeType kType = CU_GRAPH_NODE_TYPE_EVENT_RECORD;
    CUevent event = nullptr;
};

struct AllocParams {
    static constexpr CUgraphNodeType kType = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    CUDA_MEM_ALLOC_NODE_PARAMS_v2 alloc{};  // its list of access rights is `access`
    std::vector<CUmemAccessDesc> access{};
    std::shared_ptr<Allocation> memory;
};

struct FreeParams {
    static constexpr CUgraphNodeType kType = CU_GRAPH_NODE_TYPE_MEM_FREE;
    CUdeviceptr address = 0;
    std::shared_ptr<Allocation> memory;
};

using Params = std::variant<EmptyParams, KernelParams, CopyParams, FillParams, HostParams, ChildParams,
                            WaitParams, RecordParams, AllocParams, FreeParams>;

inline CUgraphNodeType type_of(const Params& params) {
    return std::visit([](const auto& p) { return std::decay_t<decltype(p)>::kType; }, params);
}

}  // namespace graphs
