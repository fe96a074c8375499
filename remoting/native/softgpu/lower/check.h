// What a program that is to be checked has besides its own instructions (exec/check/).
#pragma once

#include "lower/ir.h"

namespace softgpu::lower {

// Puts a check before each access to memory and around each barrier of the function. Instructions have their
// names then (Image::checked).
void add_checks(Body& body, Image& image);

}  // namespace softgpu::lower
