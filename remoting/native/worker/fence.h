// The time after which this process must not live, whatever becomes of its agent (docs/design/agent.md,
// "Fencing").
#pragma once

#include <atomic>
#include <cstdint>

namespace worker {

class Fence {
  public:
    // `control_fd`: where the agent is told that the time has come.
    explicit Fence(int control_fd) : control_fd_(control_fd) {}

    // Lets the process live until `until_ms` (milliseconds of CLOCK_BOOTTIME) and no longer; what was said
    // last counts. False if the kernel gives no timer: the process must then not go on.
    bool live_until(uint64_t until_ms);

  private:
    void wait();

    const int control_fd_;
    int timer_ = -1;
    std::atomic<uint64_t> until_ms_{0};
};

}  // namespace worker
