// What happens while a thread of the program waits for the worker, and the wait lasts: the person's interrupt
// is looked out for (interrupt.h), and a wait that perhaps never ends is told.
//
// Where host and GPU have no memory in common, a running kernel does not see what the program changes of
// mapped memory after the launch, but with a later call (shared_memory.h). A kernel that spins until such a
// word has changed holds up the wait that the program makes next, for ever. Nobody can see a kernel spin; but
// that the wait is for kernels, has lasted, and that the program has changed memory which they share, can be
// seen, and is told, once an allocation. Long kernels alone say nothing.
#pragma once

#include "interrupt.h"

namespace client {

class LongWait final : public wire::Waiting {
  public:
    void goes_on() override;
    void over() override;

    // Of the lane's thread: the wait that begins, or has ended, is for work on the device.
    void is_for_work(bool is, uint8_t device) {
        for_work_ = is;
        device_ = device;
    }

  private:
    InterruptWatch interrupts_;
    int turns_ = 0;
    bool for_work_ = false;
    uint8_t device_ = 0;
};

}  // namespace client
