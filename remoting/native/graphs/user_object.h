// What a program attaches to graphs, to be destroyed by its own function after the last reference: the
// program's, a graph's, or that of a launch under way. Its handle is good as long.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "objects.h"

namespace graphs {

class UserObject {
  public:
    UserObject(void* object, CUhostFn destroy) : object_(object), destroy_(destroy) {}
    ~UserObject() {
        table().remove(handle);
        if (later_) {
            later_->push_back([destroy = destroy_, object = object_] { destroy(object); });
        } else {
            destroy_(object_);
        }
    }
    // While one lives, what ends in this thread leaves its function in `told`.
    class Later {
      public:
        explicit Later(std::vector<std::function<void()>>& told) { later_ = &told; }
        ~Later() { later_ = nullptr; }
        Later(const Later&) = delete;
        Later& operator=(const Later&) = delete;
    };
    // Whether a Later lives in this thread.
    static bool collects() { return later_ != nullptr; }
    UserObject(const UserObject&) = delete;
    UserObject& operator=(const UserObject&) = delete;
    uint64_t handle = 0;

  private:
    void* const object_;
    const CUhostFn destroy_;
    static inline thread_local std::vector<std::function<void()>>* later_ = nullptr;
};

}  // namespace graphs
