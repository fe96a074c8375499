// Handles of graphs, nodes, executable graphs and user objects. A handle is a number that was never an
// address, is given out once and is looked up on each use, so a wrong or stale one is found out.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

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
        const std::lock_guard lock(mutex_);
        object->handle = static_cast<uint64_t>(object->kind) << 56 | ++last_ << 4;
        objects_.emplace(object->handle, object);
        return object->handle;
    }
    // Null when somebody else was first.
    std::shared_ptr<Object> remove(uint64_t handle) {
        const std::lock_guard lock(mutex_);
        auto found = objects_.find(handle);
        if (found == objects_.end()) return nullptr;
        auto object = std::move(found->second);
        objects_.erase(found);
        return object;
    }
    std::vector<std::shared_ptr<Object>> take_all() {
        const std::lock_guard lock(mutex_);
        std::vector<std::shared_ptr<Object>> taken;
        for (auto& [handle, object] : objects_) taken.push_back(std::move(object));
        objects_.clear();
        return taken;
    }
    template <class T, class Handle>
    std::shared_ptr<T> get(Handle handle) const {
        const std::lock_guard lock(mutex_);
        auto found = objects_.find(reinterpret_cast<uint64_t>(handle));
        require(found != objects_.end() && found->second->kind == T::kKind);
        return std::static_pointer_cast<T>(found->second);
    }

  private:
    mutable std::mutex mutex_;
    std::unordered_map<uint64_t, std::shared_ptr<Object>> objects_;
    uint64_t last_ = 0;
};

Table& table();

template <class Handle>
Handle handle_of(const Object& object) {
    return reinterpret_cast<Handle>(object.handle);
}

}  // namespace graphs
