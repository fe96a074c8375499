// Entry points: each thread's stack of contexts.
#include "context.h"
#include "platform.h"

using namespace front;

std::vector<uint64_t>& front::stack_with_room() {
    constexpr size_t kDeepest = 1 << 16;
    auto& stack = platform::context_stack();
    require(stack.size() < kDeepest, CUDA_ERROR_OUT_OF_MEMORY);
    return stack;
}

void front::push(CUcontext handle) {
    stack_with_room().push_back(reinterpret_cast<uint64_t>(handle));
}

CUcontext front::top() {
    const auto& stack = platform::context_stack();
    return stack.empty() ? nullptr : reinterpret_cast<CUcontext>(stack.back());
}

extern "C" {

CUresult cuCtxPushCurrent_v2(CUcontext ctx) {
    return call([&] {
        require_enterable(ctx);
        push(ctx);
    });
}
CUresult cuCtxPushCurrent(CUcontext ctx) {
    return cuCtxPushCurrent_v2(ctx);
}

CUresult cuCtxPopCurrent_v2(CUcontext* pctx) {
    return call([&] {
        auto& stack = platform::context_stack();
        require(!stack.empty(), CUDA_ERROR_INVALID_CONTEXT);
        if (pctx) *pctx = top();
        stack.pop_back();
    });
}
CUresult cuCtxPopCurrent(CUcontext* pctx) {
    return cuCtxPopCurrent_v2(pctx);
}

CUresult cuCtxSetCurrent(CUcontext ctx) {
    return call([&] {
        if (ctx) require_enterable(ctx);
        auto& stack = platform::context_stack();
        if (!stack.empty()) stack.pop_back();
        if (ctx) push(ctx);
    });
}

CUresult cuCtxGetCurrent(CUcontext* pctx) {
    return call([&] {
        require(pctx != nullptr);
        *pctx = top();
    });
}
}
