// Handles that the client mints: a number that names a slot and a generation, never a pointer, so that a
// stale or invented handle is found out and not followed.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "protocol.h"

namespace client {

// Slots stay where they are for ever and are used again: a thread that races with a destroy reads a stale
// value, never freed memory. Looking up takes no lock.
template <typename T>
class HandleTable {
  public:
    explicit HandleTable(wire::HandleKind kind) : kind_(kind) {}

    T* find(uint64_t handle) {
        if (wire::handle_kind(handle) != kind_) return nullptr;
        const uint32_t index = wire::handle_index(handle);
        if (index >= wire::kMaxHandles) return nullptr;
        Slot* chunk = chunks_[index / kChunk].load(std::memory_order_acquire);
        if (!chunk) return nullptr;
        Slot& slot = chunk[index % kChunk];
        return slot.handle.load(std::memory_order_acquire) == handle ? &slot.value : nullptr;
    }

    // A new handle with a fresh value; 0 when there are too many. `prepare` sets up the value before anybody
    // can find it.
    template <typename Prepare>
    uint64_t add(Prepare prepare) {
        const std::lock_guard lock(mutex_);
        uint32_t index;
        if (!free_.empty()) {
            index = free_.back();
            free_.pop_back();
        } else if (used_ < wire::kMaxHandles) {
            index = used_++;
            auto& chunk = chunks_[index / kChunk];
            if (!chunk.load(std::memory_order_relaxed))
                chunk.store(new Slot[kChunk], std::memory_order_release);
        } else {
            return 0;
        }
        Slot& slot = chunks_[index / kChunk].load(std::memory_order_relaxed)[index % kChunk];
        renew(slot);
        const uint64_t handle = wire::make_handle(kind_, ++slot.generation, index);
        prepare(slot.value, handle);
        slot.handle.store(handle, std::memory_order_release);
        return handle;
    }

    bool remove(uint64_t handle) {
        const std::lock_guard lock(mutex_);
        if (!find(handle)) return false;
        const uint32_t index = wire::handle_index(handle);
        chunks_[index / kChunk].load(std::memory_order_relaxed)[index % kChunk].handle.store(0);
        free_.push_back(index);
        return true;
    }

    // No handle is valid any more, and what they named is gone. Nobody may be looking one up (life.h).
    void forget_all() {
        const std::lock_guard lock(mutex_);
        free_.clear();
        for (uint32_t index = used_; index-- > 0;) {
            Slot& slot = chunks_[index / kChunk].load(std::memory_order_relaxed)[index % kChunk];
            slot.handle.store(0);
            renew(slot);
            free_.push_back(index);
        }
    }

    // All handles that are valid now.
    std::vector<uint64_t> all() {
        const std::lock_guard lock(mutex_);
        std::vector<uint64_t> handles;
        for (uint32_t index = 0; index < used_; ++index) {
            const Slot& slot = chunks_[index / kChunk].load(std::memory_order_relaxed)[index % kChunk];
            if (const uint64_t handle = slot.handle.load()) handles.push_back(handle);
        }
        return handles;
    }

  private:
    static constexpr uint32_t kChunk = 1024;
    struct Slot {
        std::atomic<uint64_t> handle{0};
        uint32_t generation = 0;
        T value{};
    };

    static void renew(Slot& slot) {
        std::destroy_at(&slot.value);
        std::construct_at(&slot.value);
    }

    const wire::HandleKind kind_;
    std::atomic<Slot*> chunks_[wire::kMaxHandles / kChunk]{};
    std::mutex mutex_;
    uint32_t used_ = 0;
    std::vector<uint32_t> free_;
};

}  // namespace client
