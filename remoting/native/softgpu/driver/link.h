// Images that a program wants loaded. Of the options the software GPU heeds where to put the logs, and how
// many registers a kernel may say to have; the others are about optimising machine code and change nothing
// here.
#pragma once

#include "front/library.h"
#include "image.h"

namespace softgpu::driver {

// Reads and links it. What goes wrong is in the program's error log, and in the other one what is refused
// though the program is loaded.
std::shared_ptr<const Program> link_image(const front::Image& image, const front::JitOptions& options);

}  // namespace softgpu::driver
