#include "lower/device_runtime.h"

#include <algorithm>

namespace softgpu::lower {
namespace {

constexpr std::string_view kNames[] = {"cudaCGGetIntrinsicHandle", "cudaCGSynchronize", "cudaCGGetSize",
                                       "cudaCGGetRank"};

// Scope 1 is the grid, whose handle is its workspace. Blocks meet as cooperative groups' own code lets them:
// each adds 1 to the workspace's second word, the first block as much as turns the top bit over when all have
// come.
constexpr std::string_view kText = R"(.version 7.0
.target sm_70
.address_size 64
.weak .func (.param .b64 handle) cudaCGGetIntrinsicHandle(.param .b32 scope) {
    .reg .b32 %r<4>; .reg .b64 %rd<2>; .reg .pred %p;
    ld.param.b32 %r0, [scope];
    setp.eq.u32 %p, %r0, 1;
    mov.b32 %r1, %envreg2; mov.b32 %r2, %envreg1;
    mov.b64 %rd0, {%r1, %r2};
    selp.b64 %rd0, %rd0, 0, %p;
    st.param.b64 [handle], %rd0;
    ret;
}
.weak .func (.param .b32 error) cudaCGSynchronize(.param .b64 handle, .param .b32 flags) {
    .reg .b32 %r<12>; .reg .b64 %rd<2>; .reg .pred %p<4>;
    ld.param.b64 %rd0, [handle];
    setp.eq.s64 %p0, %rd0, 0;
    @%p0 bra NONE;
    barrier.sync 0;
    mov.u32 %r0, %tid.x; mov.u32 %r1, %tid.y; mov.u32 %r2, %tid.z;
    or.b32 %r0, %r0, %r1; or.b32 %r0, %r0, %r2;
    setp.ne.u32 %p1, %r0, 0;
    @%p1 bra MET;
    mov.u32 %r3, %nctaid.x; mov.u32 %r4, %nctaid.y; mov.u32 %r5, %nctaid.z;
    mul.lo.u32 %r3, %r3, %r4; mul.lo.u32 %r3, %r3, %r5;
    sub.u32 %r3, 0x80000001, %r3;
    mov.u32 %r6, %ctaid.x; mov.u32 %r7, %ctaid.y; mov.u32 %r8, %ctaid.z;
    or.b32 %r6, %r6, %r7; or.b32 %r6, %r6, %r8;
    setp.eq.u32 %p2, %r6, 0;
    selp.b32 %r3, %r3, 1, %p2;
    atom.add.release.gpu.u32 %r9, [%rd0+4], %r3;
WAIT:
    ld.acquire.gpu.u32 %r10, [%rd0+4];
    xor.b32 %r10, %r10, %r9;
    setp.gt.s32 %p3, %r10, -1;
    @%p3 bra WAIT;
MET:
    barrier.sync 0;
    st.param.b32 [error], 0;
    ret;
NONE:
    st.param.b32 [error], 1;
    ret;
}
.weak .func (.param .b32 error) cudaCGGetSize(.param .b64 threads, .param .b64 grids, .param .b64 handle) {
    .reg .b32 %r<8>; .reg .b64 %rd<2>; .reg .pred %p;
    mov.u32 %r0, %ntid.x; mov.u32 %r1, %ntid.y; mov.u32 %r2, %ntid.z;
    mov.u32 %r3, %nctaid.x; mov.u32 %r4, %nctaid.y; mov.u32 %r5, %nctaid.z;
    mul.lo.u32 %r0, %r0, %r1; mul.lo.u32 %r0, %r0, %r2; mul.lo.u32 %r0, %r0, %r3;
    mul.lo.u32 %r0, %r0, %r4; mul.lo.u32 %r0, %r0, %r5;
    ld.param.b64 %rd0, [threads];
    st.u32 [%rd0], %r0;
    ld.param.b64 %rd1, [grids];
    setp.eq.s64 %p, %rd1, 0;
    @!%p st.u32 [%rd1], 1;
    st.param.b32 [error], 0;
    ret;
}
.weak .func (.param .b32 error) cudaCGGetRank(.param .b64 thread, .param .b64 grid, .param .b64 handle) {
    .reg .b32 %r<12>; .reg .b64 %rd<2>; .reg .pred %p;
    mov.u32 %r0, %ntid.x; mov.u32 %r1, %ntid.y; mov.u32 %r2, %ntid.z;
    mov.u32 %r3, %nctaid.x; mov.u32 %r4, %nctaid.y;
    mov.u32 %r5, %ctaid.z; mov.u32 %r6, %ctaid.y; mad.lo.u32 %r5, %r5, %r4, %r6;
    mov.u32 %r6, %ctaid.x; mad.lo.u32 %r5, %r5, %r3, %r6;
    mov.u32 %r7, %tid.z; mad.lo.u32 %r5, %r5, %r2, %r7;
    mov.u32 %r7, %tid.y; mad.lo.u32 %r5, %r5, %r1, %r7;
    mov.u32 %r7, %tid.x; mad.lo.u32 %r5, %r5, %r0, %r7;
    ld.param.b64 %rd0, [thread];
    st.u32 [%rd0], %r5;
    ld.param.b64 %rd1, [grid];
    setp.eq.s64 %p, %rd1, 0;
    @!%p st.u32 [%rd1], 0;
    st.param.b32 [error], 0;
    ret;
}
)";

}  // namespace

bool is_cuda_device_runtime(const ptx::Module& module) {
    return std::any_of(module.functions.begin(), module.functions.end(), [](const ptx::Function& function) {
        return !function.has_body() && function.name.starts_with("cnp");
    });
}

bool needs_device_runtime(const std::vector<ptx::Module>& modules) {
    for (const ptx::Module& module : modules) {
        for (const ptx::Function& function : module.functions) {
            if (!function.has_body() &&
                std::find(std::begin(kNames), std::end(kNames), function.name) != std::end(kNames))
                return true;
        }
    }
    return false;
}

std::string_view device_runtime() {
    return kText;
}

bool is_device_launch(std::string_view function) {
    for (const std::string_view start :
         {"cudaLaunchDevice", "cudaGetParameterBuffer", "__cudaCDP2", "cudaDeviceSynchronize"}) {
        if (function.starts_with(start)) return true;
    }
    return false;
}

}  // namespace softgpu::lower
