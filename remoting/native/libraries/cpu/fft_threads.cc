// The threads that ducc0's transforms run on: those of one call, which end with it. So there are none that a fork could
// miss, and as many as the call asks for.
#include <ducc0/infra/threading.h>

#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

#include "softgpu/driver/signals_blocked.h"

namespace ducc0::detail_threading {
namespace {

class CallThreads final : public thread_pool {
  public:
    size_t nthreads() const override { return 1; }
    size_t adjust_nthreads(size_t wanted) const override { return in_parallel_region || wanted == 0 ? 1 : wanted; }
    void submit(std::function<void()> work) override { work(); }

    // Where the system gives fewer threads, those that there are do it all.
    void parallel_for(size_t parts, std::function<void(size_t)> work) override {
        std::atomic<size_t> next{0};
        const auto run = [&] {
            for (size_t i; (i = next.fetch_add(1)) < parts;) work(i);
        };
        std::vector<std::thread> others;
        try {
            const softgpu::driver::SignalsBlocked blocked;
            others.reserve(parts);
            while (others.size() + 1 < parts) others.emplace_back(run);
        } catch (const std::exception&) {  // no thread, or no memory for one
        }
        run();
        for (std::thread& other : others) other.join();
    }
};

}  // namespace

thread_pool* get_active_pool() {
    static auto* const threads = new CallThreads;  // never destroyed: calls may run at exit
    return threads;
}
thread_pool* set_active_pool(thread_pool*) {
    return get_active_pool();
}

}  // namespace ducc0::detail_threading
