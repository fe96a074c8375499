// What every GPU of the course has in common.
#include <cstring>

#include "course.h"

int main() {
    int count = 0, device = -1, driver = 0, runtime = 0;
    CHECK(cudaGetDeviceCount(&count));
    CHECK(cudaGetDevice(&device));
    CHECK(cudaDriverGetVersion(&driver));
    CHECK(cudaRuntimeGetVersion(&runtime));
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, device));
    size_t free_bytes = 0, total = 0;
    CHECK(cudaMemGetInfo(&free_bytes, &total));
    int warp = 0;
    CHECK(cudaDeviceGetAttribute(&warp, cudaDevAttrWarpSize, device));
    printf("devices: %s\n", count >= 1 ? "at least one" : "none");
    printf("device: %d\n", device);
    printf("driver is as new as the runtime's major version: %s\n", driver / 1000 >= runtime / 1000 ? "yes" : "no");
    printf("name: %s\n", strlen(properties.name) > 0 ? "given" : "empty");
    printf("warp size: %d %d\n", properties.warpSize, warp);
    printf("threads a block: %d\n", properties.maxThreadsPerBlock);
    printf("block: %d %d %d\n", properties.maxThreadsDim[0], properties.maxThreadsDim[1], properties.maxThreadsDim[2]);
    printf("grid: %d %d %d\n", properties.maxGridSize[0], properties.maxGridSize[1], properties.maxGridSize[2]);
    printf("unified addressing: %d\n", properties.unifiedAddressing);
    printf("compute capability at least 7.0: %s\n", properties.major >= 7 ? "yes" : "no");
    printf("shared memory a block at least 48 KiB: %s\n", properties.sharedMemPerBlock >= 49152 ? "yes" : "no");
    printf("memory: %s\n", free_bytes > 0 && free_bytes <= total && total <= properties.totalGlobalMem ? "plausible" : "odd");
    cudaDeviceProp wrong;
    printf("device 99: %s\n", cudaGetErrorString(cudaGetDeviceProperties(&wrong, 99)));
}
