#include "lower/device_runtime.h"

#include <algorithm>

namespace softgpu::lower {
namespace {

constexpr std::string_view kGroupNames[] = {"cudaCGGetIntrinsicHandle", "cudaCGSynchronize", "cudaCGGetSize",
                                            "cudaCGGetRank"};

// Scope 1 is the grid, whose handle is its workspace. Blocks meet as cooperative groups' own code lets them:
// each adds 1 to the workspace's second word, the first block as much as turns the top bit over when all have
// come.
constexpr std::string_view kGroups = R"(.version 7.0
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

// What kernels may hear of as an error, in CUDA's words.
struct ErrorText {
    int code;
    std::string_view name, text;
};
constexpr ErrorText kErrors[] = {
    {0, "cudaSuccess", "no error"},
    {1, "cudaErrorInvalidValue", "invalid argument"},
    {2, "cudaErrorMemoryAllocation", "out of memory"},
    {9, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {12, "cudaErrorInvalidPitchValue", "invalid pitch argument"},
    {21, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {65, "cudaErrorLaunchMaxDepthExceeded", "launch would exceed maximum depth of nested launches"},
    {69, "cudaErrorLaunchPendingCountExceeded",
     "launch failed because launch would exceed cudaLimitDevRuntimePendingLaunchCount"},
    {98, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {101, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {215, "cudaErrorUnsupportedLimit", "limit is not supported on this architecture"},
    {400, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {-1, "cudaErrorUnknown", "unrecognized error code"},
};

constexpr std::string_view kNewNames = "__cudaCDP2";  // CUDA 12 and later: __cudaCDP2Malloc for cudaMalloc

// A function that chooses the text of an error: the last one unless its code is another's.
std::string function_of_texts(const std::string& name) {
    std::string text = ".weak .func (.param .b64 text) " + name +
                       "(.param .b32 error) {\n.reg .b32 %r; .reg .b64 %rd<2>; .reg .pred %p;\n"
                       "ld.param.b32 %r, [error];\n";
    const bool names = name.ends_with("Name");
    for (size_t i = std::size(kErrors); i-- > 0;) {
        const std::string variable = (names ? "name" : "text") + std::to_string(i);
        text += "mov.u64 %rd1, " + variable + "; setp.eq.s32 %p, %r, " + std::to_string(kErrors[i].code) +
                "; selp.b64 %rd0, %rd1, " + (i + 1 == std::size(kErrors) ? "%rd1" : "%rd0") + ", %p;\n";
    }
    return text + "cvta.global.u64 %rd0, %rd0; st.param.b64 [text], %rd0; ret;\n}\n";
}

std::string make_error_texts() {
    std::string text = ".version 7.0\n.target sm_70\n.address_size 64\n";
    const auto variable = [&text](const std::string& name, std::string_view value) {
        text += ".global .align 1 .b8 " + name + "[] = {";
        for (const char c : value) text += std::to_string(int(c)) + ", ";
        text += "0};\n";
    };
    for (size_t i = 0; i < std::size(kErrors); ++i) {
        variable("name" + std::to_string(i), kErrors[i].name);
        variable("text" + std::to_string(i), kErrors[i].text);
    }
    for (const std::string_view start : {std::string_view("cuda"), kNewNames}) {
        text += function_of_texts(std::string(start) + "GetErrorName");
        text += function_of_texts(std::string(start) + "GetErrorString");
    }
    return text;
}

std::string_view error_texts() {
    static const std::string text = make_error_texts();
    return text;
}

// Kernels of CUDA 12 call these with kNewNames before them, and with _ptsz behind where a thread's own
// default stream is wanted: in a kernel they all mean the block's.
constexpr std::pair<std::string_view, Builtin> kBuiltins[] = {
    {"GetParameterBuffer", Builtin::parameter_buffer},
    {"GetParameterBufferV2", Builtin::parameter_buffer_of_kernel},
    {"LaunchDevice", Builtin::launch_kernel},
    {"LaunchDeviceV2", Builtin::launch_buffer},
    {"StreamCreateWithFlags", Builtin::make_stream},
    {"StreamDestroy", Builtin::end_stream},
    {"StreamWaitEvent", Builtin::wait_for_event},
    {"EventCreateWithFlags", Builtin::make_event},
    {"EventDestroy", Builtin::end_event},
    {"EventRecord", Builtin::record_event},
    {"EventRecordWithFlags", Builtin::record_event},
    {"GetLastError", Builtin::take_error},
    {"PeekAtLastError", Builtin::look_at_error},
    {"Malloc", Builtin::device_allocate},
    {"Free", Builtin::device_release},
    {"MemcpyAsync", Builtin::copy},
    {"Memcpy2DAsync", Builtin::copy_rows},
    {"MemsetAsync", Builtin::fill},
    {"Memset2DAsync", Builtin::fill_rows},
    {"GetDevice", Builtin::device},
    {"GetDeviceCount", Builtin::device_count},
    {"DeviceGetAttribute", Builtin::device_attribute},
    {"DeviceGetLimit", Builtin::device_limit},
};

bool declares(const std::vector<ptx::Module>& modules, const auto& wanted) {
    for (const ptx::Module& module : modules) {
        for (const ptx::Function& function : module.functions) {
            if (!function.has_body() && wanted(function.name)) return true;
        }
    }
    return false;
}

}  // namespace

bool is_cuda_device_runtime(const ptx::Module& module) {
    return std::any_of(module.functions.begin(), module.functions.end(), [](const ptx::Function& function) {
        return !function.has_body() && function.name.starts_with("cnp");
    });
}

std::vector<std::string_view> device_runtime_for(const std::vector<ptx::Module>& modules) {
    std::vector<std::string_view> texts;
    if (declares(modules, [](std::string_view name) {
            return std::find(std::begin(kGroupNames), std::end(kGroupNames), name) != std::end(kGroupNames);
        })) {
        texts.push_back(kGroups);
    }
    if (declares(modules, [](std::string_view name) {
            return name.ends_with("GetErrorString") || name.ends_with("GetErrorName");
        })) {
        texts.push_back(error_texts());
    }
    return texts;
}

Builtin find_builtin(std::string_view name) {
    if (name == "vprintf") return Builtin::print;
    if (name == "__assertfail") return Builtin::assertion;
    if (name == "malloc") return Builtin::allocate;
    if (name == "free") return Builtin::release;
    for (const std::string_view start : {kNewNames, std::string_view("cuda")}) {
        if (!name.starts_with(start)) continue;
        name.remove_prefix(start.size());
        if (name.ends_with("_ptsz")) name.remove_suffix(5);
        for (const auto& [known, builtin] : kBuiltins) {
            if (name == known) return builtin;
        }
        break;
    }
    return Builtin::none;
}

std::string why_not_in_kernels(std::string_view name) {
    const std::string quoted(name);
    if (name == "cudaDeviceSynchronize" || name == "__cudaDeviceSynchronizeDeprecationAvoidance") {
        return "a kernel cannot wait for kernels that it has launched (" + quoted +
               "; CUDA 12 took that away): launch what is to come after them into cudaStreamTailLaunch";
    }
    if (name.starts_with("cudaGraphLaunch") || name == "cudaGetCurrentGraphExec")
        return quoted + ": the software GPU does not launch graphs from kernels; launch them from the host";
    if (name.starts_with(kNewNames))
        return quoted + ": the software GPU's device runtime does not have this function";
    return {};
}

}  // namespace softgpu::lower
