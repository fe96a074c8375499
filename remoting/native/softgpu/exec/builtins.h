// Arguments and values of calls that the engine does itself.
#pragma once

#include "exec/image.h"
#include "exec/op.h"

namespace softgpu {

// Up to 8 bytes of it; 0 where the call has none of this number.
uint64_t argument(Warp* warp, const CallSite& site, size_t number, unsigned lane);
void give_back(Warp* warp, const CallSite& site, unsigned lane, uint64_t value);

// The device runtime's calls, for each lane (device_runtime.cc).
const Op* call_device_runtime(const Op* op, Warp* warp, const CallSite& site);

}  // namespace softgpu
