// Texture and surface objects: the runtime's descriptors in the driver's words, and back.
#include <algorithm>

#include "array.h"
#include "forward.h"

using namespace cudart;

namespace {

cudaError_t driver_resource(const cudaResourceDesc& given, CUDA_RESOURCE_DESC& made) {
    made = {};
    made.resType = static_cast<CUresourcetype>(given.resType);
    switch (given.resType) {
        case cudaResourceTypeArray:
            made.res.array.hArray = as<CUarray>(given.res.array.array);
            return cudaSuccess;
        case cudaResourceTypeMipmappedArray:
            made.res.mipmap.hMipmappedArray = as<CUmipmappedArray>(given.res.mipmap.mipmap);
            return cudaSuccess;
        case cudaResourceTypeLinear: {
            const auto& from = given.res.linear;
            auto& to = made.res.linear;
            to.devPtr = reinterpret_cast<CUdeviceptr>(from.devPtr);
            to.sizeInBytes = from.sizeInBytes;
            return format_of(from.desc, to.format, to.numChannels);
        }
        case cudaResourceTypePitch2D: {
            const auto& from = given.res.pitch2D;
            auto& to = made.res.pitch2D;
            to.devPtr = reinterpret_cast<CUdeviceptr>(from.devPtr);
            to.width = from.width;
            to.height = from.height;
            to.pitchInBytes = from.pitchInBytes;
            return format_of(from.desc, to.format, to.numChannels);
        }
        default:
            return cudaErrorInvalidValue;
    }
}

cudaResourceDesc runtime_resource(const CUDA_RESOURCE_DESC& given) {
    cudaResourceDesc made{};
    made.resType = static_cast<cudaResourceType>(given.resType);
    switch (given.resType) {
        case CU_RESOURCE_TYPE_ARRAY:
            made.res.array.array = as<cudaArray_t>(given.res.array.hArray);
            break;
        case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
            made.res.mipmap.mipmap = as<cudaMipmappedArray_t>(given.res.mipmap.hMipmappedArray);
            break;
        case CU_RESOURCE_TYPE_LINEAR: {
            const auto& from = given.res.linear;
            made.res.linear = {reinterpret_cast<void*>(from.devPtr),
                               channels_of(from.format, from.numChannels), from.sizeInBytes};
            break;
        }
        default: {
            const auto& from = given.res.pitch2D;
            made.res.pitch2D = {reinterpret_cast<void*>(from.devPtr),
                                channels_of(from.format, from.numChannels), from.width, from.height,
                                from.pitchInBytes};
        }
    }
    return made;
}

// Which flag of the driver's a field of the runtime's is.
struct Flag {
    int cudaTextureDesc::* field;
    unsigned flag;
};
constexpr Flag kFlags[] = {
    {&cudaTextureDesc::sRGB, CU_TRSF_SRGB},
    {&cudaTextureDesc::normalizedCoords, CU_TRSF_NORMALIZED_COORDINATES},
    {&cudaTextureDesc::disableTrilinearOptimization, CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION},
    {&cudaTextureDesc::seamlessCubemap, CU_TRSF_SEAMLESS_CUBEMAP},
};

CUDA_TEXTURE_DESC driver_sampling(const cudaTextureDesc& given) {
    CUDA_TEXTURE_DESC made{};
    for (int i = 0; i < 3; ++i) made.addressMode[i] = static_cast<CUaddress_mode>(given.addressMode[i]);
    std::copy_n(given.borderColor, 4, made.borderColor);
    made.filterMode = static_cast<CUfilter_mode>(given.filterMode);
    if (given.readMode == cudaReadModeElementType) made.flags |= CU_TRSF_READ_AS_INTEGER;
    for (const Flag& each : kFlags) made.flags |= given.*each.field ? each.flag : 0;
    made.maxAnisotropy = given.maxAnisotropy;
    made.mipmapFilterMode = static_cast<CUfilter_mode>(given.mipmapFilterMode);
    made.mipmapLevelBias = given.mipmapLevelBias;
    made.minMipmapLevelClamp = given.minMipmapLevelClamp;
    made.maxMipmapLevelClamp = given.maxMipmapLevelClamp;
    return made;
}

cudaTextureDesc runtime_sampling(const CUDA_TEXTURE_DESC& given) {
    cudaTextureDesc made{};
    for (int i = 0; i < 3; ++i)
        made.addressMode[i] = static_cast<cudaTextureAddressMode>(given.addressMode[i]);
    std::copy_n(given.borderColor, 4, made.borderColor);
    made.filterMode = static_cast<cudaTextureFilterMode>(given.filterMode);
    made.readMode =
        given.flags & CU_TRSF_READ_AS_INTEGER ? cudaReadModeElementType : cudaReadModeNormalizedFloat;
    for (const Flag& each : kFlags) made.*each.field = given.flags & each.flag ? 1 : 0;
    made.maxAnisotropy = given.maxAnisotropy;
    made.mipmapFilterMode = static_cast<cudaTextureFilterMode>(given.mipmapFilterMode);
    made.mipmapLevelBias = given.mipmapLevelBias;
    made.minMipmapLevelClamp = given.minMipmapLevelClamp;
    made.maxMipmapLevelClamp = given.maxMipmapLevelClamp;
    return made;
}

// A view is laid out alike, but that the runtime's of CUDA 12 has nothing reserved.
CUDA_RESOURCE_VIEW_DESC driver_view(const cudaResourceViewDesc& given) {
    CUDA_RESOURCE_VIEW_DESC made{};
    made.format = static_cast<CUresourceViewFormat>(given.format);
    made.width = given.width;
    made.height = given.height;
    made.depth = given.depth;
    made.firstMipmapLevel = given.firstMipmapLevel;
    made.lastMipmapLevel = given.lastMipmapLevel;
    made.firstLayer = given.firstLayer;
    made.lastLayer = given.lastLayer;
    return made;
}

cudaResourceViewDesc runtime_view(const CUDA_RESOURCE_VIEW_DESC& given) {
    cudaResourceViewDesc made{};
    made.format = static_cast<cudaResourceViewFormat>(given.format);
    made.width = given.width;
    made.height = given.height;
    made.depth = given.depth;
    made.firstMipmapLevel = given.firstMipmapLevel;
    made.lastMipmapLevel = given.lastMipmapLevel;
    made.firstLayer = given.firstLayer;
    made.lastLayer = given.lastLayer;
    return made;
}

// What the driver tells with `ask(driver, of the driver's type)`, in the runtime's words.
template <typename Theirs, typename Ours, typename Ask, typename Say>
cudaError_t tell(Ours* out, Ask ask, Say say) {
    return call<Need::context>([&](const Driver& driver) {
        if (!out) return CUDA_ERROR_INVALID_VALUE;
        Theirs told{};
        const CUresult result = ask(driver, &told);
        if (result == CUDA_SUCCESS) *out = say(told);
        return result;
    });
}

}  // namespace

extern "C" {

cudaError_t cudaCreateTextureObject(cudaTextureObject_t* pTexObject, const cudaResourceDesc* pResDesc,
                                    const cudaTextureDesc* pTexDesc,
                                    const cudaResourceViewDesc* pResViewDesc) {
    return call<Need::context>([&](const Driver& driver) {
        if (!pTexObject || !pResDesc || !pTexDesc) return cudaErrorInvalidValue;
        CUDA_RESOURCE_DESC resource;
        if (cudaError_t error = driver_resource(*pResDesc, resource); error != cudaSuccess) return error;
        const CUDA_TEXTURE_DESC sampling = driver_sampling(*pTexDesc);
        CUDA_RESOURCE_VIEW_DESC view{};
        if (pResViewDesc) view = driver_view(*pResViewDesc);
        CUtexObject made = 0;
        const CUresult result =
            invoke(driver.cuTexObjectCreate, &made, &resource, &sampling, pResViewDesc ? &view : nullptr);
        if (result == CUDA_SUCCESS) *pTexObject = made;
        return translated(result);
    });
}

// 0 is no object, and may be destroyed.
cudaError_t cudaDestroyTextureObject(cudaTextureObject_t texObject) {
    return call<Need::context_if_alive>([&](const Driver& driver) {
        return texObject ? invoke(driver.cuTexObjectDestroy, texObject) : CUDA_SUCCESS;
    });
}

cudaError_t cudaGetTextureObjectResourceDesc(cudaResourceDesc* pResDesc, cudaTextureObject_t texObject) {
    return tell<CUDA_RESOURCE_DESC>(
        pResDesc,
        [&](const Driver& driver, auto* told) {
            return invoke(driver.cuTexObjectGetResourceDesc, told, texObject);
        },
        runtime_resource);
}

cudaError_t cudaGetTextureObjectTextureDesc(cudaTextureDesc* pTexDesc, cudaTextureObject_t texObject) {
    return tell<CUDA_TEXTURE_DESC>(
        pTexDesc,
        [&](const Driver& driver, auto* told) {
            return invoke(driver.cuTexObjectGetTextureDesc, told, texObject);
        },
        runtime_sampling);
}

cudaError_t cudaGetTextureObjectResourceViewDesc(cudaResourceViewDesc* pResViewDesc,
                                                 cudaTextureObject_t texObject) {
    return tell<CUDA_RESOURCE_VIEW_DESC>(
        pResViewDesc,
        [&](const Driver& driver, auto* told) {
            return invoke(driver.cuTexObjectGetResourceViewDesc, told, texObject);
        },
        runtime_view);
}

cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t* pSurfObject, const cudaResourceDesc* pResDesc) {
    return call<Need::context>([&](const Driver& driver) {
        if (!pSurfObject || !pResDesc) return cudaErrorInvalidValue;
        CUDA_RESOURCE_DESC resource;
        if (cudaError_t error = driver_resource(*pResDesc, resource); error != cudaSuccess) return error;
        CUsurfObject made = 0;
        const CUresult result = invoke(driver.cuSurfObjectCreate, &made, &resource);
        if (result == CUDA_SUCCESS) *pSurfObject = made;
        return translated(result);
    });
}

cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t surfObject) {
    return call<Need::context_if_alive>([&](const Driver& driver) {
        return surfObject ? invoke(driver.cuSurfObjectDestroy, surfObject) : CUDA_SUCCESS;
    });
}

cudaError_t cudaGetSurfaceObjectResourceDesc(cudaResourceDesc* pResDesc, cudaSurfaceObject_t surfObject) {
    return tell<CUDA_RESOURCE_DESC>(
        pResDesc,
        [&](const Driver& driver, auto* told) {
            return invoke(driver.cuSurfObjectGetResourceDesc, told, surfObject);
        },
        runtime_resource);
}
}
