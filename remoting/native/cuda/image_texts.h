// What a person is told of an image that cannot be used here: as the software GPU's driver says it and
// libcudart quotes it, and of what a package has brought, which nobody here can build again.
#pragma once

#include <string_view>

namespace cuda {

// Ends the reason, for whoever can build the program again.
constexpr std::string_view kBuildWithPtx =
    ". Build with PTX embedded: nvcc -gencode arch=compute_75,code=compute_75";

// Ends what is said of a package.
constexpr std::string_view kOtherPackages =
    ". numba, cuda.core, PyTorch, TensorFlow, JAX and Triton can use this GPU";

}  // namespace cuda
