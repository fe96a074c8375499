#include "own_call.h"

#include <cstring>

#include "cusolver_messages.h"
#include "driver.h"
#include "roles.h"
#include "status.h"

namespace maths::cusolver {
namespace {

// Some programs take 0 for an error.
constexpr int kRoom = 1;

}  // namespace

OwnCall::OwnCall(const void* handle, uint16_t function, bool wide)
    : OwnCall(::cusolver::all_of<::cusolver::DenseHandle>().find(handle), function, wide) {}

OwnCall::OwnCall(std::shared_ptr<::cusolver::Handle> handle, uint16_t function, bool wide)
    : handle_(std::move(handle)), function_(function), wide_(wide) {}

void OwnCall::settings(Settings& to, const void* settings) {
    const auto found = ::cusolver::all_of<Settings>().find(settings);
    if (found) to = *found;
    invalid_ |= !found;
}

void OwnCall::answer(uint64_t& to, void* at, Type type) {
    invalid_ |= !at;
    answers_.add(to, at, bytes_of(type), Access::kWrite);
}

int OwnCall::send(void* message, size_t bytes) {
    if (!handle_) return ::cusolver::kNotInitialized;
    if (invalid_) return ::cusolver::kInvalidValue;
    OwnLook look(wide_, false);
    const Fit fit = look_at(function_, message, bytes, look);
    if (fit == Fit::invalid) return ::cusolver::kInvalidValue;
    if (fit == Fit::unsupported) return library_refuses(name_of(function_), look.why().c_str());
    return submit(message, bytes);
}

int OwnCall::submit(const void* message, size_t bytes) const {
    const libraries::Callee callee{kGkCusolver, function_, CUSOLVER_MAJOR, wide_};
    const CUresult result = libraries::post(handle_->stream, callee, message, bytes);
    if (result == CUDA_ERROR_NOT_SUPPORTED) return library_unsupported(name_of(function_));
    if (result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
        return library_unsupported("cuSOLVER in a captured stream");
    return ::cusolver::meaning(result);
}

int OwnCall::send_and_fetch(void* message, size_t bytes) {
    if (!handle_ || invalid_) return send(message, bytes);
    if (!libraries::driver()) return ::cusolver::kNotInitialized;
    const std::lock_guard lock(handle_->scratch_mutex);
    int status = ::cusolver::kSuccess;
    const CUresult result =
        answers_.around(handle_->scratch, handle_->stream, [&] { return send(message, bytes); }, status);
    return status != ::cusolver::kSuccess ? status : ::cusolver::meaning(result);
}

namespace {

// kSuccess where there is an answer.
int may_answer(const void* handle, const char* function, const Look& look, bool has_place) {
    if (!::cusolver::all_of<::cusolver::DenseHandle>().find(handle)) return ::cusolver::kNotInitialized;
    if (look.fit() == Fit::invalid || !has_place) return ::cusolver::kInvalidValue;
    return look.fit() == Fit::fits ? ::cusolver::kSuccess : library_refuses(function, look.why().c_str());
}

}  // namespace

int answer_room(const void* handle, const char* function, const Look& look, int* count) {
    const int status = may_answer(handle, function, look, count != nullptr);
    if (status == ::cusolver::kSuccess) *count = kRoom;
    return status;
}

int answer_room(const void* handle, const char* function, const Look& look, size_t* bytes,
                size_t* host_bytes) {
    const int status = may_answer(handle, function, look, bytes && host_bytes);
    if (status == ::cusolver::kSuccess) *bytes = *host_bytes = kRoom;
    return status;
}

}  // namespace maths::cusolver
