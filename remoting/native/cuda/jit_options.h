// What the options of the compiler and linker are. The one list of them: for who takes them from a program
// and for who hands them to a driver.
#pragma once

#include "cuda_abi.h"

namespace cuda {

enum class JitOption {
    number,   // of 32 bits, about what the code is to be
    log,      // a buffer for words, or its size
    time,     // how long it took goes out
    threads,  // how many threads of this machine work on it
    symbols,  // names and addresses of the program's, in lists
    none,
};

inline JitOption what_is(CUjit_option option) {
    switch (option) {
        case CU_JIT_MAX_REGISTERS:
        case CU_JIT_THREADS_PER_BLOCK:
        case CU_JIT_OPTIMIZATION_LEVEL:
        case CU_JIT_TARGET_FROM_CUCONTEXT:
        case CU_JIT_TARGET:
        case CU_JIT_FALLBACK_STRATEGY:
        case CU_JIT_GENERATE_DEBUG_INFO:
        case CU_JIT_LOG_VERBOSE:
        case CU_JIT_GENERATE_LINE_INFO:
        case CU_JIT_CACHE_MODE:
        case CU_JIT_NEW_SM3X_OPT:
        case CU_JIT_FAST_COMPILE:
        case CU_JIT_LTO:
        case CU_JIT_FTZ:
        case CU_JIT_PREC_DIV:
        case CU_JIT_PREC_SQRT:
        case CU_JIT_FMA:
        case CU_JIT_OPTIMIZE_UNUSED_DEVICE_VARIABLES:
        case CU_JIT_POSITION_INDEPENDENT_CODE:
        case CU_JIT_MIN_CTA_PER_SM:
        case CU_JIT_MAX_THREADS_PER_BLOCK:
        case CU_JIT_OVERRIDE_DIRECTIVE_VALUES:
            return JitOption::number;
        case CU_JIT_INFO_LOG_BUFFER:
        case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
        case CU_JIT_ERROR_LOG_BUFFER:
        case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
            return JitOption::log;
        case CU_JIT_WALL_TIME:
            return JitOption::time;
        case CU_JIT_SPLIT_COMPILE:
        case CU_JIT_BINARY_LOADER_THREAD_COUNT:
            return JitOption::threads;
        case CU_JIT_GLOBAL_SYMBOL_NAMES:
        case CU_JIT_GLOBAL_SYMBOL_ADDRESSES:
        case CU_JIT_GLOBAL_SYMBOL_COUNT:
        case CU_JIT_REFERENCED_KERNEL_NAMES:
        case CU_JIT_REFERENCED_KERNEL_COUNT:
        case CU_JIT_REFERENCED_VARIABLE_NAMES:
        case CU_JIT_REFERENCED_VARIABLE_COUNT:
            return JitOption::symbols;
        default:
            return JitOption::none;
    }
}

}  // namespace cuda
