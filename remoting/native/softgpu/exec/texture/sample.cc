#include "exec/texture/sample.h"

#include <algorithm>
#include <cmath>

#include "exec/lanes/floats.h"

namespace softgpu::texture {
namespace {

using SOFTGPU_ISA::bits_as;

constexpr uint32_t kOne = 0x3f800000;  // 1.0f

// Of what fits: the library's has no instruction on every machine.
int64_t whole_of(double x) {
    const auto cut = int64_t(x);
    return cut - (x < double(cut));
}

// Weights have 8 bits of fraction: 0 to 256 of 256.
double weight(double fraction) {
    return double(int64_t(fraction * 256 + 0.5)) / 256;
}

// ---- coordinates

// What is no number is 0. Wrapping and mirroring are of normalized coordinates only.
Address effective(const Sampler& sampler, int axis) {
    const Address mode = sampler.address[size_t(axis)];
    const bool needs = mode == Address::wrap || mode == Address::mirror;
    return needs && !sampler.normalized_coordinates ? Address::clamp : mode;
}

// In elements, within one of [0, extent) however far away it was.
double position(double at, uint32_t extent, Address mode, bool normalized) {
    if (normalized && (mode == Address::wrap || mode == Address::mirror)) {
        const double whole = std::floor(at), fraction = at - whole;
        at = mode == Address::mirror && std::fmod(whole, 2) != 0 ? 1 - fraction : fraction;
    }
    if (normalized) at *= extent;
    if (std::isnan(at)) return 0;  // of infinities, too
    return std::clamp(at, -2.0, double(extent) + 1);
}

// The element's number; -1 for the border.
int64_t settled(int64_t index, uint32_t extent, Address mode) {
    if (index >= 0 && index < int64_t(extent)) return index;
    if (mode == Address::border) return -1;
    if (mode == Address::wrap) return index < 0 ? index + extent : index - extent;
    return index < 0 ? 0 : int64_t(extent) - 1;
}

// Two neighbours in one dimension; the second has the weight.
struct Neighbours {
    int64_t first = 0, second = 0;
    double weight = 0;
};

Neighbours nearest(double at, uint32_t extent, Address mode, bool normalized) {
    int64_t index = whole_of(position(at, extent, mode, normalized));
    // A fraction that was rounded up to 1 is of the last element.
    if (mode == Address::wrap) index = std::min(index, int64_t(extent) - 1);
    return {settled(index, extent, mode), 0, 0};
}

Neighbours around(double at, uint32_t extent, Address mode, bool normalized) {
    const double moved = position(at, extent, mode, normalized) - 0.5;
    const int64_t whole = whole_of(moved);
    return {settled(whole, extent, mode), settled(whole + 1, extent, mode), weight(moved - double(whole))};
}

// ---- elements

struct Raw {
    const std::byte* at;
    template <class T>
    T take(uint32_t channel) const {
        T value;
        __builtin_memcpy(&value, at + channel * sizeof value, sizeof value);
        return value;
    }
};

uint32_t channel_of(const Raw& raw, Format format, uint32_t channel) {
    switch (format) {
        case Format::u8:
            return raw.take<uint8_t>(channel);
        case Format::u16:
            return raw.take<uint16_t>(channel);
        case Format::s8:
            return uint32_t(int32_t{raw.take<int8_t>(channel)});
        case Format::s16:
            return uint32_t(int32_t{raw.take<int16_t>(channel)});
        case Format::f16:
            return bits_as<uint32_t>(SOFTGPU_ISA::widen(SOFTGPU_ISA::f16{raw.take<uint16_t>(channel)}));
        default:
            return raw.take<uint32_t>(channel);
    }
}

float linear_of_srgb(float value) {
    const double x = value;
    return float(x <= 0.04045 ? x / 12.92 : std::pow((x + 0.055) / 1.055, 2.4));
}
// The last channel of four is no colour.
float promoted(uint32_t bits, Format format, bool srgb) {
    switch (format) {
        case Format::u8: {
            static const std::array<float, 256>* const curve = [] {
                auto* made = new std::array<float, 256>;
                for (uint32_t i = 0; i < 256; ++i) (*made)[i] = linear_of_srgb(float(i) / 255);
                return made;
            }();
            return srgb ? (*curve)[bits & 0xff] : float(bits) / 255;
        }
        case Format::u16:
            return float(bits) / 65535;
        case Format::s8:
            return std::max(float(int32_t(bits)) / 127, -1.0f);
        case Format::s16:
            return std::max(float(int32_t(bits)) / 32767, -1.0f);
        default:
            return bits_as<float>(bits);
    }
}

bool is_float(Format format) {
    return format == Format::f16 || format == Format::f32;
}
bool promotes(const Texture& texture) {
    return texture.sampler.as_float && channel_bytes(texture.elements.format) < 4 &&
           texture.elements.format != Format::f16;
}
bool gives_floats(const Texture& texture) {
    return is_float(texture.elements.format) || promotes(texture);
}

// What stands in channels that the elements do not have.
Texel blank(const Texture& texture) {
    return {0, 0, 0, gives_floats(texture) ? kOne : 1};
}

Texel border(const Texture& texture) {
    Texel texel = blank(texture);
    for (uint32_t i = 0; i < texture.elements.channels; ++i)
        texel[i] = bits_as<uint32_t>(texture.sampler.border[i]);
    return texel;
}

struct Place {
    int64_t x = 0, y = 0, z = 0;  // -1: the border
};

Texel fetch(const Texture& texture, const Level& level, const Place& place) {
    if ((place.x | place.y | place.z) < 0) return border(texture);
    const Elements& elements = texture.elements;
    const Raw raw{reinterpret_cast<const std::byte*>(level.base + uint64_t(place.z) * level.plane_pitch +
                                                     uint64_t(place.y) * level.row_pitch +
                                                     uint64_t(place.x) * elements.bytes())};
    Texel texel = blank(texture);
    const bool promote = promotes(texture);
    for (uint32_t i = 0; i < elements.channels; ++i) {
        texel[i] = channel_of(raw, elements.format, i);
        if (promote)
            texel[i] = bits_as<uint32_t>(promoted(texel[i], elements.format, texture.sampler.srgb && i < 3));
    }
    return texel;
}

// ---- where a request points to

struct Face {
    uint32_t number = 0;
    int major = 0, s = 0, t = 0;  // which coordinate each is
    float s_sign = 1, t_sign = 1, major_sign = 1;
};

// Of equal sizes z comes first, then y.
Face face_of(const float (&at)[3]) {
    const float x = std::fabs(at[0]), y = std::fabs(at[1]), z = std::fabs(at[2]);
    if (z >= x && z >= y)
        return std::signbit(at[2]) ? Face{5, 2, 0, 1, -1, -1, -1} : Face{4, 2, 0, 1, 1, -1, 1};
    if (y >= x) return std::signbit(at[1]) ? Face{3, 1, 0, 2, 1, -1, -1} : Face{2, 1, 0, 2, 1, 1, 1};
    return std::signbit(at[0]) ? Face{1, 0, 2, 1, 1, -1, -1} : Face{0, 0, 2, 1, -1, -1, 1};
}

// A request with faces and layers turned to planes: coordinates of one to three dimensions, of a plane.
struct Target {
    double at[3] = {};
    double dx[3] = {}, dy[3] = {};
    uint32_t plane = 0;
    uint32_t dimensions = 1;
    bool normalized = false;
    bool face = false;  // addresses are clamped
};

void project(const Coordinates& given, Target& target) {
    const Face face = face_of(given.at);
    const double m = double(given.at[face.major]) * face.major_sign;
    const double s = double(given.at[face.s]) * face.s_sign, t = double(given.at[face.t]) * face.t_sign;
    target.at[0] = (s / m + 1) / 2;
    target.at[1] = (t / m + 1) / 2;
    // The derivative of s / 2m.
    const auto change = [&](const float (&by)[3], double (&out)[3]) {
        const double dm = double(by[face.major]) * face.major_sign;
        out[0] = (double(by[face.s]) * face.s_sign * m - s * dm) / (2 * m * m);
        out[1] = (double(by[face.t]) * face.t_sign * m - t * dm) / (2 * m * m);
    };
    change(given.dx, target.dx);
    change(given.dy, target.dy);
    target.plane = face.number;
    target.dimensions = 2;
    target.normalized = target.face = true;
}

Target target_of(const Texture& texture, const Request& request, const Coordinates& given) {
    Target target;
    const Level& first = texture.elements.levels[0];
    const bool cube = request.geometry == Geometry::cube || request.geometry == Geometry::acube;
    if (cube) {
        project(given, target);
    } else {
        target.dimensions = dimensions(request.geometry);
        target.normalized = texture.sampler.normalized_coordinates;
        for (uint32_t i = 0; i < target.dimensions; ++i)
            target.at[i] = given.at[i], target.dx[i] = given.dx[i], target.dy[i] = given.dy[i];
    }
    if (is_layered(request.geometry)) {
        const uint32_t layers = cube ? first.depth / kFaces : first.depth;
        target.plane += std::min(given.layer, layers - 1) * (cube ? kFaces : 1);
    }
    return target;
}

// ---- levels

double change_in_elements(const Level& level, const Target& target, const double (&by)[3]) {
    const uint32_t extents[3] = {level.width, level.height, level.depth};
    double sum = 0;
    for (uint32_t i = 0; i < target.dimensions; ++i) {
        const double moved = by[i] * (target.normalized ? extents[i] : 1);
        sum += moved * moved;
    }
    return std::sqrt(sum);
}

double level_asked(const Texture& texture, const Request& request, const Coordinates& given,
                   const Target& target) {
    const Sampler& sampler = texture.sampler;
    double level = 0;
    if (request.detail == Detail::level) level = given.level;
    if (request.detail == Detail::gradient) {
        const Level& first = texture.elements.levels[0];
        level = std::log2(std::max(change_in_elements(first, target, target.dx),
                                   change_in_elements(first, target, target.dy)));
    }
    if (std::isnan(level)) level = 0;
    level =
        std::max(std::min(level + sampler.bias, double(sampler.greatest_level)), double(sampler.least_level));
    if (std::isnan(level)) level = 0;  // of the sampler's numbers
    return std::clamp(level, 0.0, double(texture.elements.levels.size() - 1));
}

// ---- filters

struct Sum {
    double of[4] = {};
    void add(const Texel& texel, double by) {
        for (size_t i = 0; i < 4; ++i) of[i] += by * double(bits_as<float>(texel[i]));
    }
    Texel rounded() const {
        Texel texel;
        for (size_t i = 0; i < 4; ++i) texel[i] = bits_as<uint32_t>(float(of[i]));
        return texel;
    }
};

Neighbours neighbours(const Texture& texture, const Target& target, int axis, uint32_t extent, bool linear) {
    const Address mode = target.face ? Address::clamp : effective(texture.sampler, axis);
    return linear ? around(target.at[axis], extent, mode, target.normalized)
                  : nearest(target.at[axis], extent, mode, target.normalized);
}

Place with_plane(const Target& target, int64_t x, int64_t y, int64_t z) {
    return {x, y, target.dimensions == 3 ? z : int64_t(target.plane)};
}

// Neighbours in all dimensions, those without weight left out.
Texel filtered(const Texture& texture, const Level& level, const Target& target) {
    const uint32_t extents[3] = {level.width, level.height, level.depth};
    Neighbours axes[3];
    for (uint32_t i = 0; i < target.dimensions; ++i)
        axes[i] = neighbours(texture, target, int(i), extents[i], true);
    Sum sum;
    for (uint32_t corner = 0; corner < 1u << target.dimensions; ++corner) {
        int64_t at[3] = {};
        double by = 1;
        for (uint32_t i = 0; i < target.dimensions; ++i) {
            const bool second = corner >> i & 1;
            at[i] = second ? axes[i].second : axes[i].first;
            by *= second ? axes[i].weight : 1 - axes[i].weight;
        }
        if (by != 0) sum.add(fetch(texture, level, with_plane(target, at[0], at[1], at[2])), by);
    }
    return sum.rounded();
}

Texel in_level(const Texture& texture, const Level& level, const Target& target) {
    if (texture.sampler.linear && gives_floats(texture)) return filtered(texture, level, target);
    const uint32_t extents[3] = {level.width, level.height, level.depth};
    int64_t at[3] = {};
    for (uint32_t i = 0; i < target.dimensions; ++i)
        at[i] = neighbours(texture, target, int(i), extents[i], false).first;
    return fetch(texture, level, with_plane(target, at[0], at[1], at[2]));
}

// By their numbers; outside of the texture is 0.
Texel element(const Texture& texture, const Request& request, const Coordinates& given) {
    const auto& levels = texture.elements.levels;
    const double asked = std::isnan(given.level) ? 0 : double(given.level);
    const double last = double(levels.size() - 1);
    const bool chosen = request.detail == Detail::level;
    if (chosen && (asked < 0 || asked > last)) return {};
    const Level& level = levels[chosen ? size_t(asked) : 0];
    const uint32_t extents[3] = {level.width, level.height, level.depth};
    int64_t at[3] = {};
    for (uint32_t i = 0; i < dimensions(request.geometry); ++i) {
        if (given.element[i] < 0 || uint32_t(given.element[i]) >= extents[i]) return {};
        at[i] = given.element[i];
    }
    if (is_layered(request.geometry)) at[2] = std::min(given.layer, level.depth - 1);
    return fetch(texture, level, {at[0], at[1], at[2]});
}

}  // namespace

Texel sample(const Texture& texture, const Request& request, const Coordinates& given) {
    if (request.by_element) return element(texture, request, given);
    const auto& levels = texture.elements.levels;
    const Target target = target_of(texture, request, given);
    if (levels.size() == 1) return in_level(texture, levels[0], target);
    const double asked = level_asked(texture, request, given, target);
    if (!texture.sampler.linear_between_levels || !gives_floats(texture))
        return in_level(texture, levels[size_t(std::floor(asked + 0.5))], target);
    const auto lower = size_t(std::floor(asked));
    const double by = weight(asked - double(lower));
    Sum sum;
    if (by != 1) sum.add(in_level(texture, levels[lower], target), 1 - by);
    if (by != 0) sum.add(in_level(texture, levels[lower + 1], target), by);
    return sum.rounded();
}

// The four elements that a bilinear filter would take, counterclockwise from the lower left.
Texel gather(const Texture& texture, const Request& request, const Coordinates& given) {
    const Level& level = texture.elements.levels[0];
    const Target target = target_of(texture, request, given);
    const Neighbours x = neighbours(texture, target, 0, level.width, true),
                     y = neighbours(texture, target, 1, level.height, true);
    const auto one = [&](int64_t at_x, int64_t at_y) {
        return fetch(texture, level, {at_x, at_y, int64_t(target.plane)})[request.channel];
    };
    return {one(x.first, y.second), one(x.second, y.second), one(x.second, y.first), one(x.first, y.first)};
}

bool takes(Geometry geometry, Kind kind, bool surface) {
    switch (geometry) {
        case Geometry::d1:
            return kind == Kind::one_dimension || (kind == Kind::linear && !surface);
        case Geometry::d2:
            return kind == Kind::two_dimensions;
        case Geometry::d3:
            return kind == Kind::three_dimensions;
        case Geometry::a1d:
            return kind == Kind::layers_of_one;
        case Geometry::a2d:
            return kind == Kind::layers_of_two ||
                   (surface && (kind == Kind::cubemap || kind == Kind::layered_cubemap));
        case Geometry::cube:
            return kind == Kind::cubemap;
        default:
            return kind == Kind::layered_cubemap;
    }
}

const char* refusal(const Texture& texture, const Request& request, bool gathers) {
    if (!takes(request.geometry, texture.elements.kind, false)) return "it is of another kind";
    if (texture.elements.kind == Kind::linear && !request.by_element)
        return "linear memory is fetched from by the element's number, with tex1Dfetch";
    if (gathers && !texture.elements.gathers)
        return "its array was made without the flag for gathering (cudaArrayTextureGather)";
    if (request.detail == Detail::gradient && texture.sampler.anisotropic)
        return "anisotropic filtering is not supported";
    return nullptr;
}

}  // namespace softgpu::texture
