// Devices: cudaDeviceProp in this release's layout against the attributes, and which device a thread has.
#include <cstring>
#include <thread>
#include <vector>

#include "expect.h"

namespace {

int attribute(cudaDeviceAttr which) {
    int value = -1;
    EXPECT_OK(cudaDeviceGetAttribute(&value, which, 0));
    return value;
}

void properties() {
    cudaDeviceProp prop;
    std::memset(static_cast<void*>(&prop), 0x5a, sizeof prop);
    EXPECT_OK(cudaGetDeviceProperties(&prop, 0));
    EXPECT(prop.name[0] && std::memchr(prop.name, 0, sizeof prop.name));
    EXPECT(prop.major == attribute(cudaDevAttrComputeCapabilityMajor));
    EXPECT(prop.minor == attribute(cudaDevAttrComputeCapabilityMinor));
    EXPECT(prop.warpSize == 32);
    EXPECT(prop.maxThreadsPerBlock == attribute(cudaDevAttrMaxThreadsPerBlock));
    EXPECT(prop.maxThreadsDim[2] == attribute(cudaDevAttrMaxBlockDimZ));
    EXPECT(prop.maxGridSize[0] == attribute(cudaDevAttrMaxGridDimX));
    EXPECT(prop.sharedMemPerBlock == size_t(attribute(cudaDevAttrMaxSharedMemoryPerBlock)));
    EXPECT(prop.multiProcessorCount == attribute(cudaDevAttrMultiProcessorCount));
    EXPECT(prop.regsPerMultiprocessor == attribute(cudaDevAttrMaxRegistersPerMultiprocessor));
    EXPECT(prop.l2CacheSize == attribute(cudaDevAttrL2CacheSize));
    EXPECT(prop.cooperativeLaunch == attribute(cudaDevAttrCooperativeLaunch));
    EXPECT(prop.memoryPoolsSupported == attribute(cudaDevAttrMemoryPoolsSupported));
    EXPECT(prop.unifiedFunctionPointers == 0);
#if CUDART_VERSION < 13000
    EXPECT(prop.clockRate == attribute(cudaDevAttrClockRate));
    EXPECT(prop.maxTexture1DLinear == attribute(cudaDevAttrMaxTexture1DLinearWidth));
#endif
    size_t free = 0, total = 0;
    EXPECT_OK(cudaMemGetInfo(&free, &total));
    EXPECT(prop.totalGlobalMem == total && free <= total);
    EXPECT_CODE(cudaGetDeviceProperties(&prop, 7), cudaErrorInvalidDevice);
    EXPECT_CODE(cudaGetDeviceProperties(nullptr, 0), cudaErrorInvalidValue);
    int chosen = -1;
    EXPECT_OK(cudaChooseDevice(&chosen, &prop));
    EXPECT(chosen == 0);
}

#if CUDART_VERSION < 13000
#undef cudaGetDeviceProperties
extern "C" cudaError_t cudaGetDeviceProperties(cudaDeviceProp*, int);

// Programs of CUDA 11 have room for less.
void older_layout() {
    constexpr size_t room = offsetof(cudaDeviceProp, hostRegisterSupported);
    std::vector<unsigned char> memory(sizeof(cudaDeviceProp), 0x5a);
    EXPECT_OK(cudaGetDeviceProperties(reinterpret_cast<cudaDeviceProp*>(memory.data()), 0));
    EXPECT(reinterpret_cast<cudaDeviceProp*>(memory.data())->warpSize == 32);
    for (size_t i = room; i < memory.size(); ++i) EXPECT(memory[i] == 0x5a);
}
#endif

void devices() {
    int count = 0, device = -1;
    EXPECT_OK(cudaGetDeviceCount(&count));
    EXPECT(count == 1);
    EXPECT_OK(cudaGetDevice(&device));
    EXPECT(device == 0);
    EXPECT_CODE(cudaSetDevice(count), cudaErrorInvalidDevice);
    EXPECT_CODE(cudaSetDevice(-1), cudaErrorInvalidDevice);
    EXPECT_CODE(cudaDeviceEnablePeerAccess(0, 0), cudaErrorInvalidDevice);
    EXPECT_OK(cudaInitDevice(0, 0, 0));
    std::thread([] {
        int own = -1;
        EXPECT_OK(cudaSetDevice(0));
        EXPECT_OK(cudaGetDevice(&own));
        EXPECT(own == 0);
    }).join();
    int runtime = 0, driver = 0;
    EXPECT_OK(cudaRuntimeGetVersion(&runtime));
    EXPECT_OK(cudaDriverGetVersion(&driver));
    EXPECT(runtime == CUDART_VERSION && driver >= 12000);
    char address[32];
    EXPECT_OK(cudaDeviceGetPCIBusId(address, sizeof address, 0));
    EXPECT_OK(cudaDeviceGetByPCIBusId(&device, address));
    EXPECT(device == 0);
}

}  // namespace

int main() {
    devices();
    properties();
#if CUDART_VERSION < 13000
    older_layout();
#endif
    return failures;
}
