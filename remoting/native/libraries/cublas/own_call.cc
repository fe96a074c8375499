#include "own_call.h"

#include <cstring>

#include "cublas_messages.h"
#include "program_look.h"
#include "roles.h"
#include "status.h"

namespace maths::cublas {
namespace {

using ::cublas::meaning;
using ::cublas::Status;

}  // namespace

OwnCall::OwnCall(const void* handle, uint16_t function, bool wide)
    : handle_(::cublas::handles().find(handle)),
      function_(function),
      wide_(wide),
      on_device_(handle_ && handle_->pointers == ::cublas::kDevice) {}

void OwnCall::scalar(Scalar& to, const void* from, Type type) {
    to = {};
    if (!from) null_ = true;
    if (on_device_) {
        std::memcpy(to.bytes, &from, sizeof from);
    } else if (from) {
        std::memcpy(to.bytes, from, bytes_of(type));
    }
}

void OwnCall::placed(uint64_t& to, void* at, Type type, size_t count, Access access) {
    if (!at) null_ = true;
    to = reinterpret_cast<uint64_t>(at);
    if (!on_device_) placed_.add(to, at, bytes_of(type) * count, access);
}

int OwnCall::send(void* message, size_t bytes) {
    if (!handle_) return ::cublas::kNotInitialized;
    if (null_) return ::cublas::kInvalidValue;
    const bool device = on_device_ || !placed_.empty();
    libraries::ProgramLook look(kGkCublas, CUBLAS_MAJOR, wide_, device);
    const Fit fit = look_at(function_, message, bytes, look);
    if (fit == Fit::invalid) return ::cublas::kInvalidValue;
    if (fit == Fit::unsupported) return library_refuses(name_of(function_), look.why().c_str());
    return submit(message, bytes);
}

int OwnCall::submit(void* message, size_t bytes) {
    const libraries::Driver* driver = libraries::driver();
    if (!driver) return ::cublas::kNotInitialized;
    if (!driver->library_call) return library_unsupported(name_of(function_));
    alignas(8) std::byte call[kGkMostCallBytes];
    GkLibraryCall head{};
    head.library = kGkCublas;
    head.function = function_;
    head.major = CUBLAS_MAJOR;
    head.wide = wide_;
    head.scalars_on_device = on_device_ || !placed_.empty();
    head.math = static_cast<uint32_t>(handle_->math.load());
    head.atomics = static_cast<uint32_t>(handle_->atomics.load());
    head.workspace = handle_->workspace;
    head.workspace_bytes = handle_->workspace_bytes;
    std::memcpy(call, &head, sizeof head);
    std::memcpy(call + sizeof head, message, bytes);
    const auto result =
        static_cast<CUresult>(driver->library_call(handle_->stream, call, sizeof head + bytes));
    if (result == CUDA_ERROR_NOT_SUPPORTED) return library_unsupported(name_of(function_));
    if (result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
        return library_unsupported("cuBLAS in a captured stream");
    if (result == CUDA_SUCCESS && info_) *info_ = 0;
    return meaning(result);
}

int OwnCall::send_and_fetch(void* message, size_t bytes) {
    if (placed_.empty() || !handle_ || null_) return send(message, bytes);
    if (!libraries::driver()) return ::cublas::kNotInitialized;
    const std::lock_guard lock(handle_->scratch_mutex);
    int status = ::cublas::kSuccess;
    const CUresult result =
        placed_.around(handle_->scratch, handle_->stream, [&] { return send(message, bytes); }, status);
    return status != ::cublas::kSuccess ? status : meaning(result);
}

}  // namespace maths::cublas
