// Images that a program names by a path.
#pragma once

#include <string>

namespace client {

// Reads a whole file, at most wire::kMaxImage bytes. False when it cannot be read.
bool read_image_file(const char* path, std::string& bytes);

}  // namespace client
