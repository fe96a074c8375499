// The texture and surface objects that kernels of a context may use, and how a kernel finds one.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "engine.h"
#include "exec/texture/texture.h"

namespace softgpu::texture {

// A surface has a sampler that nobody reads, and one level.
struct Object {
    Texture texture;
    bool surface = false;
};

// By the number that kernels are given. Thread-safe.
class Objects {
  public:
    void put(uint64_t handle, std::shared_ptr<const Object> object);
    void remove(uint64_t handle);
    std::shared_ptr<const Object> find(uint64_t handle) const;
    uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

  private:
    mutable std::shared_mutex mutex_;
    std::unordered_map<uint64_t, std::shared_ptr<const Object>> objects_;
    std::atomic<uint64_t> generation_{1};  // grows with each change
};

// Do all elements lie in memory of the program's, or of an array?
bool is_there(const Elements& elements, const DeviceMemory& memory);

// What a block has looked up last. An object stays as long as it is here, also where the program has
// destroyed it: but nobody finds it then.
class Cache {
  public:
    enum class State : uint8_t { unknown, freed, found };
    struct Found {
        State state = State::unknown;
        const Object* object = nullptr;
    };
    // `objects` may be null: there are none.
    Found find(const Objects* objects, const DeviceMemory& memory, uint64_t handle);
    void clear();  // other launches have other objects

  private:
    struct Entry {
        uint64_t handle = 0;
        uint64_t objects = 0, memory = 0;  // their generations
        std::shared_ptr<const Object> object;
    };
    static constexpr size_t kEntries = 16;
    Entry entries_[kEntries];
};

}  // namespace softgpu::texture
