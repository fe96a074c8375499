// Machine code for runs of instructions that a gang goes through without a branch: values stay in vector
// registers from one instruction to the next. It stands for the gang handler of the run's first op (AVX-512
// only). What it cannot do (lanes far apart, a check that fails, a gang that has lost lanes) the handlers do.
#pragma once

#include "exec/image.h"

namespace softgpu::machine_code {

bool possible();  // on this machine

struct Text {
    std::shared_ptr<const void> code;  // must outlive the image's launches
    uint32_t runs = 0, ops = 0;        // that have code
};

// Puts code in place of handlers in an image's ops, before anybody else has the image.
Text compile(Image& image);

}  // namespace softgpu::machine_code
