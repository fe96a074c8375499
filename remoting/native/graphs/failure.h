// How graph code refuses.
#pragma once

#include "cuda/failure.h"

namespace graphs {

using cuda::check;
using cuda::Failure;
using cuda::guarded;
using cuda::refuse;
using cuda::require;

}  // namespace graphs
