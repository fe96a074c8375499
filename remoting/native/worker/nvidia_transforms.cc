#include "nvidia_transforms.h"

#include <algorithm>
#include <cstring>

#include "handlers.h"
#include "libraries/cufft/messages.h"
#include "libraries/cufft/status.h"
#include "nvidia_function.h"
#include "nvidia_libraries.h"

namespace worker {
namespace {

template <typename... Arguments>
CUresult invoke_named(void* library, const char* name, Arguments... arguments) {
    const auto function = reinterpret_cast<int (*)(Arguments...)>(function_of(library, name));
    return function ? cufft::result_of(function(arguments...)) : CUDA_ERROR_NOT_SUPPORTED;
}

using maths::cufft::Plan;
using maths::cufft::Transform;

using Size = long long;

// What cufftXtMakePlanMany takes as arrays.
struct Arrays {
    explicit Arrays(const Plan& plan) {
        std::ranges::copy(plan.n, n);
        std::ranges::copy(plan.input.embed, input);
        std::ranges::copy(plan.output.embed, output);
    }
    Size n[maths::cufft::kMostDimensions], input[maths::cufft::kMostDimensions],
        output[maths::cufft::kMostDimensions];
};

}  // namespace

// A plan of NVIDIA's: calls that use it come one at a time.
struct NvidiaTransforms::Made {
    explicit Made(void* library) : library(library) {}
    ~Made() {
        if (is_there) invoke_named(library, "cufftDestroy", handle);
    }
    Made(const Made&) = delete;
    Made& operator=(const Made&) = delete;

    CUresult make(Context& context, const Plan& wanted);
    CUresult run(CUstream stream, const Transform& transform) {
        if (CUresult error = invoke_named(library, "cufftSetStream", handle, stream)) return error;
        return invoke_named(library, "cufftXtExec", handle, reinterpret_cast<void*>(transform.input),
                            reinterpret_cast<void*>(transform.output), static_cast<int>(transform.direction));
    }

    void* const library;
    std::mutex mutex;
    bool is_there = false, is_whole = false;
    int handle = 0;
    uint64_t work_area = 0;
    Plan plan{};
};

// The library says how much it works in, and gets it of the slice.
CUresult NvidiaTransforms::Made::make(Context& context, const Plan& wanted) {
    if (!is_there) {
        if (CUresult error = invoke_named(library, "cufftCreate", &handle)) return error;
        is_there = true;
        plan = wanted;
    }
    Arrays arrays(plan);
    Size* const input = plan.advanced ? arrays.input : nullptr;
    Size* const output = plan.advanced ? arrays.output : nullptr;
    size_t bytes = 0;
    CUresult error = invoke_named(library, "cufftSetAutoAllocation", handle, 0);
    if (!error) {
        error = invoke_named(library, "cufftXtMakePlanMany", handle, static_cast<int>(plan.rank), +arrays.n,
                             input, Size{plan.input.stride}, Size{plan.input.distance},
                             static_cast<int>(plan.input_type), output, Size{plan.output.stride},
                             Size{plan.output.distance}, static_cast<int>(plan.output_type), Size{plan.batch},
                             &bytes, static_cast<int>(plan.execution_type));
    }
    if (!error && bytes) error = allocate_in_slice(context, bytes, work_area);
    if (!error && bytes) {
        error = invoke_named(library, "cufftSetWorkArea", handle, reinterpret_cast<void*>(work_area));
    }
    is_whole = !error;
    return error;
}

NvidiaTransforms& NvidiaTransforms::get() {
    static auto* const all = new NvidiaTransforms;
    return *all;
}

std::shared_ptr<NvidiaTransforms::Made> NvidiaTransforms::plan_of(const Key& key, void* library,
                                                                  CUresult& result) {
    const std::lock_guard lock(mutex_);
    const auto found = plans_.find(key);
    if (found != plans_.end()) return found->second;
    const auto count = std::ranges::count_if(
        plans_, [&](const auto& entry) { return std::get<0>(entry.first) == std::get<0>(key); });
    if (static_cast<size_t>(count) < kMostPlans) return plans_[key] = std::make_shared<Made>(library);
    result = refused(CUDA_ERROR_OUT_OF_MEMORY,
                     "a session has " + std::to_string(kMostPlans) +
                         " plans on the GPU at most, and has them: destroy plans that you no longer need");
    return nullptr;
}

std::shared_ptr<NvidiaTransforms::Made> NvidiaTransforms::take(const Key& key) {
    const std::lock_guard lock(mutex_);
    const auto node = plans_.extract(key);
    return node ? node.mapped() : nullptr;
}

CUresult NvidiaTransforms::end(Context& context, uint8_t major, uint64_t number) {
    const auto ended = take({&context.session(), context.device(), major, number});
    if (!ended) return CUDA_SUCCESS;
    const std::lock_guard lock(ended->mutex);
    // What it worked in is given back when no work uses it any more; after an error it goes with the session.
    if (CUresult error = context.session().own_work.wait(context.device())) return error;
    if (ended->work_area) context.session().give_back(ended->work_area);
    return CUDA_SUCCESS;
}

CUresult NvidiaTransforms::call(Context& context, void* library, CUstream stream, const GkLibraryCall& head,
                                const void* arguments) {
    const auto& transform = *static_cast<const Transform*>(arguments);
    CUresult result = CUDA_SUCCESS;
    const Key key{&context.session(), context.device(), head.major, transform.number};
    const auto made = plan_of(key, library, result);
    if (!made) return result;
    const std::lock_guard lock(made->mutex);
    if (made->is_there && std::memcmp(&made->plan, &transform.plan, sizeof(Plan)) != 0) return kMalformed;
    if (!made->is_whole && (result = made->make(context, transform.plan)) != CUDA_SUCCESS) {
        take(key);  // one that failed may be tried anew
        if (made->work_area) context.session().give_back(made->work_area);
        return result;
    }
    return made->run(stream, transform);
}

void NvidiaTransforms::forget(const Session& session, uint8_t device) {
    std::vector<std::shared_ptr<Made>> ended;
    const std::lock_guard lock(mutex_);
    std::erase_if(plans_, [&](auto& entry) {
        const bool its_own = std::get<0>(entry.first) == &session && std::get<1>(entry.first) == device;
        if (its_own) ended.push_back(std::move(entry.second));
        return its_own;
    });
}

}  // namespace worker
