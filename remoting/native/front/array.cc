// Entry points: CUDA arrays and mipmapped arrays, by shapes that are checked here.
#include "capture.h"
#include "cuda/array_shape.h"
#include "placement.h"

using namespace front;

namespace {

cuda::ArrayShape shape_of(const CUDA_ARRAY3D_DESCRIPTOR& given) {
    return {.width = given.Width,
            .height = given.Height,
            .depth = given.Depth,
            .format = given.Format,
            .channels = given.NumChannels,
            .flags = given.Flags};
}

CUDA_ARRAY3D_DESCRIPTOR described(const cuda::ArrayShape& shape) {
    return {.Width = shape.width,
            .Height = shape.height,
            .Depth = shape.depth,
            .Format = shape.format,
            .NumChannels = shape.channels,
            .Flags = shape.flags};
}

// One that the current context's device can have.
void require_array(const cuda::ArrayShape& shape) {
    const CUdevice device = platform::require_working_context();
    const char* missing = cuda::not_done(shape);
    require_done(!missing, missing);
    check(cuda::check_array(
        shape, [device](CUdevice_attribute bound) { return platform::attribute(device, bound); }));
    refuse_in_captures();
}

// What holds only for arrays that are made in other ways than here.
template <class Array>
CUresult refused(Array array, const void* out) {
    return call([&] {
        platform::require_working_context();
        require(out != nullptr);
        platform::array_shape(array);
        refuse(CUDA_ERROR_INVALID_VALUE);
    });
}

}  // namespace

extern "C" {

CUresult cuArray3DCreate_v2(CUarray* pHandle, const CUDA_ARRAY3D_DESCRIPTOR* pAllocateArray) {
    return call([&] {
        require(pHandle && pAllocateArray);
        const cuda::ArrayShape shape = shape_of(*pAllocateArray);
        require_array(shape);
        *pHandle = platform::make_array(shape);
    });
}

CUresult cuArrayCreate_v2(CUarray* pHandle, const CUDA_ARRAY_DESCRIPTOR* pAllocateArray) {
    if (!pAllocateArray) return cuArray3DCreate_v2(pHandle, nullptr);
    const CUDA_ARRAY_DESCRIPTOR& given = *pAllocateArray;
    const CUDA_ARRAY3D_DESCRIPTOR flat{.Width = given.Width,
                                       .Height = given.Height,
                                       .Depth = 0,
                                       .Format = given.Format,
                                       .NumChannels = given.NumChannels,
                                       .Flags = 0};
    return cuArray3DCreate_v2(pHandle, &flat);
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* pArrayDescriptor, CUarray hArray) {
    return call([&] {
        platform::require_working_context();
        require(pArrayDescriptor != nullptr);
        *pArrayDescriptor = described(platform::array_shape(hArray));
    });
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR* pArrayDescriptor, CUarray hArray) {
    return call([&] {
        platform::require_working_context();
        require(pArrayDescriptor != nullptr);
        const cuda::ArrayShape shape = platform::array_shape(hArray);
        *pArrayDescriptor = {.Width = shape.width,
                             .Height = shape.height,
                             .Format = shape.format,
                             .NumChannels = shape.channels};
    });
}

// Waits for the work that may use the array, as cuMemFree does.
CUresult cuArrayDestroy(CUarray hArray) {
    return call([&] {
        platform::require_working_context();
        platform::array_shape(hArray);
        refuse_in_captures();
        platform::end_array(hArray);
    });
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray* pHandle, const CUDA_ARRAY3D_DESCRIPTOR* pMipmappedArrayDesc,
                                unsigned int numMipmapLevels) {
    return call([&] {
        require(pHandle && pMipmappedArrayDesc);
        cuda::ArrayShape shape = shape_of(*pMipmappedArrayDesc);
        shape.levels = 1;
        require_array(shape);
        shape.levels = std::clamp(numMipmapLevels, 1u, shape.most_levels());
        *pHandle = platform::make_mipmapped_array(shape);
    });
}

CUresult cuMipmappedArrayGetLevel(CUarray* pLevelArray, CUmipmappedArray hMipmappedArray,
                                  unsigned int level) {
    return call([&] {
        platform::require_working_context();
        require(pLevelArray != nullptr);
        require(level < platform::array_shape(hMipmappedArray).levels);
        *pLevelArray = platform::array_level(hMipmappedArray, level);
    });
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray) {
    return call([&] {
        platform::require_working_context();
        platform::array_shape(hMipmappedArray);
        refuse_in_captures();
        platform::end_mipmapped_array(hMipmappedArray);
    });
}

// No array here is sparse, mapped later, or of several planes.
CUresult cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES* sparseProperties, CUarray array) {
    return refused(array, sparseProperties);
}
CUresult cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES* sparseProperties,
                                             CUmipmappedArray mipmap) {
    return refused(mipmap, sparseProperties);
}
CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* memoryRequirements, CUarray array,
                                      CUdevice) {
    return refused(array, memoryRequirements);
}
CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* memoryRequirements,
                                               CUmipmappedArray mipmap, CUdevice) {
    return refused(mipmap, memoryRequirements);
}
CUresult cuArrayGetPlane(CUarray* pPlaneArray, CUarray hArray, unsigned int) {
    return refused(hArray, pPlaneArray);
}
}
