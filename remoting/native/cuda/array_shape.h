// What a CUDA array is: read and checked in one way by the front, the software GPU, the client and the
// worker. Pure: the device's limits are given as a function. docs/design/textures.md.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "cuda_abi.h"

namespace cuda {

enum class ArrayKind : uint8_t {
    one_dimension,
    two_dimensions,
    three_dimensions,
    layers_of_one,
    layers_of_two,
    cubemap,
    layered_cubemap
};
inline constexpr uint64_t kFaces = 6;  // of a cubemap

// The bytes of a channel; 0 for a format whose elements are not plain numbers.
constexpr uint64_t channel_bytes(CUarray_format format) {
    switch (format) {
        case CU_AD_FORMAT_UNSIGNED_INT8:
        case CU_AD_FORMAT_SIGNED_INT8:
            return 1;
        case CU_AD_FORMAT_UNSIGNED_INT16:
        case CU_AD_FORMAT_SIGNED_INT16:
        case CU_AD_FORMAT_HALF:
            return 2;
        case CU_AD_FORMAT_UNSIGNED_INT32:
        case CU_AD_FORMAT_SIGNED_INT32:
        case CU_AD_FORMAT_FLOAT:
            return 4;
        default:
            return 0;
    }
}

// As the program gave it. What is said of sizes holds for one that check_array() takes: none overflows.
struct ArrayShape {
    uint64_t width = 0, height = 0, depth = 0;  // elements; 0: no such dimension
    CUarray_format format = CU_AD_FORMAT_FLOAT;
    unsigned channels = 1;
    unsigned flags = 0;   // CUDA_ARRAY3D_…
    unsigned levels = 0;  // of a mipmapped array; 0: an array

    constexpr bool is_layered() const { return flags & CUDA_ARRAY3D_LAYERED; }
    constexpr bool is_cubemap() const { return flags & CUDA_ARRAY3D_CUBEMAP; }
    constexpr ArrayKind kind() const {
        if (is_cubemap()) return is_layered() ? ArrayKind::layered_cubemap : ArrayKind::cubemap;
        if (is_layered()) return height ? ArrayKind::layers_of_two : ArrayKind::layers_of_one;
        if (depth) return ArrayKind::three_dimensions;
        return height ? ArrayKind::two_dimensions : ArrayKind::one_dimension;
    }
    // Whether the depth counts layers or faces, which levels do not make fewer.
    constexpr bool has_layers() const { return is_layered() || is_cubemap(); }

    constexpr uint64_t element_bytes() const { return channel_bytes(format) * channels; }
    constexpr uint64_t row_bytes() const { return width * element_bytes(); }
    constexpr uint64_t rows() const { return std::max<uint64_t>(height, 1); }
    constexpr uint64_t planes() const { return std::max<uint64_t>(depth, 1); }
    constexpr uint64_t plane_bytes() const { return row_bytes() * rows(); }
    constexpr uint64_t bytes() const { return plane_bytes() * planes(); }  // of the first level

    // The most that a mipmapped array of this shape can have: the last is one element.
    constexpr unsigned most_levels() const {
        const uint64_t longest = std::max({width, height, has_layers() ? 0 : depth});
        return static_cast<unsigned>(std::bit_width(longest));
    }
    // The array that a level is.
    constexpr ArrayShape level(unsigned number) const {
        const auto halved = [number](uint64_t extent) {
            return extent ? std::max<uint64_t>(extent >> number, 1) : 0;
        };
        ArrayShape shape = *this;
        shape.width = halved(width);
        shape.height = halved(height);
        if (!has_layers()) shape.depth = halved(depth);
        shape.levels = 0;
        return shape;
    }

    // In linear memory: rows without gaps, and levels one after another.
    static constexpr uint64_t kLevelAlign = 512;
    constexpr uint64_t offset_of_level(unsigned number) const {
        uint64_t offset = 0;
        for (unsigned i = 0; i < number; ++i)
            offset += (level(i).bytes() + kLevelAlign - 1) / kLevelAlign * kLevelAlign;
        return offset;
    }
    constexpr uint64_t linear_bytes() const {
        return levels ? offset_of_level(levels - 1) + level(levels - 1).bytes() : bytes();
    }
};

namespace array_shape {

// The attributes that bound a kind; 0 where it has no such dimension.
struct Limits {
    int width, height, depth;
};

#define GK_LIMIT(name) CU_DEVICE_ATTRIBUTE_MAXIMUM_##name

inline constexpr Limits kTexture[] = {
    {GK_LIMIT(TEXTURE1D_WIDTH), 0, 0},
    {GK_LIMIT(TEXTURE2D_WIDTH), GK_LIMIT(TEXTURE2D_HEIGHT), 0},
    {GK_LIMIT(TEXTURE3D_WIDTH), GK_LIMIT(TEXTURE3D_HEIGHT), GK_LIMIT(TEXTURE3D_DEPTH)},
    {GK_LIMIT(TEXTURE1D_LAYERED_WIDTH), 0, GK_LIMIT(TEXTURE1D_LAYERED_LAYERS)},
    {GK_LIMIT(TEXTURE2D_LAYERED_WIDTH), GK_LIMIT(TEXTURE2D_LAYERED_HEIGHT),
     GK_LIMIT(TEXTURE2D_LAYERED_LAYERS)},
    {GK_LIMIT(TEXTURECUBEMAP_WIDTH), GK_LIMIT(TEXTURECUBEMAP_WIDTH), 0},
    {GK_LIMIT(TEXTURECUBEMAP_LAYERED_WIDTH), GK_LIMIT(TEXTURECUBEMAP_LAYERED_WIDTH),
     GK_LIMIT(TEXTURECUBEMAP_LAYERED_LAYERS)},
};
inline constexpr Limits kSurface[] = {
    {GK_LIMIT(SURFACE1D_WIDTH), 0, 0},
    {GK_LIMIT(SURFACE2D_WIDTH), GK_LIMIT(SURFACE2D_HEIGHT), 0},
    {GK_LIMIT(SURFACE3D_WIDTH), GK_LIMIT(SURFACE3D_HEIGHT), GK_LIMIT(SURFACE3D_DEPTH)},
    {GK_LIMIT(SURFACE1D_LAYERED_WIDTH), 0, GK_LIMIT(SURFACE1D_LAYERED_LAYERS)},
    {GK_LIMIT(SURFACE2D_LAYERED_WIDTH), GK_LIMIT(SURFACE2D_LAYERED_HEIGHT),
     GK_LIMIT(SURFACE2D_LAYERED_LAYERS)},
    {GK_LIMIT(SURFACECUBEMAP_WIDTH), GK_LIMIT(SURFACECUBEMAP_WIDTH), 0},
    {GK_LIMIT(SURFACECUBEMAP_LAYERED_WIDTH), GK_LIMIT(SURFACECUBEMAP_LAYERED_WIDTH),
     GK_LIMIT(SURFACECUBEMAP_LAYERED_LAYERS)},
};
inline constexpr Limits kTexture3DAlternate = {GK_LIMIT(TEXTURE3D_WIDTH_ALTERNATE),
                                               GK_LIMIT(TEXTURE3D_HEIGHT_ALTERNATE),
                                               GK_LIMIT(TEXTURE3D_DEPTH_ALTERNATE)};
inline constexpr Limits kMipmapped1D = {GK_LIMIT(TEXTURE1D_MIPMAPPED_WIDTH), 0, 0};
inline constexpr Limits kMipmapped2D = {GK_LIMIT(TEXTURE2D_MIPMAPPED_WIDTH),
                                        GK_LIMIT(TEXTURE2D_MIPMAPPED_HEIGHT), 0};
inline constexpr Limits kGather = {GK_LIMIT(TEXTURE2D_GATHER_WIDTH), GK_LIMIT(TEXTURE2D_GATHER_HEIGHT), 0};

#undef GK_LIMIT

// Whatever a device says of itself, so that no product overflows.
inline constexpr uint64_t kMostExtent = 1 << 19;

template <class Limit>
bool within(const ArrayShape& shape, const Limits& limits, Limit&& limit) {
    const auto fits = [&](uint64_t extent, int attribute) {
        if (extent == 0 || extent > kMostExtent) return extent == 0;
        return attribute == 0 ||
               static_cast<int64_t>(extent) <= limit(static_cast<CUdevice_attribute>(attribute));
    };
    return fits(shape.width, limits.width) && fits(shape.height, limits.height) &&
           fits(shape.depth, limits.depth);
}

// Whether the dimensions that are there make a kind.
constexpr bool is_kind(const ArrayShape& shape) {
    if (shape.width == 0 || (shape.depth && !shape.height && !shape.is_layered())) return false;
    if (shape.has_layers() && shape.depth == 0) return false;
    if (shape.is_cubemap()) {
        const bool faces = shape.is_layered() ? shape.depth % kFaces == 0 : shape.depth == kFaces;
        if (shape.width != shape.height || !faces) return false;
    }
    return !(shape.flags & CUDA_ARRAY3D_TEXTURE_GATHER) || shape.kind() == ArrayKind::two_dimensions;
}

constexpr Limits texture_limits(const ArrayShape& shape) {
    if (shape.levels && shape.kind() == ArrayKind::one_dimension) return kMipmapped1D;
    if (shape.levels && shape.kind() == ArrayKind::two_dimensions) return kMipmapped2D;
    return kTexture[static_cast<size_t>(shape.kind())];
}

}  // namespace array_shape

// What of the shape is CUDA's and not done here, by name; null where nothing is.
constexpr const char* not_done(const ArrayShape& shape) {
    constexpr unsigned kNotDone = CUDA_ARRAY3D_DEPTH_TEXTURE | CUDA_ARRAY3D_COLOR_ATTACHMENT |
                                  CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING |
                                  CUDA_ARRAY3D_VIDEO_ENCODE_DECODE;
    if (shape.flags & kNotDone)
        return "a CUDA array that is sparse, mapped later, or for depth, colour or video,";
    const auto number = static_cast<unsigned>(shape.format);
    constexpr unsigned kFirst = 0x50, kLast = 0xff;  // of formats that newer releases of CUDA have added
    if (channel_bytes(shape.format) == 0 && number >= kFirst && number <= kLast)
        return "a CUDA array of a compressed, video or normalized format";
    return nullptr;
}

// `limit(attribute)` is what the device says. A shape is checked once, and then kept.
template <class Limit>
CUresult check_array(const ArrayShape& shape, Limit&& limit) {
    using namespace array_shape;
    if (not_done(shape)) return CUDA_ERROR_NOT_SUPPORTED;
    constexpr unsigned kKnown =
        CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_TEXTURE_GATHER;
    const bool channels = shape.channels == 1 || shape.channels == 2 || shape.channels == 4;
    if (channel_bytes(shape.format) == 0 || !channels || (shape.flags & ~kKnown) || !is_kind(shape))
        return CUDA_ERROR_INVALID_VALUE;
    const bool alternate = shape.kind() == ArrayKind::three_dimensions;
    bool fits = within(shape, texture_limits(shape), limit) ||
                (alternate && within(shape, kTexture3DAlternate, limit));
    if (shape.flags & CUDA_ARRAY3D_SURFACE_LDST)
        fits = fits && within(shape, kSurface[static_cast<size_t>(shape.kind())], limit);
    if (shape.flags & CUDA_ARRAY3D_TEXTURE_GATHER) fits = fits && within(shape, kGather, limit);
    return fits && shape.levels <= shape.most_levels() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// Where something begins in an array: byte in a row, row, plane.
struct ArrayPlace {
    uint64_t x = 0, y = 0, z = 0;
};

// The array as if it lay in rows without gaps: offset and shape give the place back.
constexpr uint64_t offset_of(const ArrayShape& shape, const ArrayPlace& place) {
    return place.z * shape.plane_bytes() + place.y * shape.row_bytes() + place.x;
}
constexpr ArrayPlace place_of(const ArrayShape& shape, uint64_t offset) {
    return {offset % shape.row_bytes(), offset / shape.row_bytes() % shape.rows(),
            offset / shape.plane_bytes()};
}

// Whether a box of `width` bytes, rows and planes from `place` on is whole elements of the array.
constexpr bool holds(const ArrayShape& shape, const ArrayPlace& place, uint64_t width, uint64_t height,
                     uint64_t depth) {
    const auto inside = [](uint64_t first, uint64_t count, uint64_t all) {
        return count <= all && first <= all - count;
    };
    const uint64_t element = shape.element_bytes();
    return place.x % element == 0 && width % element == 0 && inside(place.x, width, shape.row_bytes()) &&
           inside(place.y, height, shape.rows()) && inside(place.z, depth, shape.planes());
}

}  // namespace cuda
