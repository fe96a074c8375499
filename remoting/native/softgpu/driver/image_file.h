// Images in files, and in what linkers take besides: objects and archives.
#pragma once

#include "image.h"

namespace softgpu::driver {

std::string read_file(const char* path);                   // throws FILE_NOT_FOUND
std::vector<NamedText> read_image_file(const char* path);  // throws also what read_image throws

// The PTX in the fatbins of a host object or an archive of them. What holds machine code only adds nothing:
// libcudadevrt.a is such, and the engine brings its functions itself. A symbol that is then missing is an
// error of the link.
std::vector<NamedText> texts_of_object(const void* data, size_t bytes);

}  // namespace softgpu::driver
