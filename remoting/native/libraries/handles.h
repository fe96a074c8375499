// The handles that a library has given to the program. One that was destroyed, or never given, is found out: a
// pointer is looked up and not followed.
#pragma once

#include <memory>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <unordered_map>

namespace libraries {

template <typename Handle>
class Handles {
  public:
    // Null without memory.
    void* add() {
        try {
            auto handle = std::make_shared<Handle>();
            void* const name = handle.get();
            const std::lock_guard lock(mutex_);
            live_.emplace(name, std::move(handle));
            return name;
        } catch (const std::bad_alloc&) {
            return nullptr;
        }
    }
    // Null for what is no handle. It lives as long as a call has it.
    std::shared_ptr<Handle> find(const void* name) const {
        const std::shared_lock lock(mutex_);
        const auto found = live_.find(name);
        return found == live_.end() ? nullptr : found->second;
    }
    bool remove(const void* name) {
        std::shared_ptr<Handle> last;
        const std::lock_guard lock(mutex_);
        const auto found = live_.find(name);
        if (found == live_.end()) return false;
        last = std::move(found->second);
        live_.erase(found);
        return true;
    }

  private:
    mutable std::shared_mutex mutex_;
    std::unordered_map<const void*, std::shared_ptr<Handle>> live_;
};

}  // namespace libraries
