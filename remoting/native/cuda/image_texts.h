// What a person is told of an image that the software GPU refuses, as its driver says it and libcudart quotes
// it.
#pragma once

#include <string_view>

namespace cuda {

// Ends the reason, for whoever can build the program again.
constexpr std::string_view kBuildWithPtx =
    ". Build with PTX embedded: nvcc -gencode arch=compute_75,code=compute_75";

}  // namespace cuda
