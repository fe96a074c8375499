// Entry points: contexts, each thread's stack of them, and what is set for one of them.
#include <mutex>

#include "call.h"
#include "calls_wire.h"
#include "capture.h"
#include "context.h"
#include "library.h"
#include "session.h"
#include "stream_event.h"
#include "thread.h"

using namespace client;

namespace {

constexpr unsigned kContextFlags = CU_CTX_SCHED_MASK | CU_CTX_MAP_HOST | CU_CTX_LMEM_RESIZE_TO_MAX |
                                   CU_CTX_COREDUMP_ENABLE | CU_CTX_USER_COREDUMP_ENABLE | CU_CTX_SYNC_MEMOPS;

bool valid_flags(unsigned flags) {
    const unsigned schedule = flags & CU_CTX_SCHED_MASK;
    return (flags & ~kContextFlags) == 0 && (schedule & (schedule - 1)) == 0;
}

// A program that pushes and never pops is told so, before it has used up the host's memory.
CUresult push(uint64_t handle) {
    constexpr size_t kDeepest = 1 << 16;
    auto& stack = Thread::current().contexts;
    if (stack.size() >= kDeepest) return CUDA_ERROR_OUT_OF_MEMORY;
    stack.push_back(handle);
    return CUDA_SUCCESS;
}

CUresult create(CUcontext* out, unsigned flags, CUdevice device, unsigned api_version) {
    if (CUresult error = Session::get().go_on()) return error;
    if (CUresult error = Session::get().error()) return error;
    if (!out || !valid_flags(flags)) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult error = check_device(device)) return error;
    if (Thread::current().in_callback) return CUDA_ERROR_NOT_PERMITTED;
    const uint64_t handle = add_context(static_cast<uint8_t>(device), flags, api_version);
    if (!handle) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult pushed = push(handle);
    if (pushed != CUDA_SUCCESS) {
        end_life(*context_of(reinterpret_cast<CUcontext>(handle)));
        return pushed;
    }
    *out = reinterpret_cast<CUcontext>(handle);
    return CUDA_SUCCESS;
}

CUresult destroy(Context& context) {
    if (context.primary) return CUDA_ERROR_INVALID_CONTEXT;
    if (Thread::current().in_callback) return CUDA_ERROR_NOT_PERMITTED;
    const uint64_t handle = context.handle;
    const CUresult result = end_life(context);
    auto& stack = Thread::current().contexts;
    if (!stack.empty() && stack.back() == handle) stack.pop_back();
    return result;
}

// Retaining and the last release of a device's primary context exclude each other.
struct Primaries {
    std::mutex mutex;
    unsigned retained[wire::kMaxDevices] = {};
    bool again[wire::kMaxDevices] = {};  // it has lived before
    bool carried[wire::kMaxDevices] =
        {};  // it was used in an earlier life of the process, and not yet in this
};

Primaries& primaries() {
    static auto* all = new Primaries;
    return *all;
}

// For calls that give something up: no life begins for it.
CUresult check_device_if_alive(CUdevice device) {
    const bool alive = Session::get().error() != CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (alive) return check_device(device);
    const bool possible = device >= 0 && device < static_cast<CUdevice>(wire::kMaxDevices);
    return possible ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

Context& primary(CUdevice device) {
    return primary_context(static_cast<uint8_t>(device));
}

// With the mutex of primaries() held. On the server libraries are one for all contexts: while another one
// lives, their variables keep their values.
CUresult begin_primary(CUdevice device) {
    static bool told;
    bool& again = primaries().again[device];
    if (again && any_context_lives()) {
        gk_unsupported_once("giving a library's variables their first values while other contexts live",
                            &told);
    } else if (again) {
        if (CUresult error = reset_libraries(static_cast<uint8_t>(device))) return error;
    }
    again = true;
    primaries().carried[device] = false;
    begin_life(primary(device));
    return CUDA_SUCCESS;
}

// The context that is to become current. A primary one that was used in an earlier life begins now.
CUresult find_or_begin(CUcontext handle, Context*& context) {
    context = context_of(handle);
    uint8_t device = 0;
    if (context || !is_primary(handle, device)) return context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
    {
        const std::lock_guard lock(primaries().mutex);
        if (!primaries().carried[device]) return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (CUresult error = check_device(device))
        return error == CUDA_ERROR_INVALID_DEVICE ? CUDA_ERROR_INVALID_CONTEXT : error;
    const std::lock_guard lock(primaries().mutex);
    if (primaries().carried[device]) {
        if (CUresult error = begin_primary(device)) return error;
    }
    context = context_of(handle);
    return context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult context_event(CUcontext handle, CUevent event, bool wait) {
    Context* context = nullptr;
    if (CUresult error = find_context(handle, context)) return error;
    // Posted, so it must be refused here what the server's driver lacks: CUDA has these two since 12.5.
    static bool told;
    if (Session::get().driver_version() < 12050) {
        return gk_unsupported_once(
            "an event of a whole context, on a GPU server whose driver is older than CUDA 12.5,", &told);
    }
    Call call;
    if (CUresult error = call.begin_on(context->device)) return error;
    wire::ContextEvent message{0, wait, 0};
    if (!call.event(event, message.event)) return CUDA_ERROR_INVALID_HANDLE;
    Event* known = events().find(message.event);
    if (!wait) {
        if (!known || known->context != context->id) return CUDA_ERROR_INVALID_HANDLE;
        __atomic_fetch_add(&known->recorded, 1, __ATOMIC_SEQ_CST);
    }
    return call.post(wire::kOpContextEvent, 0, &message, sizeof message);
}

}  // namespace

void client::forget_primaries() {
    Primaries& all = primaries();
    const std::lock_guard lock(all.mutex);
    for (uint32_t i = 0; i < wire::kMaxDevices; ++i) {
        all.carried[i] = all.carried[i] || all.again[i];
        all.again[i] = false;
    }
}

extern "C" {

CUresult cuInit(unsigned int Flags) {
    if (Flags != 0) return CUDA_ERROR_INVALID_VALUE;
    return Session::get().open();
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* pctx, CUdevice dev) {
    if (CUresult error = check_device(dev)) return error;
    if (!pctx) return CUDA_ERROR_INVALID_VALUE;
    const std::lock_guard lock(primaries().mutex);
    if (!__atomic_load_n(&primary(dev).id, __ATOMIC_ACQUIRE)) {
        if (CUresult error = begin_primary(dev)) return error;
    }
    ++primaries().retained[dev];
    *pctx = handle_of(&primary(dev));
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev) {
    if (CUresult error = check_device_if_alive(dev)) return error;
    if (Thread::current().in_callback) return CUDA_ERROR_NOT_PERMITTED;
    const std::lock_guard lock(primaries().mutex);
    unsigned& retained = primaries().retained[dev];
    if (retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (--retained > 0) return CUDA_SUCCESS;
    const CUresult result = end_life(primary(dev));
    return result == CUDA_ERROR_CONTEXT_IS_DESTROYED ? CUDA_SUCCESS : result;  // it was reset before
}
CUresult cuDevicePrimaryCtxRelease(CUdevice dev) {
    return cuDevicePrimaryCtxRelease_v2(dev);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev) {
    if (CUresult error = check_device_if_alive(dev)) return error;
    if (Thread::current().in_callback) return CUDA_ERROR_NOT_PERMITTED;
    const std::lock_guard lock(primaries().mutex);
    const CUresult result = end_life(primary(dev));
    return result == CUDA_ERROR_CONTEXT_IS_DESTROYED ? CUDA_SUCCESS : result;
}
CUresult cuDevicePrimaryCtxReset(CUdevice dev) {
    return cuDevicePrimaryCtxReset_v2(dev);
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags) {
    if (CUresult error = check_device(dev)) return error;
    if (!valid_flags(flags)) return CUDA_ERROR_INVALID_VALUE;
    __atomic_store_n(&primary(dev).flags, flags, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags) {
    return cuDevicePrimaryCtxSetFlags_v2(dev, flags);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int* flags, int* active) {
    if (CUresult error = check_device(dev)) return error;
    if (!flags || !active) return CUDA_ERROR_INVALID_VALUE;
    *flags = __atomic_load_n(&primary(dev).flags, __ATOMIC_RELAXED);
    *active = __atomic_load_n(&primary(dev).id, __ATOMIC_ACQUIRE) != 0;
    return CUDA_SUCCESS;
}

CUresult cuCtxCreate(CUcontext* pctx, unsigned int flags, CUdevice dev) {
    return create(pctx, flags, dev, 3010);
}
CUresult cuCtxCreate_v2(CUcontext* pctx, unsigned int flags, CUdevice dev) {
    return create(pctx, flags, dev, 3020);
}
CUresult cuCtxCreate_v3(CUcontext* pctx, CUexecAffinityParam* paramsArray, int numParams, unsigned int flags,
                        CUdevice dev) {
    if (numParams != 0) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    return create(pctx, flags, dev, 3020);
}
CUresult cuCtxCreate_v4(CUcontext* pctx, CUctxCreateParams* ctxCreateParams, unsigned int flags,
                        CUdevice dev) {
    if (ctxCreateParams && ctxCreateParams->numExecAffinityParams != 0) {
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    }
    if (ctxCreateParams && ctxCreateParams->cigParams) return CUDA_ERROR_NOT_SUPPORTED;
    return create(pctx, flags, dev, 3020);
}

CUresult cuCtxDestroy_v2(CUcontext ctx) {
    if (!Session::get().initialised()) return CUDA_ERROR_NOT_INITIALIZED;
    Context* context = context_of(ctx);
    return context ? destroy(*context) : CUDA_ERROR_INVALID_CONTEXT;
}
CUresult cuCtxDestroy(CUcontext ctx) {
    return cuCtxDestroy_v2(ctx);
}

// Only its own calls use this count; cuCtxDestroy destroys whatever it is.
CUresult cuCtxAttach(CUcontext* pctx, unsigned int flags) {
    Context* context = nullptr;
    if (CUresult error = find_context(nullptr, context)) return error;
    if (!pctx || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (context->primary) return CUDA_ERROR_INVALID_CONTEXT;
    __atomic_add_fetch(&context->attached, 1, __ATOMIC_RELAXED);
    *pctx = handle_of(context);
    return CUDA_SUCCESS;
}

CUresult cuCtxDetach(CUcontext ctx) {
    Context* context = nullptr;
    if (CUresult error = find_context(nullptr, context)) return error;
    if (context_of(ctx) != context || context->primary) return CUDA_ERROR_INVALID_CONTEXT;
    return __atomic_sub_fetch(&context->attached, 1, __ATOMIC_RELAXED) == 0 ? destroy(*context)
                                                                            : CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext ctx) {
    if (!Session::get().initialised()) return CUDA_ERROR_NOT_INITIALIZED;
    Context* context = nullptr;
    if (CUresult error = find_or_begin(ctx, context)) return error;
    return push(context->handle);
}
CUresult cuCtxPushCurrent(CUcontext ctx) {
    return cuCtxPushCurrent_v2(ctx);
}

CUresult cuCtxPopCurrent_v2(CUcontext* pctx) {
    if (!Session::get().initialised()) return CUDA_ERROR_NOT_INITIALIZED;
    auto& stack = Thread::current().contexts;
    if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    if (pctx) *pctx = reinterpret_cast<CUcontext>(stack.back());
    stack.pop_back();
    return CUDA_SUCCESS;
}
CUresult cuCtxPopCurrent(CUcontext* pctx) {
    return cuCtxPopCurrent_v2(pctx);
}

CUresult cuCtxSetCurrent(CUcontext ctx) {
    if (!Session::get().initialised()) return CUDA_ERROR_NOT_INITIALIZED;
    Context* context = nullptr;
    if (ctx) {
        if (CUresult error = find_or_begin(ctx, context)) return error;
    }
    auto& stack = Thread::current().contexts;
    if (!stack.empty()) stack.pop_back();
    return context ? push(context->handle) : CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* pctx) {
    if (!Session::get().initialised()) return CUDA_ERROR_NOT_INITIALIZED;
    if (!pctx) return CUDA_ERROR_INVALID_VALUE;
    const auto& stack = Thread::current().contexts;
    *pctx = stack.empty() ? nullptr : reinterpret_cast<CUcontext>(stack.back());
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext ctx) {
    if (!Session::get().initialised()) return CUDA_ERROR_NOT_INITIALIZED;
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    if (CUresult error = find_context(ctx, context)) return error;
    *device = context->device;
    return CUDA_SUCCESS;
}
CUresult cuCtxGetDevice(CUdevice* device) {
    return cuCtxGetDevice_v2(device, nullptr);
}

CUresult cuCtxGetFlags(unsigned int* flags) {
    Context* context = nullptr;
    if (CUresult error = find_context(nullptr, context)) return error;
    if (!flags) return CUDA_ERROR_INVALID_VALUE;
    *flags = __atomic_load_n(&context->flags, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned int flags) {
    Context* context = nullptr;
    if (CUresult error = find_context(nullptr, context)) return error;
    if (!valid_flags(flags)) return CUDA_ERROR_INVALID_VALUE;
    __atomic_store_n(&context->flags, flags, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext ctx, unsigned long long* ctxId) {
    Context* context = nullptr;
    if (CUresult error = find_context(ctx, context)) return error;
    if (!ctxId) return CUDA_ERROR_INVALID_VALUE;
    *ctxId = __atomic_load_n(&context->id, __ATOMIC_ACQUIRE);
    return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int* version) {
    Context* context = nullptr;
    if (CUresult error = find_context(ctx, context)) return error;
    if (!version) return CUDA_ERROR_INVALID_VALUE;
    *version = context->api_version;
    return CUDA_SUCCESS;
}

// The other contexts of the device are waited for too: on the server they are one.
CUresult cuCtxSynchronize(void) {
    Call call;
    if (CUresult error = call.begin()) return error;
    if (CUresult error = refuse_captured_context(current_context_id())) return error;
    return call.synchronize(wire::kOp_cuCtxSynchronize, 0, nullptr, 0, nullptr, 0);
}

CUresult cuCtxSynchronize_v2(CUcontext ctx) {
    Context* context = nullptr;
    if (CUresult error = find_context(ctx, context)) return error;
    const AsCurrent current(*context);
    return cuCtxSynchronize();
}

CUresult cuCtxGetCacheConfig(CUfunc_cache* pconfig) {
    Context* context = nullptr;
    if (CUresult error = find_context(nullptr, context)) return error;
    if (!pconfig) return CUDA_ERROR_INVALID_VALUE;
    *pconfig = static_cast<CUfunc_cache>(__atomic_load_n(&context->cache_config, __ATOMIC_RELAXED));
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
    Call call;
    if (CUresult error = call.begin()) return error;
    if (config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    __atomic_store_n(&current_context()->cache_config, static_cast<int>(config), __ATOMIC_RELAXED);
    const wire::cuCtxSetCacheConfig_message message{static_cast<uint32_t>(config)};
    return call.post(wire::kOp_cuCtxSetCacheConfig, 0, &message, sizeof message);
}

CUresult cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent) {
    return context_event(hCtx, hEvent, false);
}

CUresult cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent) {
    return context_event(hCtx, hEvent, true);
}

// A hint about banks.
CUresult cuCtxGetSharedMemConfig(CUsharedconfig* pConfig) {
    Context* context = nullptr;
    if (CUresult error = find_context(nullptr, context)) return error;
    if (!pConfig) return CUDA_ERROR_INVALID_VALUE;
    *pConfig = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config) {
    Context* context = nullptr;
    if (CUresult error = find_context(nullptr, context)) return error;
    const bool known = config >= CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE &&
                       config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE;
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// The cache is the whole GPU's, whose other slices are not to be disturbed.
CUresult cuCtxResetPersistingL2Cache(void) {
    Context* context = nullptr;
    return find_context(nullptr, context);
}

CUresult cuCtxGetExecAffinity(CUexecAffinityParam* pExecAffinity, CUexecAffinityType type) {
    Context* context = nullptr;
    if (CUresult error = find_context(nullptr, context)) return error;
    const bool known = pExecAffinity && type == CU_EXEC_AFFINITY_TYPE_SM_COUNT;
    return known ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY : CUDA_ERROR_INVALID_VALUE;
}

// A slice reaches no other slice's memory; copies between them work (cuMemcpyPeer).
CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags) {
    Context* context = nullptr;
    if (CUresult error = find_context(nullptr, context)) return error;
    const Context* peer = context_of(peerContext);
    if (!peer) return CUDA_ERROR_INVALID_CONTEXT;
    if (Flags != 0) return CUDA_ERROR_INVALID_VALUE;
    return peer->device == context->device ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
}

CUresult cuCtxDisablePeerAccess(CUcontext peerContext) {
    Context* context = nullptr;
    if (CUresult error = find_context(nullptr, context)) return error;
    return context_of(peerContext) ? CUDA_ERROR_PEER_ACCESS_NOT_ENABLED : CUDA_ERROR_INVALID_CONTEXT;
}

}
