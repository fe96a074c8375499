#include "user_object.h"

#include <map>
#include <mutex>
#include <vector>

#include "graph.h"

namespace client {
namespace {

struct UserObject {
    void* pointer = nullptr;
    CUhostFn destroy = nullptr;
    uint64_t references = 0;
};

struct UserObjects {
    std::mutex mutex;
    uint64_t last = 0;
    std::map<uint64_t, UserObject> live;
    std::map<uint64_t, std::map<uint64_t, uint64_t>> held;  // by graph: object to number of references

    // Takes references away; what must be destroyed is called by the caller, without the lock.
    bool release(uint64_t id, uint64_t count, std::vector<UserObject>& ended) {
        auto found = live.find(id);
        if (found == live.end() || count == 0 || count > found->second.references) return false;
        found->second.references -= count;
        if (found->second.references > 0) return true;
        ended.push_back(found->second);
        live.erase(found);
        return true;
    }
};

UserObjects& objects() {
    static auto* all = new UserObjects;
    return *all;
}

void destroy(const std::vector<UserObject>& ended) {
    for (const UserObject& object : ended) object.destroy(object.pointer);
}

CUresult change_references(CUuserObject object, unsigned count, bool more) {
    std::vector<UserObject> ended;
    {
        const std::lock_guard lock(objects().mutex);
        const auto id = reinterpret_cast<uint64_t>(object);
        auto found = objects().live.find(id);
        if (found == objects().live.end() || count == 0) return CUDA_ERROR_INVALID_VALUE;
        if (more) {
            found->second.references += count;
        } else if (!objects().release(id, count, ended)) {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    destroy(ended);
    return CUDA_SUCCESS;
}

}  // namespace

void copy_user_objects(uint64_t from_graph, uint64_t to_exec) {
    const std::lock_guard lock(objects().mutex);
    auto found = objects().held.find(from_graph);
    if (found == objects().held.end()) return;
    const auto theirs = found->second;
    for (const auto& [id, count] : theirs) objects().live[id].references += count;
    objects().held[to_exec] = theirs;
}

void drop_user_objects(uint64_t graph) {
    std::vector<UserObject> ended;
    {
        const std::lock_guard lock(objects().mutex);
        auto found = objects().held.find(graph);
        if (found == objects().held.end()) return;
        for (const auto& [id, count] : found->second) objects().release(id, count, ended);
        objects().held.erase(found);
    }
    destroy(ended);
}

}  // namespace client

using namespace client;

extern "C" {

CUresult cuUserObjectCreate(CUuserObject* object_out, void* ptr, CUhostFn destroy,
                            unsigned int initialRefcount, unsigned int flags) {
    if (!object_out || !destroy || initialRefcount == 0) return CUDA_ERROR_INVALID_VALUE;
    if (flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) return CUDA_ERROR_INVALID_VALUE;
    const std::lock_guard lock(objects().mutex);
    objects().live[++objects().last] = {ptr, destroy, initialRefcount};
    *object_out = reinterpret_cast<CUuserObject>(objects().last);
    return CUDA_SUCCESS;
}
CUresult cuUserObjectRetain(CUuserObject object, unsigned int count) {
    return change_references(object, count, true);
}
CUresult cuUserObjectRelease(CUuserObject object, unsigned int count) {
    return change_references(object, count, false);
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags) {
    const auto handle = reinterpret_cast<uint64_t>(graph);
    if (!graphs().find(handle)) return CUDA_ERROR_INVALID_HANDLE;
    // With MOVE the caller's references become the graph's.
    if (!(flags & CU_GRAPH_USER_OBJECT_MOVE)) {
        if (CUresult error = change_references(object, count, true)) return error;
    }
    const std::lock_guard lock(objects().mutex);
    const auto id = reinterpret_cast<uint64_t>(object);
    if (!objects().live.contains(id) || count == 0) return CUDA_ERROR_INVALID_VALUE;
    objects().held[handle][id] += count;
    return CUDA_SUCCESS;
}
CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count) {
    {
        const std::lock_guard lock(objects().mutex);
        auto held = objects().held.find(reinterpret_cast<uint64_t>(graph));
        if (held == objects().held.end()) return CUDA_ERROR_INVALID_VALUE;
        auto found = held->second.find(reinterpret_cast<uint64_t>(object));
        if (found == held->second.end() || count > found->second) return CUDA_ERROR_INVALID_VALUE;
        found->second -= count;
        if (found->second == 0) held->second.erase(found);
    }
    return change_references(object, count, false);
}
}
