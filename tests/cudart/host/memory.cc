// Memory: pitched and boxed regions, pools, pointers, host memory.
#include <numeric>

#include "device_code.h"

namespace {

void planes() {
    std::vector<char> host(1000), back(1000);
    std::iota(host.begin(), host.end(), 0);
    void* device;
    size_t pitch;
    EXPECT_OK(cudaMallocPitch(&device, &pitch, 100, 10));
    EXPECT(pitch >= 100);
    EXPECT_OK(cudaMemcpy2D(device, pitch, host.data(), 100, 100, 10, cudaMemcpyHostToDevice));
    EXPECT_OK(cudaMemcpy2DAsync(back.data(), 100, device, pitch, 100, 10, cudaMemcpyDeviceToHost, nullptr));
    EXPECT_OK(cudaDeviceSynchronize());
    EXPECT(back == host);
    EXPECT_OK(cudaMemset2D(device, pitch, 7, 60, 3));
    EXPECT_OK(cudaMemcpy2D(back.data(), 100, device, pitch, 100, 10, cudaMemcpyDefault));
    EXPECT(back[59] == 7 && back[60] == host[60] && back[259] == 7 && back[300] == host[300]);
    EXPECT_CODE(cudaMemcpy2D(back.data(), 50, device, pitch, 100, 10, cudaMemcpyDeviceToHost),
                cudaErrorInvalidPitchValue);
    EXPECT_OK(cudaMemcpy2D(back.data(), 50, device, pitch, 100, 0, cudaMemcpyDeviceToHost));
    EXPECT_OK(cudaFree(device));
}

void boxes() {
    const cudaExtent extent = {32, 8, 4};
    cudaPitchedPtr box;
    EXPECT_OK(cudaMalloc3D(&box, extent));
    EXPECT(box.xsize == 32 && box.ysize == 8 && box.pitch >= 32);
    EXPECT_OK(cudaMemset3D(box, 1, extent));
    EXPECT_OK(cudaMemset3D(box, 2, {16, 4, 2}));
    std::vector<char> back(32 * 8 * 4);
    cudaMemcpy3DParms parms = {};
    parms.srcPtr = box;
    parms.dstPtr = {back.data(), 32, 32, 8};
    parms.extent = extent;
    parms.kind = cudaMemcpyDeviceToHost;
    EXPECT_OK(cudaMemcpy3D(&parms));
    const auto at = [&](int x, int y, int z) { return back[(z * 8 + y) * 32 + x]; };
    EXPECT(at(0, 0, 0) == 2 && at(15, 3, 1) == 2 && at(16, 3, 1) == 1 && at(0, 4, 1) == 1 &&
           at(0, 0, 2) == 1);
    // A part of it, to another place.
    parms.srcPos = {0, 3, 1};
    parms.dstPos = {4, 0, 0};
    parms.extent = {20, 2, 1};
    EXPECT_OK(cudaMemcpy3DAsync(&parms, nullptr));
    EXPECT_OK(cudaDeviceSynchronize());
    EXPECT(at(4, 0, 0) == 2 && at(20, 0, 0) == 1 && at(4, 1, 0) == 1);
    EXPECT_CODE(cudaMemcpy3D(nullptr), cudaErrorInvalidValue);
    parms.dstPtr = {};
    parms.dstArray = reinterpret_cast<cudaArray_t>(back.data());
    EXPECT_CODE(cudaMemcpy3D(&parms), cudaErrorInvalidResourceHandle);
    EXPECT_OK(cudaFree(box.ptr));
    EXPECT_CODE(cudaMalloc3D(&box, {1, size_t{1} << 40, size_t{1} << 40}), cudaErrorMemoryAllocation);
    cudaGetLastError();
}

void ordered() {
    cudaStream_t stream;
    EXPECT_OK(cudaStreamCreate(&stream));
    void* device;
    int back[25] = {};
    EXPECT_OK(cudaMallocAsync(&device, 100, stream));
    EXPECT_OK(cudaMemsetAsync(device, 1, 100, stream));
    EXPECT_OK(cudaMemcpyAsync(back, device, 100, cudaMemcpyDeviceToHost, stream));
    EXPECT_OK(cudaFreeAsync(device, stream));
    EXPECT_OK(cudaStreamSynchronize(stream));
    EXPECT(back[24] == 0x01010101);
    cudaMemPool_t pool;
    EXPECT_OK(cudaDeviceGetDefaultMemPool(&pool, 0));
    EXPECT_OK(cudaMemPoolTrimTo(pool, 0));
    EXPECT_OK(cudaStreamDestroy(stream));
}

void pointers() {
    Numbers numbers(4);
    int on_stack = 0;
    void* pinned;
    EXPECT_OK(cudaMallocHost(&pinned, 64));
    cudaPointerAttributes attributes;
    EXPECT_OK(cudaPointerGetAttributes(&attributes, numbers.device + 1));
    EXPECT(attributes.type == cudaMemoryTypeDevice && attributes.device == 0);
    EXPECT(attributes.devicePointer == numbers.device + 1);
    EXPECT_OK(cudaPointerGetAttributes(&attributes, pinned));
    EXPECT(attributes.type == cudaMemoryTypeHost && attributes.hostPointer == pinned);
    EXPECT_OK(cudaPointerGetAttributes(&attributes, &on_stack));
    EXPECT(attributes.type == cudaMemoryTypeUnregistered && attributes.device == cudaInvalidDeviceId);
    unsigned flags = 99;
    EXPECT_OK(cudaHostGetFlags(&flags, pinned));
    EXPECT_OK(cudaFreeHost(pinned));
    std::vector<char> own(8192);
    EXPECT_OK(cudaHostRegister(own.data(), own.size(), cudaHostRegisterDefault));
    EXPECT_OK(cudaHostUnregister(own.data()));
    EXPECT_CODE(cudaHostUnregister(own.data()), cudaErrorHostMemoryNotRegistered);
    cudaGetLastError();
}

// Advice about memory that is managed, and about other memory.
void advice(int* shared) {
    const cudaMemLocation device = {cudaMemLocationTypeDevice, 0};
    int other = 0;
#if CUDART_VERSION >= 13000
    EXPECT_OK(cudaMemAdvise(shared, 400, cudaMemAdviseSetReadMostly, device));
    EXPECT_OK(cudaMemPrefetchAsync(shared, 400, device, 0, nullptr));
    EXPECT_CODE(cudaMemPrefetchAsync(&other, 4, device, 0, nullptr), cudaErrorInvalidValue);
#else
    EXPECT_OK(cudaMemAdvise(shared, 400, cudaMemAdviseSetReadMostly, 0));
    EXPECT_OK(cudaMemAdvise_v2(shared, 400, cudaMemAdviseSetPreferredLocation, device));
    EXPECT_OK(cudaMemPrefetchAsync(shared, 400, 0, nullptr));
    EXPECT_OK(cudaMemPrefetchAsync_v2(shared, 400, device, 0, nullptr));
    EXPECT_CODE(cudaMemPrefetchAsync(&other, 4, 0, nullptr), cudaErrorInvalidValue);
#endif
    cudaGetLastError();
}

void managed() {
    Object object({{device_code()}});
    int* shared;
    EXPECT_OK(cudaMallocManaged(reinterpret_cast<void**>(&shared), 400, cudaMemAttachGlobal));
    for (int i = 0; i < 100; ++i) shared[i] = i;
    EXPECT_OK(object.launch_add(shared, 100, 5));
    EXPECT_OK(cudaDeviceSynchronize());
    EXPECT(shared[0] == 5 && shared[99] == 104);
    advice(shared);
    EXPECT_OK(cudaFree(shared));
}

// As nvcc's output does before a program first looks at a __managed__ variable.
void managed_variable() {
    Object object({{device_code()}});
    int* table = nullptr;
    __cudaRegisterManagedVar(object.handle, reinterpret_cast<void**>(&table), object.table, "table", 0, 16, 0,
                             0);
    EXPECT(__cudaInitModule(object.handle) == 1);
    EXPECT(table && table[0] == 1 && table[3] == 4);
    table[1] = 50;
    Numbers seen(4);
    void* arguments[] = {&seen.device};
    EXPECT_OK(cudaLaunchKernel(&object.read_table, dim3(1), dim3(4), arguments, 0, nullptr));
    EXPECT(seen.read() == (std::vector<int>{1, 50, 3, 4}));
    EXPECT_OK(object.launch_add(table, 4, 1));
    EXPECT_OK(cudaDeviceSynchronize());
    EXPECT(table[0] == 2 && table[1] == 51);
    void* address = nullptr;
    EXPECT_OK(cudaGetSymbolAddress(&address, table));
    EXPECT(address == table);
}

// The forms for a per-thread default stream, as nvcc --default-stream per-thread calls them.
void per_thread_forms() {
    Numbers numbers(16, 3);
    std::vector<int> back(16);
    EXPECT_OK(cudaMemcpy_ptds(back.data(), numbers.device, 64, cudaMemcpyDeviceToHost));
    EXPECT(back == std::vector<int>(16, 3));
    EXPECT_OK(cudaMemset_ptds(numbers.device, 0, 32));
    EXPECT_OK(cudaMemcpyAsync_ptsz(back.data(), numbers.device, 64, cudaMemcpyDeviceToHost, nullptr));
    EXPECT_OK(cudaStreamSynchronize_ptsz(nullptr));
    EXPECT(back[7] == 0 && back[8] == 3);
}

}  // namespace

int main() {
    planes();
    boxes();
    ordered();
    pointers();
    managed();
    managed_variable();
    per_thread_forms();
    return failures;
}
