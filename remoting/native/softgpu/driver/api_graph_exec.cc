// Entry points: graphs that are ready to be launched, and the objects that programs attach to graphs.
#include "graph_arguments.h"
#include "stream_call.h"

using namespace softgpu;
using namespace softgpu::driver;

namespace {

constexpr uint64_t kFlags = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                            CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                            CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

std::shared_ptr<GraphExec> find_exec(Driver& driver, CUgraphExec handle) {
    return driver.handles.get<GraphExec>(handle, CUDA_ERROR_INVALID_VALUE);
}

// The program's references to a user object.
class UserObjectHandle : public Object {
  public:
    static constexpr Kind kKind = Kind::user_object;
    UserObjectHandle(const UserObjectRef& object, unsigned count)
        : Object(kKind), object_(object), kept_(object), count_(count) {}

    UserObjectRef get() const {
        auto object = object_.lock();
        require(object != nullptr);
        return object;
    }
    void retain(unsigned count) {
        const std::lock_guard lock(mutex_);
        require(count > 0 && count <= UINT32_MAX - count_);
        count_ += count;
        kept_ = get();
    }
    void release(unsigned count) {
        UserObjectRef last;  // calls the program as it goes: after the lock is given back
        const std::lock_guard lock(mutex_);
        require(count > 0 && count <= count_);
        count_ -= count;
        if (count_ == 0) last = std::move(kept_);
    }

  private:
    const std::weak_ptr<UserObject> object_;
    std::mutex mutex_;
    UserObjectRef kept_;  // while the program has references
    unsigned count_;
};

std::shared_ptr<UserObjectHandle> find_user_object(Driver& driver, CUuserObject handle) {
    return driver.handles.get<UserObjectHandle>(handle, CUDA_ERROR_INVALID_VALUE);
}

}  // namespace

extern "C" {

CUresult cuGraphInstantiateWithFlags(CUgraphExec* phGraphExec, CUgraph hGraph, unsigned long long flags) {
    return driver_call([&](Driver& driver) {
        require(phGraphExec != nullptr);
        require((flags & ~kFlags) == 0, CUDA_ERROR_NOT_SUPPORTED);
        const auto graph = find_graph(driver, hGraph);
        const auto exec = std::make_shared<GraphExec>(*graph, next_graph_id(), flags);
        *phGraphExec = as_handle<CUgraphExec>(driver.handles.add(exec));
    });
}

CUresult cuGraphInstantiateWithParams(CUgraphExec* phGraphExec, CUgraph hGraph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS* instantiateParams) {
    if (!instantiateParams) return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = cuGraphInstantiateWithFlags(phGraphExec, hGraph, instantiateParams->flags);
    instantiateParams->hErrNode_out = nullptr;
    instantiateParams->result_out =
        result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
    return result;
}

CUresult cuGraphInstantiate_v2(CUgraphExec* phGraphExec, CUgraph hGraph, CUgraphNode* phErrorNode,
                               char* logBuffer, size_t bufferSize) {
    if (phErrorNode) *phErrorNode = nullptr;
    if (logBuffer && bufferSize > 0) *logBuffer = '\0';
    return cuGraphInstantiateWithFlags(phGraphExec, hGraph, 0);
}

CUresult cuGraphInstantiate(CUgraphExec* phGraphExec, CUgraph hGraph, CUgraphNode* phErrorNode,
                            char* logBuffer, size_t bufferSize) {
    return cuGraphInstantiate_v2(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
}

CUresult cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t* flags) {
    return driver_call([&](Driver& driver) {
        require(flags != nullptr);
        *flags = find_exec(driver, hGraphExec)->flags;
    });
}

CUresult cuGraphExecGetId(CUgraphExec hGraphExec, unsigned int* graphId) {
    return driver_call([&](Driver& driver) {
        require(graphId != nullptr);
        *graphId = static_cast<unsigned>(find_exec(driver, hGraphExec)->id);
    });
}

CUresult cuGraphExecDestroy(CUgraphExec hGraphExec) {
    return driver_call(
        [&](Driver& driver) { require(driver.handles.remove(find_exec(driver, hGraphExec)->handle)); });
}

CUresult cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph,
                              CUgraphExecUpdateResultInfo* resultInfo) {
    return driver_call([&](Driver& driver) {
        require(resultInfo != nullptr);
        *resultInfo = {};
        if (find_exec(driver, hGraphExec)->update(*find_graph(driver, hGraph))) return CUDA_SUCCESS;
        resultInfo->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    });
}

CUresult cuGraphLaunch(CUgraphExec hGraph, CUstream hStream) {
    return stream_call(hStream, [&](Context& context, Stream& stream) {
        find_exec(context.driver, hGraph)->launch(stream);
    });
}

// There is nowhere to upload to.
CUresult cuGraphUpload(CUgraphExec hGraph, CUstream hStream) {
    return stream_call(hStream, [&](Context& context, Stream&) { find_exec(context.driver, hGraph); });
}

CUresult cuUserObjectCreate(CUuserObject* object_out, void* ptr, CUhostFn destroy,
                            unsigned int initialRefcount, unsigned int flags) {
    return driver_call([&](Driver& driver) {
        require(object_out != nullptr && destroy != nullptr && initialRefcount > 0);
        require(flags == CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
        const auto object = std::make_shared<UserObject>(driver.handles, ptr, destroy);
        object->handle = driver.handles.add(std::make_shared<UserObjectHandle>(object, initialRefcount));
        *object_out = as_handle<CUuserObject>(object->handle);
    });
}

CUresult cuUserObjectRetain(CUuserObject object, unsigned int count) {
    return driver_call([&](Driver& driver) { find_user_object(driver, object)->retain(count); });
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned int count) {
    return driver_call([&](Driver& driver) { find_user_object(driver, object)->release(count); });
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags) {
    return driver_call([&](Driver& driver) {
        require(count > 0 && (flags & ~CU_GRAPH_USER_OBJECT_MOVE) == 0);
        const auto held = find_user_object(driver, object);
        const auto target = find_graph(driver, graph);
        const UserObjectRef reference = held->get();
        if (flags & CU_GRAPH_USER_OBJECT_MOVE) held->release(count);
        target->retain(reference, count);
    });
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count) {
    return driver_call([&](Driver& driver) {
        require(count > 0);
        find_graph(driver, graph)->release(find_user_object(driver, object)->get(), count);
    });
}
}
