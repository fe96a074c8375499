// Long work at the CPU end looks now and then whether it was interrupted.
#pragma once

#include "work.h"

namespace maths {

class Watch {
  public:
    explicit Watch(const Work& work) : work_(work) {}
    bool stops(int64_t steps) {
        steps_ += steps;
        if (steps_ < kApart) return stopped_;
        steps_ = 0;
        return stopped_ = stopped_ || work_.stopped();
    }

  private:
    static constexpr int64_t kApart = 1 << 20;
    const Work& work_;
    int64_t steps_ = 0;
    bool stopped_ = false;
};

}  // namespace maths
