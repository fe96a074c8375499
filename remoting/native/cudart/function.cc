// What a kernel is: attributes, name, parameters, occupancy.
#include "forward.h"
#include "launch.h"
#include "registry.h"

using namespace cudart;

namespace {

// `body(driver, function)` with the function of the current context that `entry` stands for.
template <typename Body>
cudaError_t with_function(const void* entry, Body body) {
    return call<Need::context>([&](const Driver& driver) {
        CUfunction function;
        if (cudaError_t error = find_context_function(driver, entry, function); error != cudaSuccess)
            return error;
        return translated(body(driver, function));
    });
}

struct AttributeField {
    CUfunction_attribute attribute;
    int cudaFuncAttributes::* field;
};

// Those of the driver's attributes that the structure has as int; an older driver lacks the later ones.
constexpr AttributeField kFields[] = {
    {CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &cudaFuncAttributes::maxThreadsPerBlock},
    {CU_FUNC_ATTRIBUTE_NUM_REGS, &cudaFuncAttributes::numRegs},
    {CU_FUNC_ATTRIBUTE_PTX_VERSION, &cudaFuncAttributes::ptxVersion},
    {CU_FUNC_ATTRIBUTE_BINARY_VERSION, &cudaFuncAttributes::binaryVersion},
    {CU_FUNC_ATTRIBUTE_CACHE_MODE_CA, &cudaFuncAttributes::cacheModeCA},
    {CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, &cudaFuncAttributes::maxDynamicSharedSizeBytes},
    {CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, &cudaFuncAttributes::preferredShmemCarveout},
    {CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET, &cudaFuncAttributes::clusterDimMustBeSet},
    {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, &cudaFuncAttributes::requiredClusterWidth},
    {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT, &cudaFuncAttributes::requiredClusterHeight},
    {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH, &cudaFuncAttributes::requiredClusterDepth},
    {CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, &cudaFuncAttributes::nonPortableClusterSizeAllowed},
    {CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
     &cudaFuncAttributes::clusterSchedulingPolicyPreference},
};

}  // namespace

extern "C" {

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attr, const void* func) {
    if (!attr) return finish(cudaErrorInvalidValue);
    return with_function(func, [&](const Driver& driver, CUfunction function) {
        auto get = [&](CUfunction_attribute attribute) {
            int value = 0;
            invoke(driver.cuFuncGetAttribute, &value, attribute, function);
            return value;
        };
        int threads;
        const CUresult result =
            invoke(driver.cuFuncGetAttribute, &threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function);
        if (result != CUDA_SUCCESS) return result;
        *attr = {};
        attr->sharedSizeBytes = get(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
        attr->constSizeBytes = get(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES);
        attr->localSizeBytes = get(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
        for (const auto& [attribute, field] : kFields) attr->*field = get(attribute);
        return CUDA_SUCCESS;
    });
}

cudaError_t cudaFuncSetAttribute(const void* func, cudaFuncAttribute attr, int value) {
    return with_function(func, [&](const Driver& driver, CUfunction function) {
        return invoke(driver.cuFuncSetAttribute, function, attr, value);
    });
}

cudaError_t cudaFuncSetCacheConfig(const void* func, cudaFuncCache cacheConfig) {
    return with_function(func, [&](const Driver& driver, CUfunction function) {
        return invoke(driver.cuFuncSetCacheConfig, function, cacheConfig);
    });
}

cudaError_t cudaFuncSetSharedMemConfig(const void* func, cudaSharedMemConfig config) {
    return with_function(func, [&](const Driver& driver, CUfunction function) {
        return invoke(driver.cuFuncSetSharedMemConfig, function, config);
    });
}

cudaError_t cudaFuncGetName(const char** name, const void* func) {
    return with_function(func, [&](const Driver& driver, CUfunction function) {
        return invoke(driver.cuFuncGetName, name, function);
    });
}

cudaError_t cudaFuncGetParamInfo(const void* func, size_t paramIndex, size_t* paramOffset,
                                 size_t* paramSize) {
    return with_function(func, [&](const Driver& driver, CUfunction function) {
        return invoke(driver.cuFuncGetParamInfo, function, paramIndex, paramOffset, paramSize);
    });
}

#if CUDART_VERSION >= 13000
cudaError_t cudaFuncGetParamCount(const void* func, size_t* paramCount) {
    return with_function(func, [&](const Driver& driver, CUfunction function) {
        return invoke(driver.cuFuncGetParamCount, function, paramCount);
    });
}
#endif

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* numBlocks, const void* func,
                                                                   int blockSize, size_t dynamicSMemSize,
                                                                   unsigned int flags) {
    return with_function(func, [&](const Driver& driver, CUfunction function) {
        return invoke(driver.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, numBlocks, function,
                      blockSize, dynamicSMemSize, flags);
    });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* numBlocks, const void* func, int blockSize,
                                                          size_t dynamicSMemSize) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, func, blockSize, dynamicSMemSize,
                                                                  0);
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* dynamicSmemSize, const void* func,
                                                      int numBlocks, int blockSize) {
    return with_function(func, [&](const Driver& driver, CUfunction function) {
        return invoke(driver.cuOccupancyAvailableDynamicSMemPerBlock, dynamicSmemSize, function, numBlocks,
                      blockSize);
    });
}

cudaError_t cudaOccupancyMaxPotentialClusterSize(int* clusterSize, const void* func,
                                                 const cudaLaunchConfig_t* launchConfig) {
    CUlaunchConfig config;
    if (!launchConfig || !driver_config(*launchConfig, config)) return finish(cudaErrorInvalidValue);
    return with_function(func, [&](const Driver& driver, CUfunction function) {
        return invoke(driver.cuOccupancyMaxPotentialClusterSize, clusterSize, function, &config);
    });
}

cudaError_t cudaOccupancyMaxActiveClusters(int* numClusters, const void* func,
                                           const cudaLaunchConfig_t* launchConfig) {
    CUlaunchConfig config;
    if (!launchConfig || !driver_config(*launchConfig, config)) return finish(cudaErrorInvalidValue);
    return with_function(func, [&](const Driver& driver, CUfunction function) {
        return invoke(driver.cuOccupancyMaxActiveClusters, numClusters, function, &config);
    });
}
}
