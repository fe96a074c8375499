#include "own_call.h"

#include <cstring>

#include "cusparse_messages.h"
#include "roles.h"
#include "status.h"

namespace maths::cusparse {
namespace {

// Some programs take 0 for an error.
constexpr int kRoom = 1;

template <typename Size>
int answer(const void* handle, bool fits, Size* size) {
    if (!is_live<::cusparse::Handle>(handle)) return ::cusparse::kNotInitialized;
    if (!fits || !size) return ::cusparse::kInvalidValue;
    *size = kRoom;
    return ::cusparse::kSuccess;
}

}  // namespace

OwnCall::OwnCall(const void* handle, uint16_t function, bool)
    : handle_(::cusparse::all<::cusparse::Handle>().find(handle)),
      function_(function),
      on_device_(handle_ && handle_->pointers == ::cusparse::kDevice) {}

OwnCall::OwnCall(const void* handle, uint16_t function, ::cusparse::PointerMode pointers)
    : handle_(::cusparse::all<::cusparse::Handle>().find(handle)),
      function_(function),
      on_device_(pointers == ::cusparse::kDevice) {}

void OwnCall::scalar(Scalar& to, const void* from, Type type) {
    to = {};
    wrong_ |= !from;
    if (on_device_) {
        std::memcpy(to.bytes, &from, sizeof from);
    } else if (from) {
        std::memcpy(to.bytes, from, bytes_of(type));
    }
}

void OwnCall::placed(uint64_t& to, void* at, Type type, size_t count, Access access) {
    wrong_ |= !at;
    to = reinterpret_cast<uint64_t>(at);
    if (!on_device_) placed_.add(to, at, bytes_of(type) * count, access);
}

int OwnCall::send(void* message, size_t bytes) {
    if (!handle_) return ::cusparse::kNotInitialized;
    if (wrong_) return ::cusparse::kInvalidValue;
    OwnLook look(false, on_device_ || !placed_.empty());
    const Fit fit = look_at(function_, message, bytes, look);
    if (fit == Fit::invalid) return ::cusparse::kInvalidValue;
    if (fit == Fit::unsupported) return library_refuses(name_of(function_), look.why().c_str());
    return submit(message, bytes);
}

int OwnCall::submit(const void* message, size_t bytes) const {
    const libraries::Callee callee{kGkCusparse, function_, LIBRARY_MAJOR, false,
                                   on_device_ || !placed_.empty()};
    const CUresult result = libraries::post(handle_->stream, callee, message, bytes);
    if (result == CUDA_ERROR_NOT_SUPPORTED) return library_unsupported(name_of(function_));
    if (result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
        return library_unsupported("cuSPARSE in a captured stream");
    return ::cusparse::meaning(result);
}

int OwnCall::send_and_fetch(void* message, size_t bytes) {
    if (placed_.empty() || !handle_ || wrong_) return send(message, bytes);
    if (!libraries::driver()) return ::cusparse::kNotInitialized;
    const std::lock_guard lock(handle_->scratch_mutex);
    int status = ::cusparse::kSuccess;
    const CUresult result =
        placed_.around(handle_->scratch, handle_->stream, [&] { return send(message, bytes); }, status);
    return status != ::cusparse::kSuccess ? status : ::cusparse::meaning(result);
}

int answer_room(const void* handle, bool fits, int* count) {
    return answer(handle, fits, count);
}

int answer_room(const void* handle, bool fits, size_t* bytes) {
    return answer(handle, fits, bytes);
}

int answer_room(const void* handle, const char* function, const Look& look, int* count) {
    return look.fit() == Fit::unsupported ? library_refuses(function, look.why().c_str())
                                          : answer(handle, look.fit() == Fit::fits, count);
}

int answer_room(const void* handle, const char* function, const Look& look, size_t* bytes) {
    return look.fit() == Fit::unsupported ? library_refuses(function, look.why().c_str())
                                          : answer(handle, look.fit() == Fit::fits, bytes);
}

}  // namespace maths::cusparse
