#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <mutex>
#include <new>

#include "log.h"
#include "thread_state.h"

namespace cudart {
namespace {

struct State {
    std::mutex mutex;
    std::atomic<const Driver*> driver{nullptr};
    std::atomic<uint64_t> initialised_in{0};  // the life, from 1; 0: in none
    std::atomic<bool> alive_at_fork{false};
    std::atomic<bool> forked{false};
    std::atomic<bool> told_too_old{false};
};

// Immortal: calls come from exit handlers.
State& state() {
    alignas(State) static unsigned char storage[sizeof(State)];
    static State* made = new (storage) State;
    return *made;
}

// A lock that another thread held at the fork is held for ever in the child, so nothing there takes one. A
// parent that had no GPU has left nothing that its child could not start itself.
void after_fork() {
    if (state().alive_at_fork) state().forked = true;
}

void before_fork() {
    const Driver* driver = state().driver;
    state().alive_at_fork = driver && state().initialised_in != 0 && !between_lives(*driver);
}

const Driver* open_driver(cudaError_t& error) {
    std::lock_guard lock(state().mutex);
    if (const Driver* driver = state().driver) return driver;
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        log_line(std::string("libcuda.so.1 cannot be opened: ") + dlerror());
        error = cudaErrorInsufficientDriver;
        return nullptr;
    }
    auto* driver = new Driver;
#define DRIVER_FUNCTION(symbol) \
    driver->symbol = reinterpret_cast<decltype(driver->symbol)>(dlsym(library, #symbol));
#include "driver_functions.inc"
#undef DRIVER_FUNCTION
    driver->gkLife = reinterpret_cast<decltype(driver->gkLife)>(dlsym(library, "gkLife"));
    if (!driver->cuInit || !driver->cuCtxGetCurrent || !driver->cuDevicePrimaryCtxRetain ||
        !driver->cuCtxSetCurrent) {
        log_line("libcuda.so.1 is not a CUDA driver");
        error = cudaErrorInsufficientDriver;
        return nullptr;
    }
    pthread_atfork(before_fork, nullptr, after_fork);
    state().driver = driver;
    return driver;
}

// A runtime works with any driver of its own major version or a later one.
bool too_old(const Driver& driver) {
    int version = 0;
    constexpr int kNeeded = CUDART_VERSION / 1000;
    if (!driver.cuDriverGetVersion || driver.cuDriverGetVersion(&version) != CUDA_SUCCESS) return false;
    if (version / 1000 >= kNeeded) return false;
    if (!state().told_too_old.exchange(true)) {
        tell_user("this program uses the runtime of CUDA " + std::to_string(kNeeded) +
                  ", and the driver of its GPU is for CUDA " + std::to_string(version / 1000) + "." +
                  std::to_string(version % 1000 / 10) + ": use a build of the program for CUDA " +
                  std::to_string(version / 1000) + ", or ask for a newer driver on the GPU server");
    }
    return true;
}

}  // namespace

const Driver* use_driver(cudaError_t& error) {
    if (state().forked) {
        // The driver says why, once, whichever of the two libraries the program asks first.
        state().driver.load()->cuInit(0);
        error = cudaErrorInitializationError;
        return nullptr;
    }
    const Driver* driver = state().driver.load(std::memory_order_acquire);
    if (!driver && !(driver = open_driver(error))) return nullptr;
    const uint64_t life = life_of(*driver);
    if (state().initialised_in.load(std::memory_order_acquire) == life + 1) return driver;
    const CUresult result = driver->cuInit(0);
    if (result != CUDA_SUCCESS) {
        error = translated(result);
        return nullptr;
    }
    if (too_old(*driver)) {
        error = cudaErrorInsufficientDriver;
        return nullptr;
    }
    state().initialised_in.store(life + 1, std::memory_order_release);
    return driver;
}

const Driver* opened_driver() {
    return state().forked ? nullptr : state().driver.load(std::memory_order_acquire);
}

bool forked() {
    return state().forked;
}

}  // namespace cudart
