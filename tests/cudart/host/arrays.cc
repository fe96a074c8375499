// Arrays: making, asking, and every way in which the runtime copies from and to one.
#include <algorithm>
#include <numeric>
#include <vector>

#include "expect.h"

namespace {

constexpr size_t kWidth = 16, kHeight = 6, kRow = kWidth * sizeof(float);
const cudaChannelFormatDesc kFloat = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);

std::vector<float> numbers(size_t count) {
    std::vector<float> values(count);
    std::iota(values.begin(), values.end(), 1.0f);
    return values;
}

cudaArray_t plane(unsigned flags = cudaArrayDefault) {
    cudaArray_t array = nullptr;
    EXPECT_OK(cudaMallocArray(&array, &kFloat, kWidth, kHeight, flags));
    return array;
}

std::vector<float> contents(cudaArray_t array) {
    std::vector<float> values(kWidth * kHeight, -1);
    EXPECT_OK(cudaMemcpy2DFromArray(values.data(), kRow, array, 0, 0, kRow, kHeight, cudaMemcpyDeviceToHost));
    return values;
}

bool same(const cudaChannelFormatDesc& a, const cudaChannelFormatDesc& b) {
    return a.x == b.x && a.y == b.y && a.z == b.z && a.w == b.w && a.f == b.f;
}

void descriptions() {
    const struct {
        cudaChannelFormatDesc channels;
        cudaError_t code;
    } all[] = {
        {{8, 8, 8, 8, cudaChannelFormatKindUnsigned}, cudaSuccess},
        {{16, 16, 0, 0, cudaChannelFormatKindSigned}, cudaSuccess},
        {{16, 0, 0, 0, cudaChannelFormatKindFloat}, cudaSuccess},
        {{32, 32, 32, 32, cudaChannelFormatKindFloat}, cudaSuccess},
        {{8, 0, 0, 0, cudaChannelFormatKindFloat}, cudaErrorInvalidChannelDescriptor},
        {{32, 32, 32, 0, cudaChannelFormatKindFloat}, cudaErrorInvalidChannelDescriptor},
        {{32, 0, 32, 0, cudaChannelFormatKindFloat}, cudaErrorInvalidChannelDescriptor},
        {{32, 16, 0, 0, cudaChannelFormatKindSigned}, cudaErrorInvalidChannelDescriptor},
        {{0, 0, 0, 0, cudaChannelFormatKindSigned}, cudaErrorInvalidChannelDescriptor},
        {{8, 8, 0, 0, cudaChannelFormatKindUnsignedNormalized8X2}, cudaErrorNotSupported},
    };
    for (const auto& [channels, code] : all) {
        cudaArray_t array = nullptr;
        EXPECT_CODE(cudaMallocArray(&array, &channels, 4, 4), code);
        if (code != cudaSuccess) continue;
        cudaChannelFormatDesc told;
        EXPECT_OK(cudaGetChannelDesc(&told, array));
        EXPECT(same(told, channels));
        EXPECT_OK(cudaFreeArray(array));
    }
    cudaGetLastError();
}

void layers_and_levels() {
    cudaArray_t array = nullptr, level = nullptr;
    cudaExtent extent;
    unsigned flags = 77;
    EXPECT_OK(cudaMalloc3DArray(&array, &kFloat, {8, 8, 12}, cudaArrayCubemap | cudaArrayLayered));
    EXPECT_OK(cudaArrayGetInfo(nullptr, &extent, &flags, array));
    EXPECT(extent.width == 8 && extent.height == 8 && extent.depth == 12 && flags == 5);
    EXPECT_OK(cudaFreeArray(array));
    EXPECT_CODE(cudaMalloc3DArray(&array, &kFloat, {8, 8, 7}, cudaArrayCubemap), cudaErrorInvalidValue);
    cudaMipmappedArray_t mipmapped = nullptr;
    EXPECT_OK(cudaMallocMipmappedArray(&mipmapped, &kFloat, {16, 4, 0}, 9));
    EXPECT_OK(cudaGetMipmappedArrayLevel(&level, mipmapped, 3));
    EXPECT_OK(cudaArrayGetInfo(nullptr, &extent, nullptr, level));
    EXPECT(extent.width == 2 && extent.height == 1 && extent.depth == 0);
    EXPECT_CODE(cudaGetMipmappedArrayLevel(&level, mipmapped, 5), cudaErrorInvalidValue);
    EXPECT_OK(cudaFreeMipmappedArray(mipmapped));
    EXPECT_CODE(cudaArrayGetInfo(nullptr, &extent, nullptr, level), cudaErrorInvalidResourceHandle);
    EXPECT_OK(cudaFreeArray(nullptr));
    EXPECT_OK(cudaFreeMipmappedArray(nullptr));
    EXPECT_CODE(cudaMallocArray(nullptr, &kFloat, 4), cudaErrorInvalidValue);
    EXPECT_CODE(cudaMallocArray(&array, nullptr, 4), cudaErrorInvalidValue);
    EXPECT_CODE(cudaMallocArray(&array, &kFloat, size_t{1} << 40, 4), cudaErrorInvalidValue);
    EXPECT_CODE(cudaMallocArray(&array, &kFloat, 65536, 65536), cudaErrorMemoryAllocation);
    cudaGetLastError();
}

void boxes() {
    const auto values = numbers(kWidth * kHeight);
    cudaArray_t one = plane(), other = plane(cudaArraySurfaceLoadStore);
    EXPECT_OK(cudaMemcpy2DToArray(one, 0, 0, values.data(), kRow, kRow, kHeight, cudaMemcpyHostToDevice));
    EXPECT(contents(one) == values);
    EXPECT_OK(cudaMemcpy2DArrayToArray(other, 0, 0, one, 0, 0, kRow, kHeight, cudaMemcpyDeviceToDevice));
    EXPECT_OK(cudaMemcpy2DArrayToArray(other, 8, 1, one, 4, 2, 12, 3, cudaMemcpyDefault));
    auto wanted = values;
    for (size_t y = 0; y < 3; ++y)
        for (size_t x = 0; x < 3; ++x) wanted[(y + 1) * kWidth + 2 + x] = values[(y + 2) * kWidth + 1 + x];
    EXPECT(contents(other) == wanted);
    EXPECT_OK(cudaMemcpy2DToArrayAsync(other, 0, 0, values.data(), kRow, kRow, kHeight, cudaMemcpyDefault,
                                       cudaStreamPerThread));
    EXPECT_OK(cudaStreamSynchronize(cudaStreamPerThread));
    EXPECT(contents(other) == values);
    float corner[2] = {};
    EXPECT_OK(cudaMemcpy2DFromArray_ptds(corner, 8, one, kRow - 8, kHeight - 1, 8, 1, cudaMemcpyDefault));
    EXPECT(corner[1] == values.back());
    EXPECT_CODE(cudaMemcpy2DFromArray(corner, 4, one, 0, 0, 8, 1, cudaMemcpyDeviceToHost),
                cudaErrorInvalidPitchValue);
    EXPECT_CODE(cudaMemcpy2DFromArray(corner, 8, one, 0, 0, 8, 1, cudaMemcpyHostToDevice),
                cudaErrorInvalidMemcpyDirection);
    EXPECT_CODE(cudaMemcpy2DFromArray(corner, 8, one, kRow, 0, 8, 1, cudaMemcpyDeviceToHost),
                cudaErrorInvalidValue);
    cudaGetLastError();
    EXPECT_OK(cudaFreeArray(one));
    EXPECT_OK(cudaFreeArray(other));
}

// From any byte on, bytes fill the rows in turn.
void lines() {
    const auto values = numbers(kWidth * kHeight);
    const size_t all = values.size() * sizeof(float);
    for (size_t first = 0; first < values.size(); first += 5) {
        for (size_t count = 1; first + count <= values.size(); count += 7) {
            cudaArray_t one = plane(), other = plane();
            const std::vector<float> zeros(values.size(), 0);
            const size_t x = first % kWidth * sizeof(float), y = first / kWidth,
                         bytes = count * sizeof(float);
            EXPECT_OK(cudaMemcpyToArray(one, 0, 0, zeros.data(), all, cudaMemcpyHostToDevice));
            EXPECT_OK(cudaMemcpyToArray(other, 0, 0, zeros.data(), all, cudaMemcpyHostToDevice));
            EXPECT_OK(cudaMemcpyToArray(one, x, y, values.data(), bytes, cudaMemcpyHostToDevice));
            auto wanted = zeros;
            std::copy_n(values.begin(), count, wanted.begin() + static_cast<long>(first));
            EXPECT(contents(one) == wanted);
            EXPECT_OK(cudaMemcpyArrayToArray(other, 0, 0, one, x, y, bytes, cudaMemcpyDeviceToDevice));
            auto moved = zeros;
            std::copy_n(values.begin(), count, moved.begin());
            EXPECT(contents(other) == moved);
            std::vector<float> back(count);
            EXPECT_OK(cudaMemcpyFromArray(back.data(), one, x, y, bytes, cudaMemcpyDeviceToHost));
            EXPECT(std::equal(back.begin(), back.end(), values.begin()));
            EXPECT_OK(cudaFreeArray(one));
            EXPECT_OK(cudaFreeArray(other));
        }
    }
    cudaArray_t one = plane();
    EXPECT_CODE(cudaMemcpyToArray(one, 4, 0, values.data(), all, cudaMemcpyHostToDevice),
                cudaErrorInvalidValue);
    EXPECT_CODE(cudaMemcpyToArray(one, kRow, 0, values.data(), 4, cudaMemcpyHostToDevice),
                cudaErrorInvalidValue);
    cudaGetLastError();
    EXPECT_OK(cudaFreeArray(one));
}

// Where an array is, positions and sizes count its elements.
void volumes() {
    constexpr size_t kX = 6, kY = 5, kZ = 4;
    const auto values = numbers(kX * kY * kZ);
    cudaArray_t array = nullptr;
    EXPECT_OK(cudaMalloc3DArray(&array, &kFloat, {kX, kY, kZ}));
    cudaMemcpy3DParms in = {};
    in.srcPtr = {const_cast<float*>(values.data()), kX * sizeof(float), kX, kY};
    in.dstArray = array;
    in.extent = {kX, kY, kZ};
    in.kind = cudaMemcpyHostToDevice;
    EXPECT_OK(cudaMemcpy3D(&in));
    std::vector<float> back(8, 0);
    cudaMemcpy3DParms out = {};
    out.srcArray = array;
    out.srcPos = {1, 2, 1};
    out.dstPtr = {back.data(), 2 * sizeof(float), 2, 2};
    out.extent = {2, 2, 2};
    out.kind = cudaMemcpyDeviceToHost;
    EXPECT_OK(cudaMemcpy3D(&out));
    for (size_t i = 0; i < 8; ++i)
        EXPECT(back[i] == values[((1 + i / 4) * kY + 2 + i / 2 % 2) * kX + 1 + i % 2]);
    cudaGraph_t graph;
    cudaGraphNode_t node;
    cudaGraphExec_t exec;
    EXPECT_OK(cudaGraphCreate(&graph, 0));
    EXPECT_OK(cudaGraphAddMemcpyNode(&node, graph, nullptr, 0, &out));
    cudaMemcpy3DParms told = {};
    EXPECT_OK(cudaGraphMemcpyNodeGetParams(node, &told));
    EXPECT(told.srcArray == array && !told.dstArray && told.srcPos.x == 1 && told.srcPos.y == 2);
    EXPECT(told.extent.width == 2 && told.extent.depth == 2 && told.dstPtr.ptr == back.data());
    EXPECT_OK(cudaGraphInstantiate(&exec, graph, 0));
    back.assign(8, 0);
    EXPECT_OK(cudaGraphLaunch(exec, nullptr));
    EXPECT_OK(cudaDeviceSynchronize());
    EXPECT(back[7] == values[(2 * kY + 3) * kX + 2]);
    EXPECT_OK(cudaGraphExecDestroy(exec));
    EXPECT_OK(cudaGraphDestroy(graph));
    out.srcPtr = out.dstPtr;
    EXPECT_CODE(cudaMemcpy3D(&out), cudaErrorInvalidValue);
    out.srcPtr = {};
    out.extent.width = size_t{1} << 62;
    EXPECT_CODE(cudaMemcpy3D(&out), cudaErrorInvalidValue);
    cudaGetLastError();
    EXPECT_OK(cudaFreeArray(array));
    EXPECT_CODE(cudaFreeArray(array), cudaErrorInvalidResourceHandle);
}

}  // namespace

int main() {
    descriptions();
    layers_and_levels();
    boxes();
    lines();
    volumes();
    return failures;
}
