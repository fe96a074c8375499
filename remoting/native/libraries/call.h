// A call of a maths library on its way: from our library (libcublas.so and its like) to the driver of its
// process, from the forwarding client to the worker, and to the end that computes. Plain C types only: the
// sides are built apart.
//
// A driver of ours exports kGkLibraryCall, found by dlsym; NVIDIA's has none.
#pragma once

#include <cstddef>
#include <cstdint>

inline constexpr char kGkLibraryCall[] = "gkLibraryCall";

enum GkLibrary : uint16_t {
    kGkCublas = 0,
    kGkCublasLt,
    kGkCusolver,
    kGkCudnn,
    kGkCusparse,
    kGkCufft,
    kGkCurand,
    kGkLibraries
};

// The head of a call. The function's arguments follow: the structure of its family, as generate.py makes it
// or the library's messages.h has it.
struct GkLibraryCall {
    uint16_t library;   // GkLibrary
    uint16_t function;  // its number in the library
    uint8_t major;      // of the library that the program has loaded
    uint8_t wide;       // 1: the form with integers of 64 bits
    uint8_t scalars_on_device;
    uint8_t zero;
    // The settings of the handle, which NVIDIA's library has too.
    uint32_t math;
    uint32_t atomics;
    uint64_t workspace;
    uint64_t workspace_bytes;
};
static_assert(sizeof(GkLibraryCall) == 32);
inline constexpr size_t kGkMostCallBytes = 16384;
// What does a library's calls.
struct GkEnd {
    uint32_t threads;  // that a software GPU has; 0: it is a GPU, with NVIDIA's library
    uint32_t zero;
};
// As `function`: no call, but the question whether calls of this library can be done, and what does them. It
// is answered at once.
inline constexpr uint16_t kGkLook = UINT16_MAX;
struct GkLook {
    GkLibraryCall head;
    GkEnd* end;  // where the answer is to be
};
// The same, of one call, whose head and arguments follow: whether cublasLtMatmul would do it. An operand's
// address is what the program's will be a multiple of, and `workspace_bytes` what there may be at most.
// NOT_FOUND: what computes has no algorithm for it.
inline constexpr uint16_t kGkAsk = UINT16_MAX - 2;
struct GkAsk {
    GkLibraryCall head;
    uint64_t* workspace_bytes;  // where is to be how much the algorithm needs
};
// The same: that the program has ended an object of the library's, whose number (u64) follows the head, and
// of which the other end may keep something. It is of no stream: the object's may have gone, or be captured.
inline constexpr uint16_t kGkForget = UINT16_MAX - 1;

// Work of `stream` (a CUstream), as a launch is: it returns a CUresult at once, and its errors are those of
// work in a stream. A captured stream refuses it. NOT_SUPPORTED: this driver has nothing to compute it with.
typedef int (*GkLibraryCallFunction)(void* stream, const void* call, size_t bytes);
