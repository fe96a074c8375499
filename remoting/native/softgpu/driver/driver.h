// The driver's state, made by cuInit and never destroyed, and the frame of every entry point.
#pragma once

#include <type_traits>

#include "config.h"
#include "context.h"
#include "engine.h"
#include "memory.h"
#include "value_waits.h"

namespace softgpu::driver {

class Pool;

class Driver {
  public:
    // Makes the state; later calls change nothing. CUDA_ERROR_NOT_INITIALIZED in a child of a process that
    // had made it: threads and locks do not survive a fork.
    static CUresult initialize() noexcept;
    // Null before cuInit and in a forked child.
    static Driver* live() noexcept;

    const Config config;
    HandleTable handles;
    Scheduler scheduler;
    ValueWaits value_waits{scheduler};
    Memory memory;
    ThreadPool pool;

    // The calling thread's current context; throws INVALID_CONTEXT or CONTEXT_IS_DESTROYED.
    std::shared_ptr<Context> current();
    std::shared_ptr<Context> context(CUcontext handle);  // null stands for the current one

    // What follows takes the number of a device that exists (require_device).
    //
    // A device's primary context has the same handle in all its lives.
    uint64_t primary_handle(CUdevice device);
    std::shared_ptr<Pool> default_pool(CUdevice device);
    std::shared_ptr<Pool> current_pool(CUdevice device);
    void set_current_pool(CUdevice device, const std::shared_ptr<Pool>& pool);

  private:
    explicit Driver(Config config);

    struct Device {
        uint64_t primary_handle = 0;
        std::shared_ptr<Pool> default_pool, current_pool;
    };
    Device& device(CUdevice number) { return devices_[static_cast<size_t>(number)]; }

    std::mutex mutex_;  // of what follows
    std::vector<Device> devices_;
};

// Throws NOT_INITIALIZED where there is none.
inline Driver& live() {
    Driver* driver = Driver::live();
    require(driver != nullptr, CUDA_ERROR_NOT_INITIALIZED);
    return *driver;
}

// Throws INVALID_DEVICE unless it is one of the software GPU's devices.
void require_device(CUdevice device);

// Runs an entry point's body: `body(driver)` returns nothing, or a CUresult.
template <class Body>
CUresult driver_call(Body&& body) noexcept {
    return cuda::guarded([&] { return body(live()); });
}

// front::working_context, as this driver has it.
inline std::shared_ptr<Context> working_context() {
    return std::static_pointer_cast<Context>(front::working_context());
}

// Runs an entry point's body with that.
template <class Body>
CUresult context_call(Body&& body) noexcept {
    return driver_call([&](Driver&) {
        const std::shared_ptr<Context> context = working_context();
        if constexpr (std::is_void_v<std::invoke_result_t<Body, Context&>>) {
            body(*context);
            return CUDA_SUCCESS;
        } else {
            return static_cast<CUresult>(body(*context));
        }
    });
}

}  // namespace softgpu::driver
