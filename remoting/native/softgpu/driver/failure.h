// How the driver layer's own code refuses.
#pragma once

#include "cuda/failure.h"

namespace softgpu::driver {

using cuda::check;
using cuda::Failure;
using cuda::refuse;
using cuda::require;

}  // namespace softgpu::driver
