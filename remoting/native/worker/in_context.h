// Makes a device's context the calling thread's while it lives. The default streams are those of the current
// context, and an event can be recorded in its own context's streams alone.
#pragma once

#include "worker.h"

namespace worker {

class InContext {
  public:
    InContext(const Worker& worker, uint8_t device) : driver_(worker.driver) {
        invoke(driver_.cuCtxPushCurrent_v2, worker.devices[device].context);
    }
    ~InContext() {
        CUcontext own;
        invoke(driver_.cuCtxPopCurrent_v2, &own);
    }
    InContext(const InContext&) = delete;
    InContext& operator=(const InContext&) = delete;

  private:
    const Driver& driver_;
};

}  // namespace worker
