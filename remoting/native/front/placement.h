// What programs ask of memory that has a place: pools and created memory. Here it lies on one device and is
// this process's alone; what else CUDA has is refused by name.
#pragma once

#include "platform.h"

namespace front {

// What is not done is told to the user, each name once.
void require_done(bool done, const char* name);

// Which device gets access to memory, or loses it.
struct Access {
    CUdevice device;
    bool granted;
};
Access access_of(const CUmemAccessDesc& asked);

}  // namespace front
