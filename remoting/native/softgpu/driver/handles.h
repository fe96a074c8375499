// Handles that programs hold. A handle is a number that was never an address, is given out once and never
// again, and is looked up on each use: a wrong, stale or made-up one is found out and cannot crash anything.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "cuda/handle_table.h"
#include "failure.h"

namespace softgpu::driver {

enum class Kind : uint8_t {
    context,
    stream,
    event,
    module,
    library,
    kernel,
    function,
    pool,
    physical,
    texture,
    surface,
    array,
    mipmapped_array,
};

class Object {
  public:
    explicit Object(Kind kind) : kind(kind) {}
    virtual ~Object() = default;
    Object(const Object&) = delete;
    Object& operator=(const Object&) = delete;

    // The context that owns the object is destroyed: let go of what refers back to the object.
    virtual void context_ended() {}

    const Kind kind;
    uint64_t handle = 0;  // set by HandleTable::add; 0 while the program has none
};

class HandleTable {
  public:
    uint64_t add(const std::shared_ptr<Object>& object) {
        put(reserve(), object);
        return object->handle;
    }

    // Puts an object under a handle of its own choice (a device's primary context keeps its handle).
    void put(uint64_t handle, const std::shared_ptr<Object>& object) {
        object->handle = handle;
        objects_.put(handle, object);
    }

    uint64_t reserve() { return next_.fetch_add(16, std::memory_order_relaxed); }

    // False when somebody else removed it before: of two calls that destroy a handle, one wins. With `only`,
    // removes no other object.
    bool remove(uint64_t handle, const Object* only = nullptr) {
        std::shared_ptr<Object> last;
        return objects_.take_if_one(handle, last,
                                    [&](const auto& object) { return !only || object.get() == only; });
    }

    std::shared_ptr<Object> find_any(uint64_t handle) const {
        std::shared_ptr<Object> object;
        objects_.find(handle, object);
        return object;
    }

    // Null unless the handle is live and of this type.
    template <class T>
    std::shared_ptr<T> find(uint64_t handle) const {
        auto object = find_any(handle);
        if (!object || object->kind != T::kKind) return nullptr;
        return std::static_pointer_cast<T>(std::move(object));
    }

    template <class T, class Handle>
    std::shared_ptr<T> get(Handle handle, CUresult otherwise = CUDA_ERROR_INVALID_HANDLE) const {
        auto object = find<T>(reinterpret_cast<uint64_t>(handle));
        require(object != nullptr, otherwise);
        return object;
    }

  private:
    // Above what a process can map for itself with four levels of page tables, and below what CUDA gives
    // special meaning to; 0, 1 and 2 are the default streams.
    static constexpr uint64_t kFirst = 0x0000'9000'0000'0000;

    cuda::HandleTable<uint64_t, std::shared_ptr<Object>> objects_;
    std::atomic<uint64_t> next_ = kFirst;
};

template <class Handle>
Handle as_handle(uint64_t handle) {
    return reinterpret_cast<Handle>(handle);
}

}  // namespace softgpu::driver
