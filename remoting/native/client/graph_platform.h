// What the client knows of the parts of graphs.
#pragma once

#include "graphs/platform.h"
#include "launch.h"

namespace client {

struct GraphKernel : graphs::Kernel {
    client::Kernel kernel;  // a copy: the program may unload the library
};

inline const Kernel& kernel_of_node(const graphs::KernelParams& params) {
    return static_cast<const GraphKernel&>(*params.kernel).kernel;
}
Shape shape_of(const graphs::KernelParams& params);

}  // namespace client
