// cuGetProcAddress over the generated table of (name, version, per-thread default stream) -> symbol.
#include <algorithm>
#include <cstring>
#include <iterator>

#include "cuda_abi.h"

namespace {

struct Row {
    const char* name;
    int version;
    bool per_thread;
    void* symbol;
};

const Row kRows[] = {
#include "proc_table.inc"
};

// The newest row of [first, last) with this kind of default stream that is not newer than `version`.
const Row* newest(const Row* first, const Row* last, int version, bool per_thread) {
    const Row* found = nullptr;
    for (const Row* row = first; row != last; ++row) {
        if (row->per_thread == per_thread && row->version <= version) found = row;
    }
    return found;
}

struct ByName {
    bool operator()(const Row& row, const char* name) const { return std::strcmp(row.name, name) < 0; }
    bool operator()(const char* name, const Row& row) const { return std::strcmp(name, row.name) < 0; }
};

}  // namespace

extern "C" {

void* gk_find_proc(const char* name, int version, bool per_thread, CUdriverProcAddressQueryResult* result) {
    auto [first, last] = std::equal_range(std::begin(kRows), std::end(kRows), name, ByName{});
    const Row* row = per_thread ? newest(first, last, version, true) : nullptr;
    // Most functions do not touch the default stream and have one form for both kinds.
    if (!row) row = newest(first, last, version, false);
    if (result) {
        *result = row             ? CU_GET_PROC_ADDRESS_SUCCESS
                  : first == last ? CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
                                  : CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    }
    return row ? row->symbol : nullptr;
}

// An unknown name is not an error of this form: `found` says so, and the pointer is null.
CUresult cuGetProcAddress_v2(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* symbolStatus) {
    gk_tell_of_package(__builtin_return_address(0));
    constexpr cuuint64_t kKnown =
        CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    if (!symbol || !pfn || (flags & ~kKnown) || flags == kKnown) return CUDA_ERROR_INVALID_VALUE;
    *pfn = gk_find_proc(symbol, cudaVersion, flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
                        symbolStatus);
    return *pfn || symbolStatus ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetProcAddress(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags) {
    gk_tell_of_package(__builtin_return_address(0));
    return cuGetProcAddress_v2(symbol, pfn, cudaVersion, flags, nullptr);
}
}
