// The end of library calls on a software GPU: a library of its own beside the driver, which opens it at the
// first call. It brings OpenBLAS and LAPACK along. Plain C types only.
#pragma once

#include <cstddef>
#include <cstdint>

inline constexpr char kGkCpuEndFile[] = "libgpu_kernels_maths.so";
inline constexpr char kGkCpuEnd[] = "gk_cpu_end";

// What a call gets that asks for memory to work in.
enum GkRoom : int {
    kGkRoomIsThere,
    kGkRoomLater,    // it is to return kGkPutBack, and will be done anew
    kGkRoomStopped,  // it was interrupted
    kGkRoomTooLarge,
    kGkRoomNoneLeft,
};
// No CUresult: the call has done nothing yet.
inline constexpr int kGkPutBack = -1;

// The memory that a call may touch, and whose work it is. On a software GPU a device's address is one of the
// process.
struct GkSlice {
    void* user;
    uint64_t memory;   // of the device, in bytes
    unsigned threads;  // that the software GPU has
    // Whether [address, address + bytes) is the device's; with `written`, all of it will be written.
    bool (*reach)(void* user, uint64_t address, uint64_t bytes, bool written);
    // Memory of the process, for the call to work in, that counts as the device's until the call ends: a
    // GkRoom.
    int (*reserve)(void* user, uint64_t bytes);
    bool (*stopped)(void* user);                 // the work was interrupted
    void (*tell)(void* user, const char* line);  // why it fails
};

// Does a call (call.h), and returns when it is done; a CUresult. Any thread.
typedef int (*GkCpuEnd)(const void* call, size_t bytes, const GkSlice* slice);
