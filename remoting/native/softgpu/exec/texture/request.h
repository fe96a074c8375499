// What an instruction asks of a texture or surface, in one number: the selector writes it, the handlers read
// it.
#pragma once

#include <cstdint>

namespace softgpu::texture {

enum class Geometry : uint32_t { d1, d2, d3, a1d, a2d, cube, acube };  // in the order of instructions.txt
enum class Detail : uint32_t { base, level, gradient };                // which level of a mipmapped array
enum class Result : uint32_t { words, halves, half_pairs };            // four registers, or two of two f16
enum class Bounds : uint32_t { trap, clamp, zero };                    // of a surface, in that order

struct Request {
    Geometry geometry = Geometry::d1;
    Detail detail = Detail::base;
    Result result = Result::words;
    bool by_element = false;  // coordinates are numbers of elements: nothing is filtered
    uint32_t channel = 0;     // to gather
    Bounds bounds = Bounds::trap;
    uint32_t bytes = 1;  // of a component of a surface access
    uint32_t parts = 1;  // components

    constexpr uint32_t pack() const {
        return uint32_t(geometry) | uint32_t(detail) << 3 | uint32_t(result) << 5 |
               uint32_t(by_element) << 7 | channel << 8 | uint32_t(bounds) << 10 | bytes << 12 | parts << 16;
    }
    static constexpr Request unpack(uint32_t packed) {
        return {Geometry(packed & 7),   Detail(packed >> 3 & 3), Result(packed >> 5 & 3),
                (packed >> 7 & 1) != 0, packed >> 8 & 3,         Bounds(packed >> 10 & 3),
                packed >> 12 & 15,      packed >> 16 & 7};
    }
};

constexpr bool is_layered(Geometry geometry) {
    return geometry == Geometry::a1d || geometry == Geometry::a2d || geometry == Geometry::acube;
}
// How many coordinates follow the layer.
constexpr uint32_t dimensions(Geometry geometry) {
    switch (geometry) {
        case Geometry::d1:
        case Geometry::a1d:
            return 1;
        case Geometry::d2:
        case Geometry::a2d:
            return 2;
        default:
            return 3;
    }
}
constexpr const char* name_of(Geometry geometry) {
    constexpr const char* kNames[] = {"1d", "2d", "3d", "a1d", "a2d", "cube", "acube"};
    return kNames[uint32_t(geometry)];
}

}  // namespace softgpu::texture
