// Texture and surface objects, as the client keeps them: what the program gave. Their values are the
// device's.
#pragma once

#include <cstdint>
#include <vector>

#include "protocol.h"

namespace client {

// Takes the objects that the context owned off the tables.
std::vector<wire::TextureEnd> take_textures(uint64_t context);
void forget_textures();  // the life ends (life.h)

}  // namespace client
