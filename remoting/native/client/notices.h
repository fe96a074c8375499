// What the worker has to tell the person at this program: taken when a reply says that something waits, and
// told before the call returns.
#pragma once

#include <atomic>
#include <mutex>

namespace client {

class Lane;

class Notices {
  public:
    static Notices& get();

    // After a reply on `lane`, before its call returns. False when the connection is broken.
    //
    // Why nothing comes late: what this thread's reply explains is either announced in it, or was taken by
    // another thread before the reply was made. That thread has counted itself in `telling_` before it asked,
    // so this one sees it there and waits until it has told.
    bool tell(Lane& lane);

  private:
    Notices() = default;
    bool take_and_tell(Lane& lane);

    std::mutex mutex_;
    std::atomic<int> telling_{0};
};

// GPU_KERNELS_SOFTGPU_CHECK of this process goes to the worker. False when the connection is broken.
bool ask_for_checks(Lane& lane);

}  // namespace client
