#include "library_call.h"

#include <dlfcn.h>

#include <cstring>
#include <string>
#include <vector>

#include "capture.h"
#include "driver.h"
#include "exec/check/unwritten.h"
#include "libraries/call.h"
#include "libraries/cpu/end.h"
#include "log.h"
#include "session.h"
#include "stream_call.h"
#include "wire/sticky.h"

namespace softgpu::driver {
namespace {

// Beside this library.
std::string path_of_cpu_end() {
    Dl_info here{};
    if (!dladdr(reinterpret_cast<void*>(&path_of_cpu_end), &here) || !here.dli_fname) return kGkCpuEndFile;
    const std::string own = here.dli_fname;
    const size_t slash = own.rfind('/');
    return slash == std::string::npos ? kGkCpuEndFile : own.substr(0, slash + 1) + kGkCpuEndFile;
}

GkCpuEnd open_cpu_end() {
    void* library = dlopen(path_of_cpu_end().c_str(), RTLD_NOW | RTLD_LOCAL);
    void* const function = library ? dlsym(library, kGkCpuEnd) : nullptr;
    if (!function) log_line("maths libraries compute nothing here: " + std::string(dlerror()));
    return reinterpret_cast<GkCpuEnd>(function);
}

GkCpuEnd cpu_end() {
    static const GkCpuEnd opened = open_cpu_end();
    return opened;
}

// A call while it runs.
struct Running {
    Context& context;
    Session& session;
    uint64_t interrupts_before;

    static Running& of(void* user) { return *static_cast<Running*>(user); }
    bool is_interrupted() const {
        return session.interrupts.load(std::memory_order_acquire) != interrupts_before;
    }
};

bool reach(void* user, uint64_t address, uint64_t bytes, bool written) {
    try {
        Running::of(user).context.driver.memory.checked(address, bytes);
    } catch (const Failure&) {
        return false;
    }
    if (written) check::Unwritten::get().written(address, bytes);
    return true;
}

DeviceMemory& memory_of(void* user) {
    const Context& context = Running::of(user).context;
    return context.driver.memory.space(context.device);
}

bool take(void* user, uint64_t bytes) {
    return memory_of(user).take(bytes);
}

void give_back(void* user, uint64_t bytes) {
    memory_of(user).give_back(bytes);
}

bool stopped(void* user) {
    const Running& running = Running::of(user);
    return running.is_interrupted() || running.context.group->cancel.load(std::memory_order_relaxed);
}

void tell(void* user, const char* line) {
    Running::of(user).session.tell(kGkTextFault, std::string(line) + "\n");
}

CUresult run(Running running, const std::vector<std::byte>& call) {
    static_assert(kGkMostDevices == Config::kMaxDevices);
    const GkSlice slice{.user = &running,
                        .device = static_cast<unsigned>(running.context.device),
                        .memory = memory_of(&running).total_bytes(),
                        .threads = running.context.driver.config.threads,
                        .reach = reach,
                        .take = take,
                        .give_back = give_back,
                        .stopped = stopped,
                        .tell = tell};
    if (!running.is_interrupted()) {
        const auto result = static_cast<CUresult>(cpu_end()(call.data(), call.size(), &slice));
        // An error that ends no context, such as no room to work in, is the session's own: others of the
        // context, and its later work, go on.
        if (wire::is_sticky(result)) {
            running.session.tell_remedy();
            return result;
        }
        if (result != CUDA_SUCCESS) running.session.refused_work(result);
    }
    if (running.is_interrupted()) running.session.lost_work();
    return CUDA_SUCCESS;
}

}  // namespace

bool can_compute() {
    return cpu_end() != nullptr;
}

uint16_t function_of(const void* call, size_t bytes) {
    GkLibraryCall head{};
    if (call && bytes >= sizeof head) std::memcpy(&head, call, sizeof head);
    return head.function;
}

std::function<CUresult()> prepare_library_call(Context& context, const void* call, size_t bytes) {
    require(call != nullptr && bytes >= sizeof(GkLibraryCall) && bytes <= kGkMostCallBytes);
    require(cpu_end() != nullptr, CUDA_ERROR_NOT_SUPPORTED);
    const auto* begin = static_cast<const std::byte*>(call);
    return [context = context.shared_from_this(), session = current_session(),
            copy = std::vector(begin, begin + bytes)] {
        return run({*context, *session, Scheduler::interrupts_before()}, copy);
    };
}

}  // namespace softgpu::driver

extern "C" __attribute__((visibility("default"))) int gkLibraryCall(void* stream, const void* call,
                                                                    size_t bytes) {
    using namespace softgpu::driver;
    const uint16_t function = function_of(call, bytes);
    if (function == kGkLook) return can_compute() ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
    if (function == kGkForget) return CUDA_SUCCESS;  // nothing is kept here
    return stream_call(static_cast<CUstream>(stream), [&](Context& context, Stream& on) {
        require_not_captured(on);
        context.driver.scheduler.submit(on.queue, {.body = prepare_library_call(context, call, bytes)});
    });
}
