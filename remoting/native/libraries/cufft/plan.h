// cuFFT's plans: what is to be computed, and where, in the program's process.
#pragma once

#include <cuda.h>

#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>

#include "cufft/messages.h"
#include "cufft/status.h"

namespace cufft {

// A program's threads may use one at once.
struct OwnPlan {
    std::mutex mutex;
    CUstream stream = nullptr;
    bool is_made = false;
    bool has_run = false;
    maths::cufft::Plan plan{};
};

// A handle is a number here, which is never given twice.
class Plans {
  public:
    static Plans& get();

    int add();
    // Null for what is no handle. It lives as long as a call has it.
    std::shared_ptr<OwnPlan> find(int handle) const;
    std::shared_ptr<OwnPlan> take(int handle);

  private:
    mutable std::shared_mutex mutex_;
    int last_ = 0;
    std::map<int, std::shared_ptr<OwnPlan>> live_;
};

// Whether something computes transforms here; tells the user once where nothing does.
Status look();
// Posts a transform in the plan's stream. `direction` is what cuFFT's is.
Status execute(int handle, const void* input, void* output, int64_t direction);
// Gives up what is kept for the plan where it runs.
Status destroy(int handle);

}  // namespace cufft
