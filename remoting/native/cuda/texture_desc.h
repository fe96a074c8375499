// The descriptors of texture and surface objects, checked in one way by the front and the worker. Pure: the
// device's limits are given as a function, and what is at a handle or an address as values.
#pragma once

#include <iterator>

#include "array_shape.h"

namespace cuda {

// Of an element, as arrays and linear memory are described.
struct ElementFormat {
    CUarray_format format = CU_AD_FORMAT_FLOAT;
    unsigned channels = 1;
    constexpr uint64_t bytes() const { return channel_bytes(format) * channels; }
};

// As an array's elements are viewed; no bytes for what is no plain format (block compressed ones).
constexpr ElementFormat viewed_format(CUresourceViewFormat view) {
    constexpr CUarray_format kFormats[] = {CU_AD_FORMAT_UNSIGNED_INT8,  CU_AD_FORMAT_SIGNED_INT8,
                                           CU_AD_FORMAT_UNSIGNED_INT16, CU_AD_FORMAT_SIGNED_INT16,
                                           CU_AD_FORMAT_UNSIGNED_INT32, CU_AD_FORMAT_SIGNED_INT32,
                                           CU_AD_FORMAT_HALF,           CU_AD_FORMAT_FLOAT};
    const unsigned at = static_cast<unsigned>(view) - CU_RES_VIEW_FORMAT_UINT_1X8;
    if (at >= 3 * std::size(kFormats)) return {.channels = 0};
    return {kFormats[at / 3], 1u << at % 3};
}
constexpr bool is_compressed(CUresourceViewFormat view) {
    return view >= CU_RES_VIEW_FORMAT_UNSIGNED_BC1 && view <= CU_RES_VIEW_FORMAT_UNSIGNED_BC7;
}

// Whether fetches give floats, which alone can be filtered.
constexpr bool gives_floats(CUarray_format format, unsigned flags) {
    if (format == CU_AD_FORMAT_HALF || format == CU_AD_FORMAT_FLOAT) return true;
    return channel_bytes(format) < 4 && !(flags & CU_TRSF_READ_AS_INTEGER);
}

namespace texture_desc {

constexpr bool is_element(const ElementFormat& element) {
    const unsigned count = element.channels;
    return channel_bytes(element.format) != 0 && (count == 1 || count == 2 || count == 4);
}

// Memory that a descriptor names: from where on, and how much.
struct Extent {
    uint64_t address = 0, bytes = 0;
};

template <class Limit>
CUresult check_linear(const CUDA_RESOURCE_DESC& given, Limit&& limit, ElementFormat& element,
                      Extent& extent) {
    const auto& linear = given.res.linear;
    element = {linear.format, linear.numChannels};
    if (!is_element(element)) return CUDA_ERROR_INVALID_VALUE;
    const uint64_t count = linear.sizeInBytes / element.bytes();
    const auto most = static_cast<uint64_t>(limit(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH));
    const auto align = static_cast<uint64_t>(limit(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT));
    if (count == 0 || count > most || linear.devPtr % align) return CUDA_ERROR_INVALID_VALUE;
    extent = {linear.devPtr, count * element.bytes()};
    return CUDA_SUCCESS;
}

template <class Limit>
CUresult check_pitched(const CUDA_RESOURCE_DESC& given, Limit&& limit, ElementFormat& element,
                       Extent& extent) {
    const auto& flat = given.res.pitch2D;
    element = {flat.format, flat.numChannels};
    if (!is_element(element)) return CUDA_ERROR_INVALID_VALUE;
    const auto at_most = [&](uint64_t value, CUdevice_attribute bound) {
        return value <= static_cast<uint64_t>(limit(bound));
    };
    const auto aligned = [&](uint64_t value, CUdevice_attribute to) {
        return value % static_cast<uint64_t>(limit(to)) == 0;
    };
    const bool fits = flat.width && flat.height &&
                      at_most(flat.width, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH) &&
                      at_most(flat.height, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT) &&
                      at_most(flat.pitchInBytes, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH);
    if (!fits || !aligned(flat.devPtr, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT) ||
        !aligned(flat.pitchInBytes, CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT) ||
        flat.width * element.bytes() > flat.pitchInBytes)
        return CUDA_ERROR_INVALID_VALUE;
    extent = {flat.devPtr, (flat.height - 1) * flat.pitchInBytes + flat.width * element.bytes()};
    return CUDA_SUCCESS;
}

}  // namespace texture_desc

// What a resource is, once its handle or address has been looked up.
struct TextureResource {
    ElementFormat element;
    texture_desc::Extent extent;  // of linear and pitched memory
    ArrayShape shape;             // of an array; levels: of a mipmapped one
};

// Of linear and pitched memory: whether the program has it is not asked here.
template <class Limit>
CUresult check_memory(const CUDA_RESOURCE_DESC& given, Limit&& limit, TextureResource& out) {
    return given.resType == CU_RESOURCE_TYPE_LINEAR
               ? texture_desc::check_linear(given, limit, out.element, out.extent)
               : texture_desc::check_pitched(given, limit, out.element, out.extent);
}

// The elements are those that are seen: a view's, if there is one.
inline CUresult check_sampling(const CUDA_TEXTURE_DESC& given, CUresourcetype type,
                               const TextureResource& of) {
    constexpr unsigned kKnown = CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES | CU_TRSF_SRGB |
                                CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION | CU_TRSF_SEAMLESS_CUBEMAP;
    const auto is_filter = [](CUfilter_mode mode) {
        return mode == CU_TR_FILTER_MODE_POINT || mode == CU_TR_FILTER_MODE_LINEAR;
    };
    for (const CUaddress_mode mode : given.addressMode) {
        if (mode < CU_TR_ADDRESS_MODE_WRAP || mode > CU_TR_ADDRESS_MODE_BORDER)
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (!is_filter(given.filterMode) || !is_filter(given.mipmapFilterMode) || (given.flags & ~kKnown))
        return CUDA_ERROR_INVALID_VALUE;
    const bool filters = given.filterMode == CU_TR_FILTER_MODE_LINEAR && type != CU_RESOURCE_TYPE_LINEAR;
    if (filters && !gives_floats(of.element.format, given.flags)) return CUDA_ERROR_INVALID_VALUE;
    if (type == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY && !(given.flags & CU_TRSF_NORMALIZED_COORDINATES))
        return CUDA_ERROR_INVALID_VALUE;
    const bool array = type == CU_RESOURCE_TYPE_ARRAY || type == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
    if ((given.flags & CU_TRSF_SEAMLESS_CUBEMAP) && !(array && of.shape.is_cubemap()))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

// Of an array. Sets the elements that are seen; a compressed format has none.
inline CUresult check_view(const CUDA_RESOURCE_VIEW_DESC& given, TextureResource& of) {
    const ArrayShape& shape = of.shape;
    const bool compressed = is_compressed(given.format);
    const uint64_t scale = compressed ? 4 : 1;
    if (given.width != shape.width * scale || given.height != shape.height * scale ||
        given.depth != shape.depth)
        return CUDA_ERROR_INVALID_VALUE;
    const auto range = [](unsigned first, unsigned last, uint64_t count) {
        return count == 0 ? first == 0 && last == 0 : first <= last && last < count;
    };
    if (!range(given.firstMipmapLevel, given.lastMipmapLevel, shape.levels) ||
        !range(given.firstLayer, given.lastLayer, shape.is_layered() ? shape.depth : 0))
        return CUDA_ERROR_INVALID_VALUE;
    if (compressed)
        return shape.format == CU_AD_FORMAT_UNSIGNED_INT32 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (given.format == CU_RES_VIEW_FORMAT_NONE) return CUDA_SUCCESS;
    const ElementFormat seen = viewed_format(given.format);
    if (seen.bytes() != shape.element_bytes()) return CUDA_ERROR_INVALID_VALUE;
    of.element = seen;
    return CUDA_SUCCESS;
}

}  // namespace cuda
