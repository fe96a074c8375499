// What a program attaches to graphs, to be destroyed by its own function after the last reference: the
// program's, a graph's, or that of a launch under way. Its handle is good as long.
#pragma once

#include <memory>

#include "objects.h"

namespace graphs {

class UserObject {
  public:
    UserObject(void* object, CUhostFn destroy) : object_(object), destroy_(destroy) {}
    ~UserObject() {
        table().remove(handle);
        destroy_(object_);
    }
    UserObject(const UserObject&) = delete;
    UserObject& operator=(const UserObject&) = delete;
    uint64_t handle = 0;

  private:
    void* const object_;
    const CUhostFn destroy_;
};

}  // namespace graphs
