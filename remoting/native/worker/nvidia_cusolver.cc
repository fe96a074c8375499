#include "nvidia_cusolver.h"

#include <cctype>
#include <optional>
#include <string>
#include <vector>

#include "cusolver_messages.h"
#include "host_memory.h"
#include "libraries/cusolver/status.h"
#include "nvidia_function.h"

namespace worker {
namespace {

// What the generated calls ask for (cusolver_nvidia.inc).
class Calling {
  public:
    static constexpr bool wide = true;  // each function has one form

    Calling(void* library, void* handle, const MakeRoom& make_room, HostMemory& host_memory)
        : handle(handle), library_(library), make_room_(make_room), host_memory_(host_memory) {}
    ~Calling() {
        if (params_) invoke<int(void*)>("cusolverDnDestroyParams", params_);
        if (settings_) invoke<int(void*)>(("cusolverDnDestroy" + settings_kind_ + "Info").c_str(), settings_);
    }
    Calling(const Calling&) = delete;
    Calling& operator=(const Calling&) = delete;

    template <typename Signature, typename... Arguments>
    int invoke(const char* name, Arguments... arguments) const {
        const auto function = reinterpret_cast<Signature*>(function_of(library_, name));
        return function ? function(arguments...) : static_cast<int>(cusolver::kNotSupported);
    }

    int* asked_elements() { return &elements_; }
    size_t* asked_bytes() { return &bytes_; }
    size_t* asked_host_bytes() { return &host_bytes_; }
    // Of so many elements of `element_bytes`, where it was asked for in elements.
    int make_room(uint32_t element_bytes) {
        if (elements_ < 0) return cusolver::kInternalError;
        if (element_bytes) bytes_ = static_cast<size_t>(elements_) * element_bytes;
        host_room_.emplace(host_memory_, host_bytes_);
        if (!*host_room_) return cusolver::kAllocFailed;
        host_.resize(host_bytes_);
        if (bytes_ == 0) return cusolver::kSuccess;
        return make_room_(bytes_, room_) == CUDA_SUCCESS ? cusolver::kSuccess : cusolver::kAllocFailed;
    }
    void* room() const { return reinterpret_cast<void*>(room_); }
    int room_elements() const { return elements_; }
    size_t room_bytes() const { return bytes_; }
    void* host_room() { return host_.data(); }
    size_t host_room_bytes() const { return host_.size(); }

    void* params() {
        if (!params_) invoke<int(void**)>("cusolverDnCreateParams", &params_);
        return params_;
    }
    void* settings(const char* kind, const maths::Settings& settings) {
        if (settings_) return settings_;
        settings_kind_ = kind;
        invoke<int(void**)>(("cusolverDnCreate" + settings_kind_ + "Info").c_str(), &settings_);
        std::string setter = "cusolverDnX" + settings_kind_ + "Set";
        setter[11] = static_cast<char>(std::tolower(setter[11]));
        if (settings.tolerance > 0) invoke<int(void*, double)>((setter + "Tolerance").c_str(), settings_, settings.tolerance);
        invoke<int(void*, int)>((setter + "MaxSweeps").c_str(), settings_, settings.sweeps);
        invoke<int(void*, int)>((setter + "SortEig").c_str(), settings_, settings.sorted);
        return settings_;
    }

    void* const handle;

  private:
    void* const library_;
    const MakeRoom& make_room_;
    HostMemory& host_memory_;
    std::optional<HostMemory::Room> host_room_;
    int elements_ = 0;
    size_t bytes_ = 0, host_bytes_ = 0;
    uint64_t room_ = 0;
    std::vector<std::byte> host_;
    void* params_ = nullptr;
    std::string settings_kind_;
    void* settings_ = nullptr;
};

}  // namespace
}  // namespace worker

namespace maths::cusolver {

static int invoke_function(uint16_t function, const void* arguments, worker::Calling& call) {
    switch (function) {
#include "cusolver_nvidia.inc"
        default:
            return ::cusolver::kNotSupported;
    }
}

}  // namespace maths::cusolver

namespace worker {

CUresult invoke_cusolver(uint16_t function, const void* arguments, void* library, void* handle,
                         CUstream stream, const MakeRoom& make_room, HostMemory& host_memory) {
    Calling call(library, handle, make_room, host_memory);
    const int status = call.invoke<int(void*, void*)>("cusolverDnSetStream", handle, static_cast<void*>(stream));
    if (status != cusolver::kSuccess) return ::cusolver::result_of(status);
    return ::cusolver::result_of(maths::cusolver::invoke_function(function, arguments, call));
}

}  // namespace worker
