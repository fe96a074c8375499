#include "context.h"

#include "call.h"
#include "calls_wire.h"
#include "graph.h"
#include "memory_map.h"
#include "session.h"
#include "shared_memory.h"
#include "stream_event.h"
#include "thread.h"

namespace client {
namespace {

// Made once, before any thread can see one of them.
Context* contexts() {
    static Context* const all = [] {
        auto* made = new Context[wire::kMaxDevices];
        for (uint32_t i = 0; i < wire::kMaxDevices; ++i) made[i].device = static_cast<uint8_t>(i);
        return made;
    }();
    return all;
}

CUresult initialised() {
    return Session::get().initialised() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

// Ends the device's context: what the session has there is freed.
CUresult reset(Context& context) {
    Call call;
    // A session that is lost, or whose context has died, has nothing to give back.
    if (Session::get().error()) return CUDA_SUCCESS;
    auto& stack = Thread::current().contexts;
    stack.push_back(&context);
    CUresult result = call.begin();
    stack.pop_back();
    if (result == CUDA_SUCCESS) result = call.post(wire::kOpResetDevice, 0, nullptr, 0);
    forget_streams_and_events(context.device);
    forget_graphs(context.device);
    SharedMemory::get().forget(context.device);
    MemoryMap::get().forget_device(context.device);
    return result;
}

CUresult release(CUdevice device) {
    if (CUresult error = check_device(device)) return error;
    Context& context = primary_context(static_cast<uint8_t>(device));
    int held = context.retained.load();
    do {
        if (held == 0) return CUDA_ERROR_INVALID_CONTEXT;
    } while (!context.retained.compare_exchange_weak(held, held - 1));
    return held == 1 ? reset(context) : CUDA_SUCCESS;
}

}  // namespace

Context& primary_context(uint8_t device) {
    return contexts()[device];
}

Context* context_of(CUcontext handle) {
    auto* context = reinterpret_cast<Context*>(handle);
    for (uint32_t i = 0; i < wire::kMaxDevices; ++i) {
        if (contexts() + i == context) return context;
    }
    return nullptr;
}

Context* current_context() {
    const auto& stack = Thread::current().contexts;
    return stack.empty() ? nullptr : stack.back();
}

CUresult check_device(CUdevice device) {
    if (CUresult error = initialised()) return error;
    const auto count = static_cast<CUdevice>(Session::get().devices().size());
    return device >= 0 && device < count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

}  // namespace client

using namespace client;

extern "C" {

CUresult cuInit(unsigned int Flags) {
    if (Flags != 0) return CUDA_ERROR_INVALID_VALUE;
    return Session::get().open();
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* pctx, CUdevice dev) {
    if (CUresult error = check_device(dev)) return error;
    if (!pctx) return CUDA_ERROR_INVALID_VALUE;
    Context& context = primary_context(static_cast<uint8_t>(dev));
    context.retained.fetch_add(1);
    *pctx = handle_of(&context);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev) {
    return release(dev);
}
CUresult cuDevicePrimaryCtxRelease(CUdevice dev) {
    return release(dev);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev) {
    if (CUresult error = check_device(dev)) return error;
    return reset(primary_context(static_cast<uint8_t>(dev)));
}
CUresult cuDevicePrimaryCtxReset(CUdevice dev) {
    return cuDevicePrimaryCtxReset_v2(dev);
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags) {
    if (CUresult error = check_device(dev)) return error;
    primary_context(static_cast<uint8_t>(dev)).flags = flags;
    return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags) {
    return cuDevicePrimaryCtxSetFlags_v2(dev, flags);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int* flags, int* active) {
    if (CUresult error = check_device(dev)) return error;
    if (!flags || !active) return CUDA_ERROR_INVALID_VALUE;
    Context& context = primary_context(static_cast<uint8_t>(dev));
    *flags = context.flags;
    *active = context.retained > 0;
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext ctx) {
    if (CUresult error = initialised()) return error;
    Context* context = context_of(ctx);
    if (!context) return ctx ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_VALUE;
    Thread::current().contexts.push_back(context);
    return CUDA_SUCCESS;
}
CUresult cuCtxPushCurrent(CUcontext ctx) {
    return cuCtxPushCurrent_v2(ctx);
}

CUresult cuCtxPopCurrent_v2(CUcontext* pctx) {
    if (CUresult error = initialised()) return error;
    auto& stack = Thread::current().contexts;
    if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    if (pctx) *pctx = handle_of(stack.back());
    stack.pop_back();
    return CUDA_SUCCESS;
}
CUresult cuCtxPopCurrent(CUcontext* pctx) {
    return cuCtxPopCurrent_v2(pctx);
}

CUresult cuCtxSetCurrent(CUcontext ctx) {
    if (CUresult error = initialised()) return error;
    auto& stack = Thread::current().contexts;
    Context* context = context_of(ctx);
    if (ctx && !context) return CUDA_ERROR_INVALID_CONTEXT;
    if (!stack.empty()) stack.pop_back();
    if (context) stack.push_back(context);
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* pctx) {
    if (CUresult error = initialised()) return error;
    if (!pctx) return CUDA_ERROR_INVALID_VALUE;
    *pctx = handle_of(current_context());
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
    if (CUresult error = initialised()) return error;
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    const Context* context = current_context();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    *device = context->device;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext ctx) {
    if (!ctx) return cuCtxGetDevice(device);
    if (CUresult error = initialised()) return error;
    const Context* context = context_of(ctx);
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    *device = context->device;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned int* flags) {
    const Context* context = current_context();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    if (!flags) return CUDA_ERROR_INVALID_VALUE;
    *flags = context->flags;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned int flags) {
    Context* context = current_context();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    context->flags = flags;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext ctx, unsigned long long* ctxId) {
    const Context* context = ctx ? context_of(ctx) : current_context();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    if (!ctxId) return CUDA_ERROR_INVALID_VALUE;
    *ctxId = context->device + 1u;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int* version) {
    if (ctx ? !context_of(ctx) : !current_context()) return CUDA_ERROR_INVALID_CONTEXT;
    if (!version) return CUDA_ERROR_INVALID_VALUE;
    *version = 3020;
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void) {
    Call call;
    if (CUresult error = call.begin()) return error;
    return call.synchronize(wire::kOp_cuCtxSynchronize, 0, nullptr, 0, nullptr, 0);
}

CUresult cuCtxSynchronize_v2(CUcontext ctx) {
    if (!ctx) return cuCtxSynchronize();
    Context* context = context_of(ctx);
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    auto& stack = Thread::current().contexts;
    stack.push_back(context);
    const CUresult result = cuCtxSynchronize();
    stack.pop_back();
    return result;
}

CUresult cuCtxGetCacheConfig(CUfunc_cache* pconfig) {
    const Context* context = current_context();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    if (!pconfig) return CUDA_ERROR_INVALID_VALUE;
    *pconfig = static_cast<CUfunc_cache>(context->cache_config.load());
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
    Call call;
    if (CUresult error = call.begin()) return error;
    current_context()->cache_config = config;
    const wire::cuCtxSetCacheConfig_message message{static_cast<uint32_t>(config)};
    return call.post(wire::kOp_cuCtxSetCacheConfig, 0, &message, sizeof message);
}
}
