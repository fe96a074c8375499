#include "image_file.h"

#include <fstream>

#include "protocol.h"

namespace client {

bool read_image_file(const char* path, std::string& bytes) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return false;
    char block[65536];
    while (file.read(block, sizeof block) || file.gcount() > 0) {
        bytes.append(block, static_cast<size_t>(file.gcount()));
        if (bytes.size() > wire::kMaxImage) return false;
    }
    return true;
}

}  // namespace client
