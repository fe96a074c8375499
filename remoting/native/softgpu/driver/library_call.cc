#include "library_call.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "call_budget.h"
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

// A call's room to work in, from when it is submitted to its end. While it is in line for that, its operation
// starts again after `woken`.
class Room {
  public:
    explicit Room(Context& context)
        : waker_(std::make_shared<Waker>(context.driver.scheduler)),
          place_(context.driver.memory.call_budget(), context.driver.memory.account(context.device),
                 current_session().get(), context.group.get(), [waker = waker_] { waker->wake(); }) {}

    CallBudget::Answer reserve(uint64_t bytes) {
        waker_->renew();  // before anybody may wake it
        return place_.reserve(bytes);
    }
    void leave() { place_.leave(); }
    CompletionRef woken() const { return waker_->woken(); }

  private:
    class Waker {
      public:
        explicit Waker(Scheduler& scheduler) : scheduler_(scheduler) {}
        void renew() {
            const std::lock_guard lock(mutex_);
            woken_ = std::make_shared<Completion>();
        }
        CompletionRef woken() const {
            const std::lock_guard lock(mutex_);
            return woken_;
        }
        void wake() const { scheduler_.end(woken()); }

      private:
        Scheduler& scheduler_;
        mutable std::mutex mutex_;
        CompletionRef woken_;
    };

    const std::shared_ptr<Waker> waker_;  // outlives the place: somebody may be about to wake it
    CallBudget::Place place_;
};

// A call while it runs.
struct Running {
    Context& context;
    Session& session;
    Room& room;
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

bool stopped(void* user) {
    const Running& running = Running::of(user);
    return running.is_interrupted() || running.context.group->cancel.load(std::memory_order_relaxed);
}

int reserve(void* user, uint64_t bytes) {
    Room& room = Running::of(user).room;
    switch (room.reserve(bytes)) {
        case CallBudget::Answer::reserved:
            return kGkRoomIsThere;
        case CallBudget::Answer::in_line:
            // An interrupt before it stood in line has not woken it.
            if (!stopped(user)) return kGkRoomLater;
            room.leave();
            return kGkRoomStopped;
        case CallBudget::Answer::too_large:
            return kGkRoomTooLarge;
        default:
            return kGkRoomNoneLeft;
    }
}

void tell(void* user, const char* line) {
    Running::of(user).session.tell(kGkTextFault, std::string(line) + "\n");
}

CUresult run(Running running, const std::vector<std::byte>& call) {
    const GkSlice slice{.user = &running,
                        .memory = running.context.driver.memory.space(running.context.device).total_bytes(),
                        .threads = running.context.driver.config.threads,
                        .reach = reach,
                        .reserve = reserve,
                        .stopped = stopped,
                        .tell = tell};
    if (!running.is_interrupted()) {
        const int answer = cpu_end()(call.data(), call.size(), &slice);
        if (answer == kGkPutBack) throw PutBack{running.room.woken()};
        const auto result = static_cast<CUresult>(answer);
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

// Also before cuInit.
static unsigned threads() {
    const Driver* const driver = Driver::live();
    return std::max(1u, driver ? driver->config.threads : Config::from_environment().threads);
}

CUresult look(const void* call, size_t bytes) {
    GkLook look;
    if (bytes != sizeof look) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(&look, call, sizeof look);
    if (!cpu_end()) return CUDA_ERROR_NOT_SUPPORTED;
    if (look.end) *look.end = {.threads = threads(), .zero = 0};
    return CUDA_SUCCESS;
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
            room = std::make_shared<Room>(context), copy = std::vector(begin, begin + bytes)] {
        return run({*context, *session, *room, Scheduler::interrupts_before()}, copy);
    };
}

}  // namespace softgpu::driver

extern "C" __attribute__((visibility("default"))) int gkLibraryCall(void* stream, const void* call,
                                                                    size_t bytes) {
    using namespace softgpu::driver;
    const uint16_t function = function_of(call, bytes);
    if (function == kGkLook) return look(call, bytes);
    // Nothing is kept here, and what is not done the library knows.
    if (function == kGkForget || function == kGkAsk) return CUDA_SUCCESS;
    return stream_call(static_cast<CUstream>(stream), [&](Context& context, Stream& on) {
        require_not_captured(on);
        context.driver.scheduler.submit(on.queue, {.body = prepare_library_call(context, call, bytes)});
    });
}
