// The CUDA driver's ABI for those who implement it (client, software GPU) or call it by pointer (worker).
//
// cuda.h is included with __CUDA_API_VERSION_INTERNAL, so that no macro renames anything: cuMemAlloc_v2 is
// cuMemAlloc_v2, and every exported form is declared, with default visibility. Link the OBJECT library
// `cuda_abi` into a driver: it brings a weak definition of every function, cuGetProcAddress over the
// generated table, cuGetErrorName, cuGetErrorString and a cuGetExportTable that refuses every table.
#pragma once

#define __CUDA_API_VERSION_INTERNAL 1
#pragma GCC visibility push(default)
#include <cuda.h>

#include "profiler.h"
#pragma GCC visibility pop

extern "C" {

// Each library that links cuda_abi defines this hook. Called the first time that a program calls a function
// that the library does not have; any thread, so it must not take a lock that a CUDA call may hold.
void gk_unsupported(const char* name);

// What the weak stubs call: tells the hook once, returns CUDA_ERROR_NOT_SUPPORTED. `told` belongs to one
// stub.
CUresult gk_unsupported_once(const char* name, bool* told);

// The newest symbol for `name` whose version is at most `version`; with `per_thread`, its form for the
// per-thread default stream where there is one. Null when there is none; `result` says why.
void* gk_find_proc(const char* name, int version, bool per_thread, CUdriverProcAddressQueryResult* result);

// "CUDA_ERROR_OUT_OF_MEMORY" and "out of memory"; null for a value that cuda.h does not have.
const char* gk_error_name(CUresult error);
const char* gk_error_string(CUresult error);
}
