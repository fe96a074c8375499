// Whose work a launch is, behind extension.h: where its text goes, what it is checked for, how it is
// interrupted.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string_view>

#include "cuda_abi.h"
#include "extension.h"

namespace softgpu::driver {

class Session {
  public:
    Session(GkTextSink sink, void* user) : sink_(sink), user_(user) {}

    void tell(GkText kind, std::string_view text);
    // A context has failed, and why was told. The forwarding client says what to restart, once; nobody but
    // the process's own session does where there is none.
    void tell_remedy();
    void end();  // no text from now on

    // Counts interrupts. Work that was submitted at a lower count does not run, or stops.
    std::atomic<uint64_t> interrupts{0};
    std::atomic<uint32_t> checks{0};

    // An interrupt has cost a launch; the next call that waits says so, once.
    void lost_work() { lost_work_.store(true, std::memory_order_release); }
    bool take_lost_work() { return lost_work_.load(std::memory_order_acquire) && lost_work_.exchange(false); }

    // Work was refused that has changed nothing: the next call that waits says why, once. The first answer
    // stays.
    void refused_work(CUresult answer) {
        int none = CUDA_SUCCESS;
        refused_work_.compare_exchange_strong(none, answer);
    }
    CUresult take_refused_work() {
        const bool any = refused_work_.load(std::memory_order_acquire) != CUDA_SUCCESS;
        return any ? static_cast<CUresult>(refused_work_.exchange(CUDA_SUCCESS)) : CUDA_SUCCESS;
    }

  private:
    std::mutex mutex_;  // of the sink: one call at a time
    GkTextSink sink_;
    void* const user_;
    std::atomic<bool> lost_work_{false};
    std::atomic<int> refused_work_{CUDA_SUCCESS};
    std::atomic<bool> remedy_told_{false};
};

// The calling thread's, or the process's own. Never null.
const std::shared_ptr<Session>& current_session();

// What a call answers that has waited for work, or found it done, when nothing else is wrong.
CUresult answer_of_wait(CUresult status);

}  // namespace softgpu::driver
