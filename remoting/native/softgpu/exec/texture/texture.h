// What a texture or a surface object is to a kernel: where its elements lie, and how a texture is sampled.
// Plain data, made by the driver layer and never changed afterwards.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace softgpu::texture {

enum class Format : uint8_t { u8, u16, u32, s8, s16, s32, f16, f32 };  // of a channel

constexpr uint32_t channel_bytes(Format format) {
    switch (format) {
        case Format::u8:
        case Format::s8:
            return 1;
        case Format::u16:
        case Format::s16:
        case Format::f16:
            return 2;
        default:
            return 4;
    }
}

// `linear`: memory of one dimension, which is fetched from by the element's number alone.
enum class Kind : uint8_t {
    linear,
    one_dimension,
    two_dimensions,
    three_dimensions,
    layers_of_one,
    layers_of_two,
    cubemap,
    layered_cubemap
};
constexpr uint32_t kFaces = 6;

// A level of a mipmapped array, or all there is. A plane is a slice of depth, a layer or a face.
struct Level {
    uint64_t base = 0;
    uint32_t width = 1, height = 1, depth = 1;  // elements, rows, planes
    uint64_t row_pitch = 0, plane_pitch = 0;    // bytes from one to the next
};

struct Elements {
    Kind kind = Kind::one_dimension;
    Format format = Format::f32;
    uint32_t channels = 1;  // 1, 2 or 4
    bool gathers = true;    // gathered from: an array was made for it
    std::vector<Level> levels;

    uint32_t bytes() const { return channel_bytes(format) * channels; }
};

// The bytes from the first to the last element, both within.
constexpr uint64_t span(const Level& level, uint32_t element_bytes) {
    return uint64_t{level.depth - 1} * level.plane_pitch + uint64_t{level.height - 1} * level.row_pitch +
           uint64_t{level.width} * element_bytes;
}

enum class Address : uint8_t { wrap, clamp, mirror, border };

struct Sampler {
    std::array<Address, 3> address{Address::clamp, Address::clamp, Address::clamp};
    bool linear = false;                  // filters, else takes the nearest
    bool normalized_coordinates = false;  // the extent is 1
    bool as_float = false;                // integers of 8 and 16 bits as [0, 1] or [-1, 1]
    bool srgb = false;
    bool linear_between_levels = false;
    bool anisotropic = false;
    float bias = 0, least_level = 0, greatest_level = 0;
    std::array<float, 4> border{};  // of integers: their bits
};

struct Texture {
    Elements elements;
    Sampler sampler;
};

}  // namespace softgpu::texture
