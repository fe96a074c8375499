// A launch's configuration in the driver's words.
#pragma once

#include "abi.h"

namespace cudart {

// False when it cannot be said in them: the driver's shared memory has 32 bits.
bool driver_config(const cudaLaunchConfig_t& from, CUlaunchConfig& to);

}  // namespace cudart
