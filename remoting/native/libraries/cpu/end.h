// The end of library calls on a software GPU: a library of its own beside the driver, which opens it at the first
// call. It brings OpenBLAS and LAPACK along. Plain C types only.
#pragma once

#include <cstddef>
#include <cstdint>

inline constexpr char kGkCpuEndFile[] = "libgpu_kernels_maths.so";
inline constexpr char kGkCpuEnd[] = "gk_cpu_end";

// More devices no process has.
inline constexpr unsigned kGkMostDevices = 16;

// The memory that a call may touch, and whose work it is. On a software GPU a device's address is one of the
// process.
struct GkSlice {
    void* user;
    unsigned device;   // its number in the process
    uint64_t memory;   // of the device, in bytes
    unsigned threads;  // that the software GPU has
    // Whether [address, address + bytes) is the device's; with `written`, all of it will be written.
    bool (*reach)(void* user, uint64_t address, uint64_t bytes, bool written);
    // Memory of the process, for the call to work in, that counts as the device's until it is given back.
    // False where the device has less left.
    bool (*take)(void* user, uint64_t bytes);
    void (*give_back)(void* user, uint64_t bytes);
    bool (*stopped)(void* user);                 // the work was interrupted
    void (*tell)(void* user, const char* line);  // why it fails
};

// Does a call (call.h), and returns when it is done; a CUresult. Any thread.
typedef int (*GkCpuEnd)(const void* call, size_t bytes, const GkSlice* slice);
