// A CUDA driver whose kernels do nothing, and which writes down what it was asked: for tests of the
// forwarding runtime, and for measuring what the runtime itself costs.
//
// An image is text, one kernel a line: `entry NAME BYTES...`, the sizes of its parameters. Kernels with these
// names do something:
//   store      (pointer, 32-bit value): writes the value there
//   fault      the next synchronisation fails with CUDA_ERROR_ILLEGAL_ADDRESS
//   print      the next synchronisation writes "a kernel printed this" to standard output for each launch
//   gate       synchronisations wait until the file RECORDING_DRIVER_GATE exists
//   full       from now on there is no room for another event
// RECORDING_DRIVER_LOG names the file to write to; without it nothing is written.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "cuda_abi.h"
#include "launch_buffer.h"

namespace {

constexpr size_t kTotal = 1ull << 30;

struct Kernel {
    std::string name;
    std::vector<size_t> offsets, sizes;
};

struct Library {
    std::vector<std::unique_ptr<Kernel>> kernels;
};

struct State {
    std::mutex mutex;
    std::map<CUdeviceptr, size_t> memory;
    size_t used = 0;
    std::atomic<bool> faulted{false}, gated{false}, full{false};
    std::atomic<int> printing{0};
    std::atomic<uint64_t> next{0x1000};
    CUdeviceptr next_address = 0x3000'0000'0000;
    std::string link;
    char* link_log = nullptr;  // where a link's errors go
};

State& state() {
    static auto* only = new State;
    return *only;
}

// Buffered, because a test's thousand lines should not cost a thousand system calls; written out when
// somebody synchronises.
struct Log {
    int fd = -1;
    std::mutex mutex;
    std::string lines;
    Log() {
        if (const char* path = std::getenv("RECORDING_DRIVER_LOG")) {
            fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        }
    }
    void write_out() {
        const std::lock_guard lock(mutex);
        if (fd >= 0 && !lines.empty()) {
            [[maybe_unused]] const ssize_t written = ::write(fd, lines.data(), lines.size());
        }
        lines.clear();
    }
};

Log& log() {
    static auto* only = new Log;
    return *only;
}

template <typename... Parts>
void record(const Parts&... parts) {
    if (log().fd < 0) return;
    std::ostringstream line;
    ((line << parts << ' '), ...);
    const std::lock_guard lock(log().mutex);
    log().lines += line.str() + "\n";
}

CUresult synchronise(const char* call) {
    while (state().gated.load()) {
        const char* gate = std::getenv("RECORDING_DRIVER_GATE");
        if (!gate || access(gate, F_OK) == 0) state().gated = false;
        usleep(1000);
    }
    for (int left = state().printing.exchange(0); left > 0; --left) std::puts("a kernel printed this");
    record(call);
    log().write_out();
    return state().faulted.load() ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
}

template <typename Handle>
Handle new_handle() {
    return reinterpret_cast<Handle>(state().next.fetch_add(16));
}

CUresult allocate(CUdeviceptr* address, size_t bytes) {
    State& s = state();
    const std::lock_guard lock(s.mutex);
    if (bytes > kTotal - s.used) return CUDA_ERROR_OUT_OF_MEMORY;
    const size_t whole = (bytes + 4095) / 4096 * 4096;
    void* wanted = reinterpret_cast<void*>(s.next_address);
    void* got =
        mmap(wanted, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (got == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    s.next_address += whole + 4096;
    *address = reinterpret_cast<CUdeviceptr>(got);
    s.memory[*address] = bytes;
    s.used += bytes;
    return CUDA_SUCCESS;
}

CUresult release(CUdeviceptr address) {
    State& s = state();
    const std::lock_guard lock(s.mutex);
    auto found = s.memory.find(address);
    if (found == s.memory.end()) return CUDA_ERROR_INVALID_VALUE;
    s.used -= found->second;
    munmap(reinterpret_cast<void*>(address), (found->second + 4095) / 4096 * 4096);
    s.memory.erase(found);
    return CUDA_SUCCESS;
}

void* host(CUdeviceptr address) {
    return reinterpret_cast<void*>(address);
}

std::string hex(const void* bytes, size_t count) {
    std::string text;
    for (size_t i = 0; i < count; ++i) {
        char digits[3];
        std::snprintf(digits, sizeof digits, "%02x", static_cast<const unsigned char*>(bytes)[i]);
        text += digits;
    }
    return text;
}

// The worker hands over the parameters in one piece.
CUresult launch(CUfunction function, unsigned grid, unsigned block, CUstream stream, void** extra) {
    const auto* kernel = reinterpret_cast<const Kernel*>(function);
    cuda::LaunchBuffer buffer;
    if (extra && !cuda::read_launch_buffer(extra, buffer)) return CUDA_ERROR_INVALID_VALUE;
    const auto param = [&](size_t i) { return static_cast<const char*>(buffer.data) + kernel->offsets[i]; };
    if (state().faulted) return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (log().fd >= 0) {
        std::string arguments;
        for (size_t i = 0; i < kernel->sizes.size(); ++i) arguments += hex(param(i), kernel->sizes[i]) + " ";
        record("launch", kernel->name, grid, block, reinterpret_cast<uint64_t>(stream), arguments);
    }
    if (kernel->name == "fault") state().faulted = true;
    if (kernel->name == "gate") state().gated = true;
    if (kernel->name == "full") state().full = true;
    if (kernel->name == "print") ++state().printing;
    if (kernel->name == "store" && kernel->sizes == std::vector<size_t>{8, 4}) {
        CUdeviceptr address;
        std::memcpy(&address, param(0), sizeof address);
        const std::lock_guard lock(state().mutex);
        auto after = state().memory.upper_bound(address);
        if (after == state().memory.begin()) return CUDA_ERROR_ILLEGAL_ADDRESS;
        const auto& [base, bytes] = *std::prev(after);
        if (address - base > bytes || bytes - (address - base) < 4) return CUDA_ERROR_ILLEGAL_ADDRESS;
        std::memcpy(host(address), param(1), 4);
    }
    return CUDA_SUCCESS;
}

Library* parse(const char* image) {
    auto* library = new Library;
    std::istringstream lines(image);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string entry;
        auto kernel = std::make_unique<Kernel>();
        if (!(words >> entry >> kernel->name) || entry != "entry") continue;
        size_t at = 0;
        for (size_t bytes; words >> bytes && bytes > 0;) {
            at = (at + bytes - 1) / bytes * bytes;
            kernel->offsets.push_back(at);
            kernel->sizes.push_back(bytes);
            at += bytes;
        }
        library->kernels.push_back(std::move(kernel));
    }
    return library;
}

}  // namespace

extern "C" {

void gk_tell_user(const char* text) {
    record("told", text);
}

CUresult cuInit(unsigned int) {
    return CUDA_SUCCESS;
}
CUresult cuDriverGetVersion(int* version) {
    return *version = 13000, CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* count) {
    return *count = 1, CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int ordinal) {
    return *device = ordinal, CUDA_SUCCESS;
}
CUresult cuDeviceGetName(char* name, int len, CUdevice) {
    std::snprintf(name, static_cast<size_t>(len), "Recording driver");
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice) {
    return std::memset(uuid, 7, sizeof *uuid), CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice) {
    return *bytes = kTotal, CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
    switch (attribute) {
        case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
            *value = 1024;
            break;
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
            *value = 64;
            break;
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
            *value = 0x7fffffff;
            break;
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
            *value = 65535;
            break;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
            *value = 49152;
            break;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
            *value = 65536;
            break;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
            *value = 65536;
            break;
        case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
            *value = 1024;
            break;
        case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
            *value = 65536;
            break;
        case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
            *value = 16384;  // what 512 threads need: so many a kernel of this driver may have
            break;
        case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
            *value = 2;
            break;
        case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
            *value = 32;
            break;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
            *value = 7;
            break;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
            *value = 5;
            break;
        case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
            *value = 1;
            break;
        default:
            *value = 0;
    }
    return attribute == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
    *context = new_handle<CUcontext>();
    return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext) {
    return CUDA_SUCCESS;
}
CUresult cuCtxSynchronize(void) {
    return synchronise("cuCtxSynchronize");
}
CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
    return record("limit", limit, value), CUDA_SUCCESS;
}
CUresult cuCtxGetLimit(size_t* value, CUlimit limit) {
    return *value = 100u + limit, CUDA_SUCCESS;
}
CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
    *least = 0;
    *greatest = -5;
    return CUDA_SUCCESS;
}

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
    *stream = new_handle<CUstream>();
    record("stream", reinterpret_cast<uint64_t>(*stream), flags, priority);
    return CUDA_SUCCESS;
}
CUresult cuStreamDestroy_v2(CUstream stream) {
    return record("end-stream", reinterpret_cast<uint64_t>(stream)), CUDA_SUCCESS;
}
CUresult cuStreamSynchronize(CUstream) {
    return synchronise("cuStreamSynchronize");
}
CUresult cuStreamQuery(CUstream) {
    return state().gated ? CUDA_ERROR_NOT_READY : synchronise("cuStreamQuery");
}
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
    record("wait", reinterpret_cast<uint64_t>(stream), reinterpret_cast<uint64_t>(event));
    return CUDA_SUCCESS;
}
CUresult cuEventCreate(CUevent* event, unsigned flags) {
    if (state().full) return CUDA_ERROR_OUT_OF_MEMORY;
    *event = new_handle<CUevent>();
    record("event", reinterpret_cast<uint64_t>(*event), flags);
    return CUDA_SUCCESS;
}
CUresult cuEventDestroy_v2(CUevent event) {
    return record("end-event", reinterpret_cast<uint64_t>(event)), CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent event, CUstream stream) {
    record("record", reinterpret_cast<uint64_t>(event), reinterpret_cast<uint64_t>(stream));
    return CUDA_SUCCESS;
}
CUresult cuEventQuery(CUevent) {
    return state().gated ? CUDA_ERROR_NOT_READY : synchronise("cuEventQuery");
}
CUresult cuEventSynchronize(CUevent) {
    return synchronise("cuEventSynchronize");
}
CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent, CUevent) {
    return *milliseconds = 1.5f, CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
    return allocate(address, bytes);
}
CUresult cuMemAllocFromPoolAsync(CUdeviceptr* address, size_t bytes, CUmemoryPool, CUstream) {
    return allocate(address, bytes);
}
CUresult cuMemAllocPitch_v2(CUdeviceptr* address, size_t* pitch, size_t width, size_t rows, unsigned) {
    *pitch = (width + 511) / 512 * 512;
    return allocate(address, *pitch * rows);
}
CUresult cuMemFree_v2(CUdeviceptr address) {
    return release(address);
}
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream) {
    return release(address);
}
CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
    const std::lock_guard lock(state().mutex);
    *free = kTotal - state().used;
    *total = kTotal;
    return CUDA_SUCCESS;
}
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
    std::memcpy(host(to), from, bytes);
    return record("copy-in", bytes), CUDA_SUCCESS;
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream) {
    return cuMemcpyHtoD_v2(to, from, bytes);
}
CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream) {
    if (state().faulted) return CUDA_ERROR_ILLEGAL_ADDRESS;
    std::memcpy(to, host(from), bytes);
    return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    std::memmove(host(to), host(from), bytes);
    return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream) {
    return cuMemcpyDtoD_v2(to, from, bytes);
}
CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
    std::memset(host(to), value, count);
    return CUDA_SUCCESS;
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream) {
    return cuMemsetD8_v2(to, value, count);
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream) {
    for (size_t i = 0; i < count; ++i) std::memcpy(host(to + i * sizeof value), &value, sizeof value);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice) {
    *pool = new_handle<CUmemoryPool>();
    return CUDA_SUCCESS;
}
CUresult cuMemPoolSetAttribute(CUmemoryPool, CUmemPool_attribute attribute, void* value) {
    return record("pool", attribute, *static_cast<uint64_t*>(value)), CUDA_SUCCESS;
}
CUresult cuMemPoolGetAttribute(CUmemoryPool, CUmemPool_attribute, void* value) {
    *static_cast<uint64_t*>(value) = 42;
    return CUDA_SUCCESS;
}

CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* options, void** values,
                           unsigned option_count, CUlibraryOption*, void**, unsigned) {
    const auto* text = static_cast<const char*>(code);
    record("load", std::strlen(text));
    if (!std::strstr(text, "entry")) {
        for (unsigned i = 0; i < option_count; ++i) {
            if (options[i] == CU_JIT_ERROR_LOG_BUFFER) std::strcpy(static_cast<char*>(values[i]), "no entry");
        }
        return CUDA_ERROR_INVALID_PTX;
    }
    *library = reinterpret_cast<CUlibrary>(parse(text));
    return CUDA_SUCCESS;
}
CUresult cuLibraryUnload(CUlibrary library) {
    delete reinterpret_cast<Library*>(library);
    return record("unload"), CUDA_SUCCESS;
}
CUresult cuLibraryGetKernelCount(unsigned* count, CUlibrary library) {
    *count = static_cast<unsigned>(reinterpret_cast<Library*>(library)->kernels.size());
    return CUDA_SUCCESS;
}
CUresult cuLibraryEnumerateKernels(CUkernel* kernels, unsigned count, CUlibrary library) {
    const auto& all = reinterpret_cast<Library*>(library)->kernels;
    for (unsigned i = 0; i < count && i < all.size(); ++i)
        kernels[i] = reinterpret_cast<CUkernel>(all[i].get());
    return CUDA_SUCCESS;
}
CUresult cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary, const char* name) {
    static CUdeviceptr only = 0;
    if (std::strcmp(name, "table") != 0) return CUDA_ERROR_NOT_FOUND;
    if (!only) allocate(&only, 256);
    *address = only;
    *bytes = 256;
    return CUDA_SUCCESS;
}
CUresult cuKernelGetName(const char** name, CUkernel kernel) {
    *name = reinterpret_cast<Kernel*>(kernel)->name.c_str();
    return CUDA_SUCCESS;
}
CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel, CUdevice) {
    switch (attribute) {
        case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
            *value = 512;
            break;
        case CU_FUNC_ATTRIBUTE_NUM_REGS:
            *value = 32;
            break;
        default:
            *value = 0;
    }
    return CUDA_SUCCESS;
}
CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel, CUdevice) {
    return record("attribute", attribute, value), CUDA_SUCCESS;
}
CUresult cuKernelGetParamInfo(CUkernel handle, size_t index, size_t* offset, size_t* bytes) {
    const auto* kernel = reinterpret_cast<Kernel*>(handle);
    if (index >= kernel->sizes.size()) return CUDA_ERROR_INVALID_VALUE;
    *offset = kernel->offsets[index];
    *bytes = kernel->sizes[index];
    return CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction function, unsigned grid, unsigned, unsigned, unsigned block, unsigned,
                        unsigned, unsigned, CUstream stream, void**, void** extra) {
    return launch(function, grid, block, stream, extra);
}
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void**, void** extra) {
    record("attributes", config->numAttrs, config->attrs[0].id, config->attrs[0].value.cooperative);
    return launch(function, config->gridDimX, config->blockDimX, config->hStream, extra);
}

// A link joins its inputs.
CUresult cuLinkCreate_v2(unsigned count, CUjit_option* options, void** values, CUlinkState* out) {
    state().link.clear();
    state().link_log = nullptr;
    for (unsigned i = 0; i < count; ++i) {
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER) state().link_log = static_cast<char*>(values[i]);
    }
    *out = new_handle<CUlinkState>();
    return CUDA_SUCCESS;
}
CUresult cuLinkAddData_v2(CUlinkState, CUjitInputType type, void* data, size_t bytes, const char*, unsigned,
                          CUjit_option*, void**) {
    if (type == CU_JIT_INPUT_PTX && !std::strstr(static_cast<const char*>(data), "entry")) {
        if (state().link_log) std::strcpy(state().link_log, "no entry");
        return CUDA_ERROR_INVALID_PTX;
    }
    state().link.append(static_cast<const char*>(data), bytes);
    return CUDA_SUCCESS;
}
CUresult cuLinkComplete(CUlinkState, void** image, size_t* bytes) {
    *image = state().link.data();
    *bytes = state().link.size();
    return CUDA_SUCCESS;
}
CUresult cuLinkDestroy(CUlinkState) {
    return CUDA_SUCCESS;
}
}
