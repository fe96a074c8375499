// What handles stand for: a program's number, pointer or index is looked up on each use, so that a stale or
// made-up one is found out and not followed. How a handle is formed is its owner's affair: the software GPU
// and graphs count, a library takes an address, the worker is told those that its client has minted. (The
// client's own are found without a lock, in slots that stay for ever: client/handles.h.)
#pragma once

#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace cuda {

// `Value` is what keeps an object alive while it is used, mostly a shared_ptr: a look-up copies it. What is
// removed is destroyed by who removed it, after the lock was given back, so a destructor may come here again.
template <typename Handle, typename Value>
class HandleTable {
  public:
    // False where the handle is taken.
    bool add(Handle handle, Value value) {
        const std::lock_guard lock(mutex_);
        return values_.emplace(handle, std::move(value)).second;
    }

    // In the place of what the handle stood for.
    void put(Handle handle, Value value) {
        const std::lock_guard lock(mutex_);
        std::swap(values_[handle], value);
    }

    // Leaves `value` as it is, and answers false, for what is no handle.
    bool find(Handle handle, Value& value) const {
        const std::shared_lock lock(mutex_);
        const auto found = values_.find(handle);
        if (found == values_.end()) return false;
        value = found->second;
        return true;
    }

    // Of two that remove one handle, one is answered true.
    bool take(Handle handle, Value& value) {
        return take_if_one(handle, value, [](const Value&) { return true; });
    }
    template <typename Wanted>
    bool take_if_one(Handle handle, Value& value, Wanted wanted) {
        const std::lock_guard lock(mutex_);
        const auto found = values_.find(handle);
        if (found == values_.end() || !wanted(std::as_const(found->second))) return false;
        std::swap(value, found->second);
        values_.erase(found);
        return true;
    }

    template <typename Wanted>
    std::vector<Value> take_if(Wanted wanted) {
        std::vector<Value> taken;
        const std::lock_guard lock(mutex_);
        for (auto entry = values_.begin(); entry != values_.end();) {
            if (!wanted(std::as_const(entry->second))) {
                ++entry;
                continue;
            }
            taken.push_back(std::move(entry->second));
            entry = values_.erase(entry);
        }
        return taken;
    }
    std::vector<Value> take_all() {
        return take_if([](const Value&) { return true; });
    }

    template <typename Visit>
    void each(Visit visit) const {
        const std::shared_lock lock(mutex_);
        for (const auto& [handle, value] : values_) visit(value);
    }

    bool contains(Handle handle) const {
        const std::shared_lock lock(mutex_);
        return values_.contains(handle);
    }
    size_t size() const {
        const std::shared_lock lock(mutex_);
        return values_.size();
    }

  private:
    mutable std::shared_mutex mutex_;
    std::unordered_map<Handle, Value> values_;
};

}  // namespace cuda
