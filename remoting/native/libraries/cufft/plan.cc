#include "cufft/plan.h"

#include "driver.h"
#include "roles.h"

namespace cufft {
namespace {

CUresult post(CUstream stream, uint16_t function, const void* message, size_t bytes) {
    return libraries::post(stream, {kGkCufft, function, LIBRARY_MAJOR}, message, bytes);
}

}  // namespace

Plans& Plans::get() {
    static auto* const all = new Plans;  // never destroyed: exit handlers may call
    return *all;
}

int Plans::add() {
    auto plan = std::make_shared<OwnPlan>();
    const std::lock_guard lock(mutex_);
    live_.emplace(++last_, std::move(plan));
    return last_;
}

std::shared_ptr<OwnPlan> Plans::find(int handle) const {
    const std::shared_lock lock(mutex_);
    const auto found = live_.find(handle);
    return found == live_.end() ? nullptr : found->second;
}

std::shared_ptr<OwnPlan> Plans::take(int handle) {
    const std::lock_guard lock(mutex_);
    const auto node = live_.extract(handle);
    return node ? node.mapped() : nullptr;
}

Status look() {
    const CUresult answer = libraries::look(kGkCufft, LIBRARY_MAJOR);
    if (answer == CUDA_ERROR_NOT_SUPPORTED) library_unsupported("cufftCreate on this GPU");
    return answer == CUDA_ERROR_NOT_SUPPORTED || answer == CUDA_ERROR_NOT_INITIALIZED ? kSetupFailed : kSuccess;
}

Status execute(int handle, const void* input, void* output, int64_t direction) {
    const auto plan = Plans::get().find(handle);
    if (!plan) return kInvalidPlan;
    if (!input || !output) return kInvalidValue;
    const std::lock_guard lock(plan->mutex);
    if (!plan->is_made) return kInvalidPlan;
    maths::cufft::Transform transform{reinterpret_cast<uint64_t>(input), reinterpret_cast<uint64_t>(output), direction,
                                      static_cast<uint64_t>(handle), plan->plan};
    maths::SizesAlone sizes(false, false);
    if (maths::cufft::look_at(maths::cufft::kExec, &transform, sizeof transform, sizes) != maths::Fit::fits) {
        return kInvalidValue;
    }
    const CUresult result = post(plan->stream, maths::cufft::kExec, &transform, sizeof transform);
    if (result == CUDA_ERROR_NOT_SUPPORTED) library_unsupported("cufftExec on this GPU");
    if (result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) library_unsupported("cuFFT in a captured stream");
    plan->has_run |= result == CUDA_SUCCESS;
    return meaning(result);
}

Status destroy(int handle) {
    const auto plan = Plans::get().take(handle);
    if (!plan) return kInvalidPlan;
    const std::lock_guard lock(plan->mutex);
    const auto number = static_cast<uint64_t>(handle);
    if (plan->has_run) post(nullptr, kGkForget, &number, sizeof number);
    return kSuccess;
}

}  // namespace cufft
