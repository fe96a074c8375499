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

// Whether the sizes go together; where the memory is, the end that computes asks.
class SizesAlone final : public Look {
  public:
    using Look::Look;

  private:
    void operand(const Operand&) override {}
};

}  // namespace

OwnCall::OwnCall(const void* handle, uint16_t function, bool wide)
    : handle_(::cusolver::all_of<::cusolver::Handle>().find(handle)), function_(function), wide_(wide) {}

void OwnCall::settings(Settings& to, const void* settings) {
    const auto found = ::cusolver::all_of<Settings>().find(settings);
    if (found) to = *found;
    invalid_ |= !found;
}

int OwnCall::send(void* message, size_t bytes) {
    if (!handle_) return ::cusolver::kNotInitialized;
    if (invalid_) return ::cusolver::kInvalidValue;
    SizesAlone sizes(wide_, false);
    const Fit fit = look_at(function_, message, bytes, sizes);
    if (fit == Fit::invalid) return ::cusolver::kInvalidValue;
    if (fit == Fit::unsupported) return library_unsupported(name_of(function_));
    return submit(message, bytes);
}

int OwnCall::submit(const void* message, size_t bytes) const {
    const libraries::Driver* driver = libraries::driver();
    if (!driver) return ::cusolver::kNotInitialized;
    if (!driver->library_call) return library_unsupported(name_of(function_));
    std::byte call[kGkMostCallBytes];
    GkLibraryCall head{};
    head.library = kGkCusolver;
    head.function = function_;
    head.major = CUSOLVER_MAJOR;
    head.wide = wide_;
    std::memcpy(call, &head, sizeof head);
    std::memcpy(call + sizeof head, message, bytes);
    const auto result =
        static_cast<CUresult>(driver->library_call(handle_->stream, call, sizeof head + bytes));
    if (result == CUDA_ERROR_NOT_SUPPORTED) return library_unsupported(name_of(function_));
    if (result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) return library_unsupported("cuSOLVER in a captured stream");
    return ::cusolver::meaning(result);
}

int answer_room(const void* handle, bool fits, int* count) {
    if (!::cusolver::all_of<::cusolver::Handle>().find(handle)) return ::cusolver::kNotInitialized;
    if (!fits || !count) return ::cusolver::kInvalidValue;
    *count = kRoom;
    return ::cusolver::kSuccess;
}

int answer_room(const void* handle, bool fits, size_t* bytes, size_t* host_bytes) {
    if (!::cusolver::all_of<::cusolver::Handle>().find(handle)) return ::cusolver::kNotInitialized;
    if (!fits || !bytes || !host_bytes) return ::cusolver::kInvalidValue;
    *bytes = *host_bytes = kRoom;
    return ::cusolver::kSuccess;
}

}  // namespace maths::cusolver
