// Handles of graphs, nodes, executable graphs and user objects. A handle is a number that was never an
// address, is given out once and is looked up on each use, so a wrong or stale one is found out.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/handle_table.h"
#include "failure.h"

namespace graphs {

// The top byte of a handle. Those of `graph` and `exec` are also wire::HandleKind's.
enum class Kind : uint8_t { graph = 0x15, exec = 0x16, node = 0x17, user_object = 0x18 };

class Object {
  public:
    explicit Object(Kind kind) : kind(kind) {}
    virtual ~Object() = default;
    Object(const Object&) = delete;
    Object& operator=(const Object&) = delete;
    const Kind kind;
    uint64_t handle = 0;
};

class Table {
  public:
    uint64_t add(const std::shared_ptr<Object>& object) {
        object->handle = static_cast<uint64_t>(object->kind) << 56 | ++last_ << 4;
        objects_.add(object->handle, object);
        return object->handle;
    }
    // Null when somebody else was first.
    std::shared_ptr<Object> remove(uint64_t handle) {
        std::shared_ptr<Object> object;
        objects_.take(handle, object);
        return object;
    }
    std::vector<std::shared_ptr<Object>> take_all() { return objects_.take_all(); }
    template <class T, class Handle>
    std::shared_ptr<T> get(Handle handle) const {
        std::shared_ptr<Object> object;
        require(objects_.find(reinterpret_cast<uint64_t>(handle), object) && object->kind == T::kKind);
        return std::static_pointer_cast<T>(std::move(object));
    }

  private:
    cuda::HandleTable<uint64_t, std::shared_ptr<Object>> objects_;
    std::atomic<uint64_t> last_ = 0;
};

Table& table();

template <class Handle>
Handle handle_of(const Object& object) {
    return reinterpret_cast<Handle>(object.handle);
}

}  // namespace graphs
