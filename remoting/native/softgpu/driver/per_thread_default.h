// While one lives, stream 0 means the calling thread's own default stream.
#pragma once

#include "thread_state.h"

namespace softgpu::driver {

class PerThreadDefault {
  public:
    PerThreadDefault() : thread_(thread_state()), before_(thread_.per_thread_default) {
        thread_.per_thread_default = true;
    }
    ~PerThreadDefault() { thread_.per_thread_default = before_; }
    PerThreadDefault(const PerThreadDefault&) = delete;
    PerThreadDefault& operator=(const PerThreadDefault&) = delete;

  private:
    ThreadState& thread_;
    const bool before_;
};

}  // namespace softgpu::driver
