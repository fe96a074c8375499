// The context that a call works in: the thread's current one, or its device's primary one.
#pragma once

#include "driver.h"

namespace cudart {

// The driver, with a current context in this thread. A context that the program has made current by the
// driver API stays; else the primary one of the thread's device becomes current.
const Driver* use_context(cudaError_t& error);

// The same for a call that gives something back: between two lives the driver as it is, which has nothing to
// give back to, and none begins for it.
const Driver* use_context_if_alive(cudaError_t& error);

// Makes the primary context of `device` the thread's; it becomes the thread's device.
cudaError_t choose_device(const Driver& driver, int device);

// The same when the thread needs a context.
cudaError_t choose_later(const Driver& driver, int device);

// The primary context of `device`, made if it is not there; the current one stays.
CUresult primary_context(const Driver& driver, int device, CUcontext& context);

// The device of the thread's current context, else the thread's own.
int current_device(const Driver& driver);

// Gives up the primary context of `device` and all that was made in it.
cudaError_t reset_device(const Driver& driver, int device);

}  // namespace cudart
