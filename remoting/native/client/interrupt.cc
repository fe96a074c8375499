#include "interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "log.h"
#include "session.h"

namespace client {
namespace {

// The handlers of the program that ours stands, or stood, in front of; the newest is last. Another thread may
// put a handler in front of ours while the main thread waits, and that one calls ours for ever after: so ours
// may stand in a row more than once, and each time calls the next older one. Written by the main thread
// alone.
constexpr int kMostHandlers = 8;
struct sigaction theirs[kMostHandlers];
std::atomic<int> handlers{0};
std::atomic<bool> noted{false};
// Of how many handlers a signal has come through on this thread. Initial-exec, because a signal handler must
// not allocate.
[[gnu::tls_model("initial-exec")]] thread_local volatile sig_atomic_t depth = 0;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

void note(int signal, siginfo_t* info, void* context) {
    noted.store(true, std::memory_order_relaxed);
    const int index = handlers.load(std::memory_order_acquire) - 1 - depth;
    if (index < 0) return;
    const struct sigaction& next = theirs[index];
    depth = depth + 1;
    if (next.sa_flags & SA_SIGINFO) {
        next.sa_sigaction(signal, info, context);
    } else {
        next.sa_handler(signal);
    }
    depth = depth - 1;
}

bool is_ours(const struct sigaction& action) {
    return (action.sa_flags & SA_SIGINFO) && action.sa_sigaction == note;
}

bool handles(const struct sigaction& action) {
    return (action.sa_flags & SA_SIGINFO) || (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

// Puts our handler in front of the program's, if that handles SIGINT. Whether it stands there.
bool stand_in_front() {
    depth = 0;  // a handler may have left by siglongjmp
    struct sigaction present{};
    if (sigaction(SIGINT, nullptr, &present) != 0) return false;
    const int count = handlers.load(std::memory_order_relaxed);
    if (is_ours(present)) {
        // Who had stood in front of ours has gone and left it.
        return count > 0;
    }
    if (!handles(present) || count == kMostHandlers) return false;
    theirs[count] = present;
    handlers.store(count + 1, std::memory_order_release);
    noted.store(false, std::memory_order_relaxed);
    struct sigaction ours = present;
    // Without SA_RESTART the wait is woken by the signal.
    ours.sa_flags = (present.sa_flags | SA_SIGINFO) & ~(SA_RESTART | SA_RESETHAND);
    ours.sa_sigaction = note;
    if (sigaction(SIGINT, &ours, nullptr) == 0) return true;
    handlers.store(count, std::memory_order_release);
    return false;
}

void step_aside() {
    struct sigaction present{};
    if (sigaction(SIGINT, nullptr, &present) != 0 || !is_ours(present)) return;
    // The program's handler first: ours may still be called once, and must find it.
    const int newest = handlers.load(std::memory_order_relaxed) - 1;
    if (sigaction(SIGINT, &theirs[newest], nullptr) == 0) handlers.store(newest, std::memory_order_release);
}

}  // namespace

bool is_main_thread() {
    return gettid() == getpid();
}

void InterruptWatch::goes_on() {
    if (!is_main_thread()) return;
    if (!looks_out_) {
        looks_out_ = stand_in_front();
        return;
    }
    if (!noted.exchange(false)) return;
    switch (Session::get().interrupt(told_)) {
        case CUDA_SUCCESS:
            return;
        case CUDA_ERROR_NOT_SUPPORTED:
            told_ = true;
            return tell_user(
                "a kernel on this GPU cannot be stopped alone; your program goes on when it has ended. "
                "Interrupt "
                "once more to end the GPU's worker: all that your programs have on the GPU is lost then.");
        default:
            return tell_user(
                "the GPU server could not be told of the interrupt; try again, or restart the kernel.");
    }
}

void InterruptWatch::over() {
    if (!looks_out_) return;
    looks_out_ = told_ = false;
    step_aside();
}

bool InterruptNote::seen() {
    if (!is_main_thread()) return false;
    if (!looks_out_) looks_out_ = stand_in_front();
    return looks_out_ && noted.exchange(false);
}

InterruptNote::~InterruptNote() {
    if (looks_out_) step_aside();
}

}  // namespace client
