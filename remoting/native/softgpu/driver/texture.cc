#include "texture.h"

#include "array.h"
#include "cuda/texture_desc.h"
#include "driver.h"
#include "exec/texture/objects.h"
#include "front/placement.h"
#include "thread_state.h"

using namespace softgpu;
using namespace softgpu::driver;

namespace {

texture::Format format_of(CUarray_format format) {
    switch (format) {
        case CU_AD_FORMAT_UNSIGNED_INT8:
            return texture::Format::u8;
        case CU_AD_FORMAT_UNSIGNED_INT16:
            return texture::Format::u16;
        case CU_AD_FORMAT_UNSIGNED_INT32:
            return texture::Format::u32;
        case CU_AD_FORMAT_SIGNED_INT8:
            return texture::Format::s8;
        case CU_AD_FORMAT_SIGNED_INT16:
            return texture::Format::s16;
        case CU_AD_FORMAT_SIGNED_INT32:
            return texture::Format::s32;
        case CU_AD_FORMAT_HALF:
            return texture::Format::f16;
        default:
            return texture::Format::f32;
    }
}

texture::Kind kind_of(cuda::ArrayKind kind) {
    using enum cuda::ArrayKind;
    switch (kind) {
        case one_dimension:
            return texture::Kind::one_dimension;
        case two_dimensions:
            return texture::Kind::two_dimensions;
        case three_dimensions:
            return texture::Kind::three_dimensions;
        case layers_of_one:
            return texture::Kind::layers_of_one;
        case layers_of_two:
            return texture::Kind::layers_of_two;
        case cubemap:
            return texture::Kind::cubemap;
        default:
            return texture::Kind::layered_cubemap;
    }
}

texture::Level level_of(const Array& array) {
    const cuda::ArrayShape& shape = array.shape;
    return {array.base,        uint32_t(shape.width), uint32_t(shape.rows()), uint32_t(shape.planes()),
            shape.row_bytes(), shape.plane_bytes()};
}

void set_format(texture::Elements& elements, const cuda::ElementFormat& format) {
    elements.format = format_of(format.format);
    elements.channels = format.channels;
}

// As the array was made; a view may change it.
texture::Elements elements_of(const cuda::ArrayShape& shape) {
    texture::Elements elements;
    elements.kind = kind_of(shape.kind());
    elements.gathers = shape.flags & CUDA_ARRAY3D_TEXTURE_GATHER;
    set_format(elements, {shape.format, shape.channels});
    return elements;
}

texture::Elements elements_of(const CUDA_RESOURCE_DESC& given) {
    HandleTable& handles = live().handles;
    texture::Elements elements;
    switch (given.resType) {
        case CU_RESOURCE_TYPE_ARRAY: {
            const auto array = handles.get<Array>(given.res.array.hArray);
            elements = elements_of(array->shape);
            elements.levels = {level_of(*array)};
            break;
        }
        case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY: {
            const auto array = handles.get<MipmappedArray>(given.res.mipmap.hMipmappedArray);
            elements = elements_of(array->shape);
            for (const auto& level : array->levels) elements.levels.push_back(level_of(*level));
            break;
        }
        case CU_RESOURCE_TYPE_LINEAR: {
            const auto& linear = given.res.linear;
            set_format(elements, {linear.format, linear.numChannels});
            elements.kind = texture::Kind::linear;
            elements.levels = {{linear.devPtr, uint32_t(linear.sizeInBytes / elements.bytes()), 1, 1, 0, 0}};
            break;
        }
        default: {
            const auto& flat = given.res.pitch2D;
            set_format(elements, {flat.format, flat.numChannels});
            elements.kind = texture::Kind::two_dimensions;
            elements.gathers = false;
            elements.levels = {
                {flat.devPtr, uint32_t(flat.width), uint32_t(flat.height), 1, flat.pitchInBytes, 0}};
        }
    }
    return elements;
}

void apply_view(texture::Elements& elements, const CUDA_RESOURCE_VIEW_DESC& view) {
    front::require_done(!cuda::is_compressed(view.format), "a texture object of a block compressed format");
    if (view.format != CU_RES_VIEW_FORMAT_NONE) set_format(elements, cuda::viewed_format(view.format));
    auto& levels = elements.levels;
    levels.erase(levels.begin() + view.lastMipmapLevel + 1, levels.end());
    levels.erase(levels.begin(), levels.begin() + view.firstMipmapLevel);
    const bool cubes = elements.kind == texture::Kind::layered_cubemap;
    const bool layered = elements.kind == texture::Kind::layers_of_one ||
                         elements.kind == texture::Kind::layers_of_two || cubes;
    const bool whole = view.firstLayer % cuda::kFaces == 0 && (view.lastLayer + 1) % cuda::kFaces == 0;
    front::require_done(!cubes || whole, "a texture object of some of a cubemap's six layers");
    for (texture::Level& level : levels) {
        if (!layered) break;
        level.base += view.firstLayer * level.plane_pitch;
        level.depth = view.lastLayer - view.firstLayer + 1;
    }
}

texture::Sampler sampler_of(const CUDA_TEXTURE_DESC& given) {
    texture::Sampler sampler;
    for (size_t i = 0; i < 3; ++i) sampler.address[i] = texture::Address(given.addressMode[i]);
    sampler.linear = given.filterMode == CU_TR_FILTER_MODE_LINEAR;
    sampler.normalized_coordinates = given.flags & CU_TRSF_NORMALIZED_COORDINATES;
    sampler.as_float = !(given.flags & CU_TRSF_READ_AS_INTEGER);
    sampler.srgb = given.flags & CU_TRSF_SRGB;
    sampler.linear_between_levels = given.mipmapFilterMode == CU_TR_FILTER_MODE_LINEAR;
    sampler.anisotropic = given.maxAnisotropy > 1;
    sampler.bias = given.mipmapLevelBias;
    sampler.least_level = given.minMipmapLevelClamp;
    sampler.greatest_level = given.maxMipmapLevelClamp;
    std::copy(std::begin(given.borderColor), std::end(given.borderColor), sampler.border.begin());
    return sampler;
}

// Under its handle, to the program and to kernels, as long as the context lives.
template <class T, class Given>
uint64_t given_out(const Given& given, texture::Object&& object) {
    const auto context = driver::working_context();
    const auto made = std::make_shared<T>(context, given);
    const uint64_t handle = live().handles.add(made);
    context->own(handle);
    context->objects.put(handle, std::make_shared<const texture::Object>(std::move(object)));
    return handle;
}

template <class T>
std::shared_ptr<T> found(uint64_t handle) {
    const auto object = live().handles.find<T>(handle);
    require(object != nullptr);
    return object;
}

template <class T>
void take_back(uint64_t handle) {
    const auto object = found<T>(handle);
    // A worker has waited for its session's work already; that of other sessions need not end.
    if (!thread_state().session) live().scheduler.drain_all();
    require(live().handles.remove(handle, object.get()));
    object->context->disown(handle);
    object->context->objects.remove(handle);
}

}  // namespace

namespace front::platform {

CUtexObject make_texture(const Texture& given) {
    const bool filters = given.sampling.filterMode == CU_TR_FILTER_MODE_LINEAR;
    require_done(!(filters && (given.sampling.flags & CU_TRSF_SEAMLESS_CUBEMAP)),
                 "a texture object with seamless filtering of cubemaps");
    texture::Object object;
    object.texture.elements = elements_of(given.resource);
    object.texture.sampler = sampler_of(given.sampling);
    if (given.view) apply_view(object.texture.elements, *given.view);
    return given_out<TextureObject>(given, std::move(object));
}

Texture texture(CUtexObject handle) {
    return found<TextureObject>(handle)->given;
}

void end_texture(CUtexObject handle) {
    take_back<TextureObject>(handle);
}

CUsurfObject make_surface(const CUDA_RESOURCE_DESC& given) {
    texture::Object object;
    object.texture.elements = elements_of(given);
    object.surface = true;
    return given_out<SurfaceObject>(given, std::move(object));
}

CUDA_RESOURCE_DESC surface(CUsurfObject handle) {
    return found<SurfaceObject>(handle)->given;
}

void end_surface(CUsurfObject handle) {
    take_back<SurfaceObject>(handle);
}

}  // namespace front::platform
