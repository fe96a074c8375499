// Texture and surface objects: what is told of one is what it was made of.
#include <cstring>

#include "expect.h"

namespace {

const cudaChannelFormatDesc kBytes = cudaCreateChannelDesc(8, 8, 8, 8, cudaChannelFormatKindUnsigned);

cudaTextureDesc sampling() {
    cudaTextureDesc desc = {};
    desc.addressMode[0] = cudaAddressModeMirror;
    desc.addressMode[1] = cudaAddressModeBorder;
    desc.filterMode = cudaFilterModeLinear;
    desc.readMode = cudaReadModeNormalizedFloat;
    desc.sRGB = 1;
    desc.normalizedCoords = 1;
    desc.disableTrilinearOptimization = 1;
    desc.maxMipmapLevelClamp = 3.5f;
    desc.borderColor[2] = 0.25f;
    return desc;
}

void of_an_array() {
    cudaArray_t array = nullptr;
    EXPECT_OK(cudaMallocArray(&array, &kBytes, 16, 8, cudaArraySurfaceLoadStore));
    cudaResourceDesc resource = {}, told = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    const cudaTextureDesc desc = sampling();
    cudaResourceViewDesc view = {}, seen = {};
    view.format = cudaResViewFormatUnsignedChar4;
    view.width = 16;
    view.height = 8;
    cudaTextureObject_t texture = 0;
    EXPECT_OK(cudaCreateTextureObject(&texture, &resource, &desc, &view));
    EXPECT(texture != 0);
    EXPECT_OK(cudaGetTextureObjectResourceDesc(&told, texture));
    EXPECT(told.resType == cudaResourceTypeArray && told.res.array.array == array);
    cudaTextureDesc again = {};
    EXPECT_OK(cudaGetTextureObjectTextureDesc(&again, texture));
    EXPECT(std::memcmp(&again, &desc, sizeof desc) == 0);
    EXPECT_OK(cudaGetTextureObjectResourceViewDesc(&seen, texture));
    EXPECT(seen.format == view.format && seen.width == 16 && seen.height == 8 && seen.depth == 0);
    EXPECT_OK(cudaDestroyTextureObject(texture));
    EXPECT_CODE(cudaGetTextureObjectTextureDesc(&again, texture), cudaErrorInvalidValue);
    cudaSurfaceObject_t surface = 0;
    EXPECT_OK(cudaCreateSurfaceObject(&surface, &resource));
    EXPECT_OK(cudaGetSurfaceObjectResourceDesc(&told, surface));
    EXPECT(told.res.array.array == array);
    EXPECT_OK(cudaDestroySurfaceObject(surface));
    EXPECT_OK(cudaFreeArray(array));
    EXPECT_CODE(cudaCreateSurfaceObject(&surface, &resource), cudaErrorInvalidResourceHandle);
    cudaGetLastError();
}

void of_memory() {
    void* memory = nullptr;
    size_t pitch = 0;
    EXPECT_OK(cudaMallocPitch(&memory, &pitch, 64, 4));
    cudaResourceDesc resource = {}, told = {};
    cudaTextureDesc desc = {};
    cudaTextureObject_t texture = 0;
    resource.resType = cudaResourceTypePitch2D;
    resource.res.pitch2D = {memory, kBytes, 16, 4, pitch};
    EXPECT_OK(cudaCreateTextureObject(&texture, &resource, &desc, nullptr));
    EXPECT_OK(cudaGetTextureObjectResourceDesc(&told, texture));
    const auto& flat = told.res.pitch2D;
    EXPECT(flat.devPtr == memory && flat.width == 16 && flat.height == 4 && flat.pitchInBytes == pitch);
    EXPECT(flat.desc.w == 8 && flat.desc.f == cudaChannelFormatKindUnsigned);
    EXPECT_CODE(cudaGetTextureObjectResourceViewDesc(nullptr, texture), cudaErrorInvalidValue);
    EXPECT_OK(cudaDestroyTextureObject(texture));
    resource = {};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear = {memory, kBytes, 64};
    EXPECT_OK(cudaCreateTextureObject(&texture, &resource, &desc, nullptr));
    EXPECT_OK(cudaGetTextureObjectResourceDesc(&told, texture));
    EXPECT(told.res.linear.devPtr == memory && told.res.linear.sizeInBytes == 64);
    EXPECT_OK(cudaDestroyTextureObject(texture));
    resource.res.linear.desc.x = 7;
    EXPECT_CODE(cudaCreateTextureObject(&texture, &resource, &desc, nullptr),
                cudaErrorInvalidChannelDescriptor);
    EXPECT_CODE(cudaCreateTextureObject(nullptr, &resource, &desc, nullptr), cudaErrorInvalidValue);
    EXPECT_OK(cudaDestroyTextureObject(0));
    cudaGetLastError();
    EXPECT_OK(cudaFree(memory));
}

}  // namespace

int main() {
    of_an_array();
    of_memory();
    return failures;
}
