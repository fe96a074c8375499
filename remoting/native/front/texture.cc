// Entry points: texture and surface objects, of descriptors that are checked here.
#include "cuda/texture_desc.h"
#include "placement.h"

using namespace front;

namespace {

// The memory from `address` on is the program's and one piece, and kernels of the device read it as their
// own.
void require_memory(const cuda::texture_desc::Extent& extent, CUdevice device) {
    const std::optional<Memory> memory = platform::memory_at(extent.address);
    require(memory && memory->on_device && memory->device == device);
    const uint64_t offset = extent.address - memory->base;
    require(offset <= memory->bytes && extent.bytes <= memory->bytes - offset);
}

template <class Array>
cuda::ArrayShape shape_of(Array array, CUdevice device) {
    const cuda::ArrayShape shape = platform::array_shape(array);
    require(platform::array_device(array) == device);
    return shape;
}

// What there is to make an object of, which only kernels of its own device read by.
cuda::TextureResource resource_of(const CUDA_RESOURCE_DESC& given, CUdevice device) {
    cuda::TextureResource found;
    require(given.flags == 0);
    switch (given.resType) {
        case CU_RESOURCE_TYPE_ARRAY:
            found.shape = shape_of(given.res.array.hArray, device);
            break;
        case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
            found.shape = shape_of(given.res.mipmap.hMipmappedArray, device);
            break;
        case CU_RESOURCE_TYPE_LINEAR:
        case CU_RESOURCE_TYPE_PITCH2D:
            check(cuda::check_memory(
                given, [device](CUdevice_attribute bound) { return platform::attribute(device, bound); },
                found));
            require_memory(found.extent, device);
            return found;
        default:
            refuse(CUDA_ERROR_INVALID_VALUE);
    }
    found.element = {found.shape.format, found.shape.channels};
    return found;
}

bool is_array(const CUDA_RESOURCE_DESC& given) {
    return given.resType == CU_RESOURCE_TYPE_ARRAY || given.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
}

// What is asked about an object.
template <class Value, class Ask>
CUresult tell(Value* out, Ask&& ask) {
    return call([&] {
        platform::require_working_context();
        require(out != nullptr);
        *out = ask();
    });
}

}  // namespace

extern "C" {

CUresult cuTexObjectCreate(CUtexObject* pTexObject, const CUDA_RESOURCE_DESC* pResDesc,
                           const CUDA_TEXTURE_DESC* pTexDesc, const CUDA_RESOURCE_VIEW_DESC* pResViewDesc) {
    return call([&] {
        const CUdevice device = platform::require_working_context();
        require(pTexObject && pResDesc && pTexDesc);
        Texture texture{.resource = *pResDesc, .sampling = *pTexDesc, .view = std::nullopt};
        cuda::TextureResource resource = resource_of(texture.resource, device);
        if (pResViewDesc) {
            require(is_array(texture.resource));
            texture.view = *pResViewDesc;
            check(cuda::check_view(*texture.view, resource));
        }
        check(cuda::check_sampling(texture.sampling, texture.resource.resType, resource));
        *pTexObject = platform::make_texture(texture);
    });
}

// Waits for the work that may use it, as what frees memory does.
CUresult cuTexObjectDestroy(CUtexObject texObject) {
    return permitted_call([&] {
        platform::require_working_context();
        platform::end_texture(texObject);
    });
}

CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* pResDesc, CUtexObject texObject) {
    return tell(pResDesc, [&] { return platform::texture(texObject).resource; });
}

CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC* pTexDesc, CUtexObject texObject) {
    return tell(pTexDesc, [&] { return platform::texture(texObject).sampling; });
}

CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC* pResViewDesc, CUtexObject texObject) {
    return tell(pResViewDesc, [&] {
        const Texture texture = platform::texture(texObject);
        require(texture.view.has_value());
        return *texture.view;
    });
}

CUresult cuSurfObjectCreate(CUsurfObject* pSurfObject, const CUDA_RESOURCE_DESC* pResDesc) {
    return call([&] {
        const CUdevice device = platform::require_working_context();
        require(pSurfObject && pResDesc);
        const CUDA_RESOURCE_DESC given = *pResDesc;
        require(given.resType == CU_RESOURCE_TYPE_ARRAY);
        require(resource_of(given, device).shape.flags & CUDA_ARRAY3D_SURFACE_LDST);
        *pSurfObject = platform::make_surface(given);
    });
}

CUresult cuSurfObjectDestroy(CUsurfObject surfObject) {
    return permitted_call([&] {
        platform::require_working_context();
        platform::end_surface(surfObject);
    });
}

CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC* pResDesc, CUsurfObject surfObject) {
    return tell(pResDesc, [&] { return platform::surface(surfObject); });
}
}
