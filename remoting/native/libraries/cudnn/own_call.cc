#include "own_call.h"

#include <cstring>

#include "cudnn_messages.h"
#include "program_look.h"
#include "roles.h"
#include "status.h"

namespace maths::cudnn {

OwnCall::OwnCall(const void* handle, uint16_t function, bool)
    : handle_(::cudnn::all<::cudnn::Handle>().find(handle)), function_(function) {}

void OwnCall::scalar(Scalar& to, const void* from, Type type) {
    to = {};
    wrong_ |= !from;
    if (from) std::memcpy(to.bytes, from, bytes_of(type));
}

int OwnCall::send(void* message, size_t bytes) {
    if (!handle_ || wrong_) return ::cudnn::kBadParameter;
    libraries::ProgramLook look(kGkCudnn, CUDNN_MAJOR, false, false);
    switch (look_at(function_, message, bytes, look)) {
        case Fit::invalid:
            if (!look.why().empty()) library_tells(name_of(function_), look.why().c_str());
            return ::cudnn::kBadParameter;
        case Fit::unsupported:
            return library_unsupported(name_of(function_));
        default:
            return submit(message, bytes);
    }
}

int OwnCall::ask(void* message, size_t bytes, uint64_t& place, Answer& answer) {
    const libraries::Driver* driver = libraries::driver();
    if (!handle_ || wrong_) return ::cudnn::kBadParameter;
    if (!driver) return ::cudnn::kNotInitialized;
    CUdeviceptr memory = 0;
    if (const CUresult error = driver->allocate(&memory, sizeof answer)) return ::cudnn::meaning(error);
    place = memory;
    const int status = send(message, bytes);
    CUresult result = CUDA_SUCCESS;
    if (status == ::cudnn::kSuccess)
        result = driver->copy_out(&answer, memory, sizeof answer, handle_->stream);
    if (status == ::cudnn::kSuccess && result == CUDA_SUCCESS) result = driver->synchronize(handle_->stream);
    driver->free(memory);
    return status != ::cudnn::kSuccess ? status : ::cudnn::meaning(result);
}

int OwnCall::submit(const void* message, size_t bytes) const {
    const libraries::Driver* driver = libraries::driver();
    if (!driver) return ::cudnn::kNotInitialized;
    if (!driver->library_call || !handle_->can_compute()) return library_unsupported(name_of(function_));
    alignas(8) std::byte call[kGkMostCallBytes];
    GkLibraryCall head{};
    head.library = kGkCudnn;
    head.function = function_;
    head.major = CUDNN_MAJOR;
    std::memcpy(call, &head, sizeof head);
    std::memcpy(call + sizeof head, message, bytes);
    const auto result =
        static_cast<CUresult>(driver->library_call(handle_->stream, call, sizeof head + bytes));
    if (result == CUDA_ERROR_NOT_SUPPORTED) return library_unsupported(name_of(function_));
    if (result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
        return library_unsupported("cuDNN in a captured stream");
    return ::cudnn::meaning(result);
}

}  // namespace maths::cudnn
