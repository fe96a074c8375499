// Entry points: objects that programs attach to graphs, and the memory that graphs allocate.
#include <cstring>

#include "arguments.h"
#include "memory.h"
#include "user_object.h"

using namespace graphs;

namespace {

// The program's references to a user object. Under the frame's lock.
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
        require(count > 0 && count <= UINT32_MAX - count_);
        kept_ = get();
        count_ += count;
    }
    void release(unsigned count) {
        require(count > 0 && count <= count_);
        count_ -= count;
        if (count_ == 0) Frame::discard(std::move(kept_));
    }

  private:
    const std::weak_ptr<UserObject> object_;
    UserObjectRef kept_;  // while the program has references
    unsigned count_;
};

std::shared_ptr<UserObjectHandle> find(CUuserObject handle) {
    return table().get<UserObjectHandle>(handle);
}

}  // namespace

extern "C" {

CUresult cuUserObjectCreate(CUuserObject* object_out, void* ptr, CUhostFn destroy,
                            unsigned int initialRefcount, unsigned int flags) {
    return call([&] {
        require(object_out != nullptr && destroy != nullptr && initialRefcount > 0);
        require(flags == CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
        const auto object = std::make_shared<UserObject>(ptr, destroy);
        object->handle = table().add(std::make_shared<UserObjectHandle>(object, initialRefcount));
        *object_out = reinterpret_cast<CUuserObject>(object->handle);
    });
}
CUresult cuUserObjectRetain(CUuserObject object, unsigned int count) {
    return call([&] { find(object)->retain(count); });
}
CUresult cuUserObjectRelease(CUuserObject object, unsigned int count) {
    return call([&] { find(object)->release(count); });
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags) {
    return call([&] {
        require(count > 0 && (flags & ~CU_GRAPH_USER_OBJECT_MOVE) == 0);
        const auto held = find(object);
        const GraphRef target = find_graph(graph);
        const UserObjectRef reference = held->get();
        // With MOVE the caller's references become the graph's.
        if (flags & CU_GRAPH_USER_OBJECT_MOVE) held->release(count);
        target->objects[reference] += count;
    });
}
CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count) {
    return call([&] {
        require(count > 0);
        auto& objects = find_graph(graph)->objects;
        auto held = objects.find(find(object)->get());
        require(held != objects.end() && held->second >= count);
        held->second -= count;
        if (held->second > 0) return;
        Frame::discard(held->first);
        objects.erase(held);
    });
}

// Memory that no graph and no program holds has gone back already.
CUresult cuDeviceGraphMemTrim(CUdevice device) {
    return call([&] { platform::require_device(device); });
}
CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void* value) {
    return call([&] {
        platform::require_device(device);
        require(value != nullptr);
        const MemoryFigures figures = memory_figures(static_cast<uint8_t>(device));
        const uint64_t all[] = {figures.used, figures.used_high, figures.reserved, figures.reserved_high};
        require(attr < std::size(all));
        std::memcpy(value, &all[attr], sizeof all[attr]);
    });
}
// The high-water marks can be set to zero: they start again from what there is.
CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void* value) {
    return call([&] {
        platform::require_device(device);
        uint64_t zero = 0;
        require(value != nullptr && std::memcmp(value, &zero, sizeof zero) == 0);
        const bool used = attr == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH;
        const bool reserved = attr == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
        require(used || reserved);
        reset_high(static_cast<uint8_t>(device), used, reserved);
    });
}
}
