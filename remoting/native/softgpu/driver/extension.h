// What the software GPU offers beyond CUDA to the process that has loaded it: text, checks and interrupts by
// session. A process finds it with dlsym by kGkSoftgpuExtension and does without where it is not there, as
// on a real driver. Plain C types only: the two sides are built apart.
//
// A session is whose work a kernel is: the calling thread's when the kernel was launched, or its graph node
// made. Sessions and not streams, because all users of a context share its default stream. Work of a thread
// that is in no session belongs to the process, which has its text on its own output and log.
#pragma once

#include <stddef.h>
#include <stdint.h>

inline constexpr char kGkSoftgpuExtension[] = "gk_softgpu_extension";
inline constexpr uint32_t kGkSoftgpuExtensionVersion = 6;

enum GkText : uint32_t {
    kGkTextOutput = 0,   // device printf, a whole call at a time: for standard output
    kGkTextError = 1,    // assert's, as CUDA prints it: for standard error
    kGkTextFault = 2,    // the place of a fault, or why an image is refused: one line
    kGkTextFinding = 3,  // of the checks: lines
};

enum GkCheck : uint32_t {
    kGkCheckRaces = 1,
    kGkCheckInit = 2,
    kGkCheckDivergence = 4,
    kGkCheckAll = 7,
};

// Called by any thread, one call of a session at a time, and never after end_session has returned.
typedef void (*GkTextSink)(void* user, uint32_t kind, const char* text, size_t bytes);

// A kernel that does not run, and the line that says why.
typedef void (*GkRefusedKernel)(void* user, const char* name, const char* why);

struct GkSession;

struct GkSoftgpuExtension {
    uint32_t version;
    uint32_t bytes;  // of this structure
    // Null when there is no memory for it. It works before cuInit too.
    GkSession* (*begin_session)(GkTextSink sink, void* user);
    // The calling thread's work is the session's from now on; null: the process's own.
    void (*enter_session)(GkSession* session);
    // What the session's later launches are checked for, GkCheck.
    void (*set_checks)(GkSession* session, uint32_t checks);
    // Ends the session's running kernels, and skips those that wait to run. Its next call that waits for work
    // returns CUDA_ERROR_LAUNCH_TIMEOUT, once; the context and its memory stay as they are.
    void (*interrupt)(GkSession* session);
    // Gives the session up. Its kernels may go on; their text is dropped.
    void (*end_session)(GkSession* session);
    // Kernels reach only the first `bytes` of the mapping (cuMemMap) that begins at `base`, from the next
    // cuMemSetAccess on. False where no mapping begins there.
    bool (*limit_mapping)(uint64_t base, size_t bytes);
    // The kernels of a CUlibrary that cannot run while others of it can. Asking for one by name returns
    // CUDA_ERROR_INVALID_PTX and tells the line.
    void (*each_refused_kernel)(void* library, GkRefusedKernel visit, void* user);
    // The process's slice file from now on (docs/design/shared-memory.md), of so many bytes, whose size is
    // sealed. Once, before there is a context; false where there is one already.
    bool (*use_file)(int descriptor, uint64_t bytes);
    // As cuMemAlloc, in pages of the slice file from `place` on; cuMemFree frees it. False where it cannot
    // lie there.
    bool (*allocate_in_file)(uint64_t* address, size_t bytes, uint64_t* place);
    // How many bytes of the file are allocated.
    uint64_t (*file_bytes)(void);
    // Empties what others have written to where nothing lies.
    void (*sweep_file)(void);
    // With 1, what the calling thread waits for from now on answers nothing that is the session's to be told:
    // that an interrupt has cost work, or that work was refused. It stays for the next call without. Returns
    // what was.
    int (*keep_news)(int keep);
};

// Null when the version is not there.
typedef const GkSoftgpuExtension* (*GkSoftgpuExtensionOf)(uint32_t version);
