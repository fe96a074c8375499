// Arrays: channel descriptions, which programs make without a device too, and making and letting go.
#include "array.h"

#include <algorithm>

#include "array_shape.h"
#include "forward.h"

namespace cudart {
namespace {

struct Format {
    cudaChannelFormatKind kind;
    int bits;
    CUarray_format format;
};
constexpr Format kFormats[] = {{cudaChannelFormatKindSigned, 8, CU_AD_FORMAT_SIGNED_INT8},
                               {cudaChannelFormatKindSigned, 16, CU_AD_FORMAT_SIGNED_INT16},
                               {cudaChannelFormatKindSigned, 32, CU_AD_FORMAT_SIGNED_INT32},
                               {cudaChannelFormatKindUnsigned, 8, CU_AD_FORMAT_UNSIGNED_INT8},
                               {cudaChannelFormatKindUnsigned, 16, CU_AD_FORMAT_UNSIGNED_INT16},
                               {cudaChannelFormatKindUnsigned, 32, CU_AD_FORMAT_UNSIGNED_INT32},
                               {cudaChannelFormatKindFloat, 16, CU_AD_FORMAT_HALF},
                               {cudaChannelFormatKindFloat, 32, CU_AD_FORMAT_FLOAT}};

// `make(driver, description)`.
template <typename Array, typename Make>
cudaError_t make_array(Array* out, const cudaChannelFormatDesc* channels, const cudaExtent& extent,
                       unsigned flags, Make make) {
    return call<Need::context>([&](const Driver& driver) {
        if (!out || !channels) return cudaErrorInvalidValue;
        CUDA_ARRAY3D_DESCRIPTOR given{extent.width, extent.height, extent.depth, {}, 0, flags};
        if (cudaError_t error = format_of(*channels, given.Format, given.NumChannels); error != cudaSuccess)
            return error;
        *out = nullptr;
        return translated(make(driver, &given));
    });
}

}  // namespace

cudaError_t format_of(const cudaChannelFormatDesc& channels, CUarray_format& format, unsigned& count) {
    const int bits[] = {channels.x, channels.y, channels.z, channels.w};
    if (channels.f > cudaChannelFormatKindNone) return cudaErrorNotSupported;
    count = 0;
    while (count < 4 && bits[count] == channels.x) ++count;
    const bool rest = std::any_of(bits + count, bits + 4, [](int other) { return other != 0; });
    if (rest || (count != 1 && count != 2 && count != 4)) return cudaErrorInvalidChannelDescriptor;
    const auto* found = std::find_if(std::begin(kFormats), std::end(kFormats), [&](const Format& each) {
        return each.kind == channels.f && each.bits == channels.x;
    });
    if (found == std::end(kFormats)) return cudaErrorInvalidChannelDescriptor;
    format = found->format;
    return cudaSuccess;
}

cudaChannelFormatDesc channels_of(CUarray_format format, unsigned count) {
    const auto* found = std::find_if(std::begin(kFormats), std::end(kFormats),
                                     [&](const Format& each) { return each.format == format; });
    if (found == std::end(kFormats)) return {0, 0, 0, 0, cudaChannelFormatKindNone};
    const auto bits = [&](unsigned channel) { return channel < count ? found->bits : 0; };
    return {bits(0), bits(1), bits(2), bits(3), found->kind};
}

CUresult element_of(const Driver& driver, cudaArray_const_t array, size_t& bytes) {
    CUDA_ARRAY3D_DESCRIPTOR its{};
    const CUresult result = invoke(driver.cuArray3DGetDescriptor_v2, &its, const_cast<cudaArray_t>(array));
    bytes = cuda::channel_bytes(its.Format) * its.NumChannels;
    return result;
}

CUresult row_of(const Driver& driver, cudaArray_const_t array, size_t& bytes) {
    CUDA_ARRAY3D_DESCRIPTOR its{};
    const CUresult result = invoke(driver.cuArray3DGetDescriptor_v2, &its, const_cast<cudaArray_t>(array));
    bytes = its.Width * cuda::channel_bytes(its.Format) * its.NumChannels;
    return result;
}

}  // namespace cudart

using namespace cudart;

extern "C" {

cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind f) {
    return {x, y, z, w, f};
}

cudaError_t cudaMallocArray(cudaArray_t* array, const cudaChannelFormatDesc* desc, size_t width,
                            size_t height, unsigned int flags) {
    return cudaMalloc3DArray(array, desc, {width, height, 0}, flags);
}

cudaError_t cudaMalloc3DArray(cudaArray_t* array, const cudaChannelFormatDesc* desc, cudaExtent extent,
                              unsigned int flags) {
    return make_array(array, desc, extent, flags, [&](const Driver& driver, auto* given) {
        return invoke(driver.cuArray3DCreate_v2, array, given);
    });
}

cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t* mipmappedArray, const cudaChannelFormatDesc* desc,
                                     cudaExtent extent, unsigned int numLevels, unsigned int flags) {
    return make_array(mipmappedArray, desc, extent, flags, [&](const Driver& driver, auto* given) {
        return invoke(driver.cuMipmappedArrayCreate, mipmappedArray, given, numLevels);
    });
}

cudaError_t cudaFreeArray(cudaArray_t array) {
    return call<Need::context_if_alive>(
        [&](const Driver& driver) { return array ? invoke(driver.cuArrayDestroy, array) : CUDA_SUCCESS; });
}

cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t mipmappedArray) {
    return call<Need::context_if_alive>([&](const Driver& driver) {
        return mipmappedArray ? invoke(driver.cuMipmappedArrayDestroy, mipmappedArray) : CUDA_SUCCESS;
    });
}

cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc* desc, cudaExtent* extent, unsigned int* flags,
                             cudaArray_t array) {
    return call<Need::context>([&](const Driver& driver) {
        CUDA_ARRAY3D_DESCRIPTOR its{};
        const CUresult result = invoke(driver.cuArray3DGetDescriptor_v2, &its, array);
        if (result != CUDA_SUCCESS) return result;
        if (desc) *desc = channels_of(its.Format, its.NumChannels);
        if (extent) *extent = {its.Width, its.Height, its.Depth};
        if (flags) *flags = its.Flags;
        return CUDA_SUCCESS;
    });
}

cudaError_t cudaGetChannelDesc(cudaChannelFormatDesc* desc, cudaArray_const_t array) {
    if (!desc) return finish(cudaErrorInvalidValue);
    return cudaArrayGetInfo(desc, nullptr, nullptr, const_cast<cudaArray_t>(array));
}
}
