// NCCL within one rank: a collective of one GPU with itself is a copy in the program's stream, or nothing. As
// NVIDIA's documentation of the API has it.
#include <cuda.h>
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>

#include <atomic>
#include <string>
#include <vector>

#include "handles.h"
#include "roles.h"
#include "tell.h"

#define NCCL_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

enum Result : int {
    kSuccess = 0,
    kUnhandledCudaError = 1,
    kSystemError = 2,
    kInternalError = 3,
    kInvalidArgument = 4,
    kInvalidUsage = 5,
};

constexpr int kVersion[] = {LIBRARY_VERSION};
constexpr size_t kElementBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};  // by ncclDataType_t
constexpr int kReductions = 5;                                           // by ncclRedOp_t, of one value: itself
constexpr int kNoColor = -1;
constexpr char kOneRank[] =
    "NCCL has one rank here: collectives between several GPUs or processes are not there on slices of a GPU. Use "
    "one process with one GPU (a world size of 1).";
constexpr char kInGroups[] =
    "ncclSend and ncclRecv of a rank to itself need each other within ncclGroupStart and ncclGroupEnd, in one "
    "stream and with as many bytes.";

struct UniqueId {
    char bytes[128];
};

struct Communicator {
    int device = 0;
};

libraries::Handles<Communicator>& communicators() {
    static auto* const all = new libraries::Handles<Communicator>;  // never destroyed: exit handlers may call
    return *all;
}

struct Driver {
    decltype(&::cuMemcpyAsync) copy;
    decltype(&::cuMemAlloc_v2) allocate;
    decltype(&::cuMemFree_v2) free;
    decltype(&::cuCtxGetDevice) device;
};

const Driver* driver() {
    static const Driver* opened = []() -> const Driver* {
        void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        if (!library) return nullptr;
        auto* made = new Driver;
        made->copy = reinterpret_cast<decltype(made->copy)>(dlsym(library, "cuMemcpyAsync"));
        made->allocate = reinterpret_cast<decltype(made->allocate)>(dlsym(library, "cuMemAlloc_v2"));
        made->free = reinterpret_cast<decltype(made->free)>(dlsym(library, "cuMemFree_v2"));
        made->device = reinterpret_cast<decltype(made->device)>(dlsym(library, "cuCtxGetDevice"));
        return made->copy && made->allocate && made->free && made->device ? made : nullptr;
    }();
    return opened;
}

thread_local const char* last_error = "";

Result refused(const char* why) {
    static std::atomic<const char*> told{nullptr};
    last_error = why;
    if (told.exchange(why) != why) libraries::tell_user(why);
    return kInvalidUsage;
}

Result copy(const void* from, void* to, size_t bytes, CUstream stream) {
    if (bytes == 0 || from == to) return kSuccess;
    if (!driver()) return kUnhandledCudaError;
    const CUresult result = driver()->copy(reinterpret_cast<CUdeviceptr>(to),
                                           reinterpret_cast<CUdeviceptr>(from), bytes, stream);
    return result == CUDA_SUCCESS ? kSuccess : kUnhandledCudaError;
}

// `count` elements of `type`, in bytes. False: there is no such type, or there are too many.
bool bytes_of(size_t count, int type, size_t* bytes) {
    if (type < 0 || static_cast<size_t>(type) >= sizeof kElementBytes / sizeof *kElementBytes) return false;
    return !__builtin_mul_overflow(count, kElementBytes[type], bytes);
}

Result collective(const void* from, void* to, size_t count, int type, const void* comm, CUstream stream) {
    size_t bytes = 0;
    if (!communicators().find(comm) || !bytes_of(count, type, &bytes)) return kInvalidArgument;
    return copy(from, to, bytes, stream);
}

Result rooted(int root, const void* from, void* to, size_t count, int type, const void* comm, CUstream stream) {
    return root == 0 ? collective(from, to, count, type, comm, stream) : kInvalidArgument;
}

Result reduction(int op, const void* from, void* to, size_t count, int type, const void* comm, CUstream stream) {
    if (op < 0 || op >= kReductions) return kInvalidArgument;
    return collective(from, to, count, type, comm, stream);
}

struct Transfer {
    const void* comm;
    void* buffer;
    size_t bytes;
    CUstream stream;
};

struct Group {
    int depth = 0;
    std::vector<Transfer> sends, receives;
};
thread_local Group group;

Result transfer(std::vector<Transfer>& list, void* buffer, size_t count, int type, int peer, const void* comm,
                CUstream stream) {
    size_t bytes = 0;
    if (!communicators().find(comm) || !bytes_of(count, type, &bytes) || peer != 0) return kInvalidArgument;
    if (group.depth == 0) return refused(kInGroups);
    list.push_back({comm, buffer, bytes, stream});
    return kSuccess;
}

// What one communicator sends to itself it receives in the same order.
Result exchange(std::vector<Transfer> sends, std::vector<Transfer> receives) {
    if (sends.size() != receives.size()) return refused(kInGroups);
    for (const Transfer& receive : receives) {
        auto send = sends.begin();
        while (send != sends.end() && send->comm != receive.comm) ++send;
        if (send == sends.end() || send->bytes != receive.bytes || send->stream != receive.stream) {
            return refused(kInGroups);
        }
        const Result result = copy(send->buffer, receive.buffer, send->bytes, send->stream);
        if (result != kSuccess) return result;
        sends.erase(send);
    }
    return kSuccess;
}

Result make(void** comm, int ranks, int rank) {
    if (!comm || ranks < 1 || rank < 0 || rank >= ranks) return kInvalidArgument;
    if (ranks > 1) return refused(kOneRank);
    *comm = communicators().add();
    if (!*comm) return kSystemError;
    CUdevice device = 0;
    if (driver() && driver()->device(&device) == CUDA_SUCCESS) communicators().find(*comm)->device = device;
    return kSuccess;
}

Result end(void* comm) {
    return communicators().remove(comm) ? kSuccess : kInvalidArgument;
}

Result write(const void* comm, int* place, int value) {
    if (!place || !communicators().find(comm)) return kInvalidArgument;
    *place = value;
    return kSuccess;
}

}  // namespace

NCCL_EXPORT Result ncclGetVersion(int* version) {
    if (!version) return kInvalidArgument;
    *version = kVersion[0] * 10000 + kVersion[1] * 100 + kVersion[2];
    return kSuccess;
}

NCCL_EXPORT Result ncclGetUniqueId(UniqueId* id) {
    if (!id) return kInvalidArgument;
    return getrandom(id, sizeof *id, 0) == sizeof *id ? kSuccess : kSystemError;
}

NCCL_EXPORT Result ncclCommInitRank(void** comm, int ranks, UniqueId, int rank) {
    return make(comm, ranks, rank);
}

NCCL_EXPORT Result ncclCommInitRankConfig(void** comm, int ranks, UniqueId, int rank, void*) {
    return make(comm, ranks, rank);
}

NCCL_EXPORT Result ncclCommInitRankScalable(void** comm, int ranks, int rank, int, UniqueId*, void*) {
    return make(comm, ranks, rank);
}

NCCL_EXPORT Result ncclCommInitAll(void** comm, int devices, const int* numbers) {
    const Result result = make(comm, devices, 0);
    if (result == kSuccess && numbers) communicators().find(*comm)->device = numbers[0];
    return result;
}

NCCL_EXPORT Result ncclCommSplit(const void* comm, int color, int, void** made, void*) {
    if (!made || color < kNoColor || !communicators().find(comm)) return kInvalidArgument;
    *made = nullptr;
    return color == kNoColor ? kSuccess : make(made, 1, 0);
}

NCCL_EXPORT Result ncclCommFinalize(const void* comm) {
    return communicators().find(comm) ? kSuccess : kInvalidArgument;
}

NCCL_EXPORT Result ncclCommDestroy(void* comm) {
    return end(comm);
}

NCCL_EXPORT Result ncclCommAbort(void* comm) {
    return end(comm);
}

NCCL_EXPORT Result ncclCommCount(const void* comm, int* count) {
    return write(comm, count, 1);
}

NCCL_EXPORT Result ncclCommUserRank(const void* comm, int* rank) {
    return write(comm, rank, 0);
}

NCCL_EXPORT Result ncclCommCuDevice(const void* comm, int* device) {
    const auto found = communicators().find(comm);
    return found ? write(comm, device, found->device) : kInvalidArgument;
}

NCCL_EXPORT Result ncclCommGetAsyncError(const void* comm, int* error) {
    return write(comm, error, kSuccess);
}

NCCL_EXPORT const char* ncclGetLastError(const void*) {
    return last_error;
}

NCCL_EXPORT const char* ncclGetErrorString(Result result) {
    switch (result) {
        case kSuccess:
            return "no error";
        case kUnhandledCudaError:
            return "unhandled cuda error";
        case kSystemError:
            return "unhandled system error";
        case kInternalError:
            return "internal error";
        case kInvalidArgument:
            return "invalid argument";
        case kInvalidUsage:
            return "invalid usage";
        default:
            return "unknown result code";
    }
}

// A buffer needs nothing to be used by a copy.
NCCL_EXPORT Result ncclCommRegister(const void* comm, void* buffer, size_t, void** handle) {
    if (!handle || !communicators().find(comm)) return kInvalidArgument;
    *handle = buffer;
    return kSuccess;
}

NCCL_EXPORT Result ncclCommDeregister(const void* comm, void*) {
    return communicators().find(comm) ? kSuccess : kInvalidArgument;
}

NCCL_EXPORT Result ncclMemAlloc(void** memory, size_t bytes) {
    if (!memory) return kInvalidArgument;
    CUdeviceptr address = 0;
    if (!driver() || driver()->allocate(&address, bytes) != CUDA_SUCCESS) return kUnhandledCudaError;
    *memory = reinterpret_cast<void*>(address);
    return kSuccess;
}

NCCL_EXPORT Result ncclMemFree(void* memory) {
    if (!driver() || driver()->free(reinterpret_cast<CUdeviceptr>(memory)) != CUDA_SUCCESS) {
        return kUnhandledCudaError;
    }
    return kSuccess;
}

NCCL_EXPORT Result ncclAllReduce(const void* from, void* to, size_t count, int type, int op, const void* comm,
                                 CUstream stream) {
    return reduction(op, from, to, count, type, comm, stream);
}

NCCL_EXPORT Result ncclReduce(const void* from, void* to, size_t count, int type, int op, int root,
                              const void* comm, CUstream stream) {
    return root == 0 ? reduction(op, from, to, count, type, comm, stream) : kInvalidArgument;
}

NCCL_EXPORT Result ncclReduceScatter(const void* from, void* to, size_t count, int type, int op,
                                     const void* comm, CUstream stream) {
    return reduction(op, from, to, count, type, comm, stream);
}

NCCL_EXPORT Result ncclAllGather(const void* from, void* to, size_t count, int type, const void* comm,
                                 CUstream stream) {
    return collective(from, to, count, type, comm, stream);
}

NCCL_EXPORT Result ncclAlltoAll(const void* from, void* to, size_t count, int type, const void* comm,
                                CUstream stream) {
    return collective(from, to, count, type, comm, stream);
}

NCCL_EXPORT Result ncclBroadcast(const void* from, void* to, size_t count, int type, int root, const void* comm,
                                 CUstream stream) {
    return rooted(root, from, to, count, type, comm, stream);
}

NCCL_EXPORT Result ncclBcast(void* buffer, size_t count, int type, int root, const void* comm, CUstream stream) {
    return rooted(root, buffer, buffer, count, type, comm, stream);
}

NCCL_EXPORT Result ncclGather(const void* from, void* to, size_t count, int type, int root, const void* comm,
                              CUstream stream) {
    return rooted(root, from, to, count, type, comm, stream);
}

NCCL_EXPORT Result ncclScatter(const void* from, void* to, size_t count, int type, int root, const void* comm,
                               CUstream stream) {
    return rooted(root, from, to, count, type, comm, stream);
}

NCCL_EXPORT Result ncclSend(void* buffer, size_t count, int type, int peer, const void* comm, CUstream stream) {
    return transfer(group.sends, buffer, count, type, peer, comm, stream);
}

NCCL_EXPORT Result ncclRecv(void* buffer, size_t count, int type, int peer, const void* comm, CUstream stream) {
    return transfer(group.receives, buffer, count, type, peer, comm, stream);
}

NCCL_EXPORT Result ncclGroupStart() {
    ++group.depth;
    return kSuccess;
}

NCCL_EXPORT Result ncclGroupEnd() {
    if (group.depth == 0) return kInvalidUsage;
    if (--group.depth > 0) return kSuccess;
    const Group ended = std::move(group);
    group = Group{};
    return exchange(ended.sends, ended.receives);
}
