// Entry points: what a program prefers for a context, which changes no result.
#include "context.h"
#include "platform.h"

using namespace front;

extern "C" {

CUresult cuCtxGetCacheConfig(CUfunc_cache* pconfig) {
    return call([&] {
        const auto context = working_context();
        require(pconfig != nullptr);
        *pconfig = static_cast<CUfunc_cache>(context->cache_config.load());
    });
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
    return call([&] {
        const auto context = working_context();
        require(config >= CU_FUNC_CACHE_PREFER_NONE && config <= CU_FUNC_CACHE_PREFER_EQUAL);
        platform::prefer_cache(config);
        context->cache_config = config;
    });
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig* pConfig) {
    return call([&] {
        working_context();
        require(pConfig != nullptr);
        *pConfig = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    });
}

// Of GPUs that CUDA's headers still know, none can change its banks.
CUresult cuCtxSetSharedMemConfig(CUsharedconfig config) {
    return call([&] {
        working_context();
        require(config >= CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE &&
                config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE);
    });
}

CUresult cuCtxGetStreamPriorityRange(int* leastPriority, int* greatestPriority) {
    return call([&] {
        const auto [least, greatest] = platform::stream_priorities(working_context()->device);
        if (leastPriority) *leastPriority = least;
        if (greatestPriority) *greatestPriority = greatest;
    });
}

// The cache is the whole GPU's, whose other slices are not to be disturbed.
CUresult cuCtxResetPersistingL2Cache(void) {
    return call([] { working_context(); });
}

CUresult cuCtxGetExecAffinity(CUexecAffinityParam* pExecAffinity, CUexecAffinityType type) {
    return call([&] {
        working_context();
        require(pExecAffinity != nullptr && type == CU_EXEC_AFFINITY_TYPE_SM_COUNT);
        refuse(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
    });
}
}
