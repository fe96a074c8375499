// The CUDA driver's ABI for those who implement it (client, software GPU) or call it by pointer (worker).
//
// NVIDIA's headers are included with __CUDA_API_VERSION_INTERNAL, so that no macro renames anything:
// cuMemAlloc_v2 is cuMemAlloc_v2, and every exported form is declared, with default visibility. Link the
// OBJECT library `cuda_abi` into a driver: it brings a weak definition of every function, cuGetProcAddress
// over the generated table, cuGetErrorName, cuGetErrorString and a cuGetExportTable that refuses every table.
#pragma once

#include <vdpau/vdpau.h>  // cudaVDPAU.h does not include it

#define __CUDA_API_VERSION_INTERNAL 1
#pragma GCC visibility push(default)
#include <cuda.h>
#include <cudaEGL.h>
#include <cudaGL.h>
#include <cudaVDPAU.h>

#include "profiler.h"
#pragma GCC visibility pop

extern "C" {

// Each library that links cuda_abi defines this hook: one line that the user must see and can act on. Called
// at most a few dozen times in a process; any thread, so it must not take a lock that a CUDA call may hold.
void gk_tell_user(const char* text);

// Tells the user of what is not there, once a name. It returns CUDA_ERROR_NOT_SUPPORTED, whoever says so.
void gk_unsupported(const char* name);
// The same for who returns at once. `told` belongs to one place and saves looking the name up.
CUresult gk_unsupported_once(const char* name, bool* told);

// Tells the user, a few times, that so much pinned memory is not to be had. CUDA_ERROR_OUT_OF_MEMORY.
CUresult gk_no_pinned_memory(size_t bytes);

// Tells the user if the code at `caller` is of a package that looks as if it worked until it asks for
// NVIDIA's driver's tables (export_table.cc).
void gk_tell_of_package(const void* caller);

// The newest symbol for `name` whose version is at most `version`; with `per_thread`, its form for the
// per-thread default stream where there is one. Null when there is none; `result` says why.
void* gk_find_proc(const char* name, int version, bool per_thread, CUdriverProcAddressQueryResult* result);

// "CUDA_ERROR_OUT_OF_MEMORY" and "out of memory"; null for a value that cuda.h does not have.
const char* gk_error_name(CUresult error);
const char* gk_error_string(CUresult error);
}
