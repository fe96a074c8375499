// Sampling, as the CUDA programming guide's chapter "Texture Fetching" defines it. Pure: a texture, a request
// and coordinates in, four channels out. Whatever the coordinates are, no element outside of the texture is
// read.
#pragma once

#include "exec/texture/request.h"
#include "exec/texture/texture.h"

namespace softgpu::texture {

struct Coordinates {
    float at[3] = {};
    int32_t element[3] = {};  // with Request::by_element
    uint32_t layer = 0;
    float level = 0;
    float dx[3] = {}, dy[3] = {};  // how `at` changes, with Detail::gradient
};

// Channels as the registers get them: floats by their bits, integers extended to 32.
using Texel = std::array<uint32_t, 4>;

// Both want a texture that `refusal` has no objection to.
Texel sample(const Texture& texture, const Request& request, const Coordinates& at);
Texel gather(const Texture& texture, const Request& request, const Coordinates& at);

// Why the request cannot be made of such a texture; null where it can.
const char* refusal(const Texture& texture, const Request& request, bool gathers);

// Does an instruction of the geometry take such elements? Of a surface also faces as layers.
bool takes(Geometry geometry, Kind kind, bool surface);

}  // namespace softgpu::texture
