#include "nvidia_cusolver.h"

#include <cctype>
#include <optional>
#include <string>
#include <string_view>
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

    explicit Calling(const CusolverCall& call) : handle(call.handle), call_(call) {}
    ~Calling() {
        if (params_) invoke<int(void*)>("cusolverDnDestroyParams", params_);
        if (settings_) invoke<int(void*)>(("cusolverDnDestroy" + settings_kind_ + "Info").c_str(), settings_);
        if (descriptor_) invoke<int(void*)>("cusparseDestroyMatDescr", descriptor_);
    }
    Calling(const Calling&) = delete;
    Calling& operator=(const Calling&) = delete;

    template <typename Signature, typename... Arguments>
    int invoke(const char* name, Arguments... arguments) const {
        const auto function = reinterpret_cast<Signature*>(function_of(call_.library, name));
        return function ? function(arguments...) : static_cast<int>(cusolver::kNotSupported);
    }

    int* asked_elements() { return &elements_; }
    size_t* asked_bytes() { return &bytes_; }
    size_t* asked_host_bytes() { return &host_bytes_; }
    // Of so many elements of `element_bytes`, where it was asked for in elements.
    int make_room(uint32_t element_bytes) {
        if (elements_ < 0) return cusolver::kInternalError;
        if (element_bytes) bytes_ = static_cast<size_t>(elements_) * element_bytes;
        if (host_bytes_ > 0 && !host_room_.emplace(call_.host_memory, host_bytes_))
            return cusolver::kAllocFailed;
        host_.resize(host_bytes_);
        if (bytes_ == 0) return cusolver::kSuccess;
        return call_.make_room(bytes_, room_) == CUDA_SUCCESS ? cusolver::kSuccess : cusolver::kAllocFailed;
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
        if (settings.tolerance > 0)
            invoke<int(void*, double)>((setter + "Tolerance").c_str(), settings_, settings.tolerance);
        invoke<int(void*, int)>((setter + "MaxSweeps").c_str(), settings_, settings.sweeps);
        invoke<int(void*, int)>((setter + "SortEig").c_str(), settings_, settings.sorted);
        return settings_;
    }

    // A general matrix, for cuSPARSE, which NVIDIA's library needs and so finds its functions.
    void* descriptor(int64_t base) {
        if (invoke<int(void**)>("cusparseCreateMatDescr", &descriptor_) == 0)
            invoke<int(void*, int)>("cusparseSetMatIndexBase", descriptor_, static_cast<int>(base));
        return descriptor_;
    }

    // A result that the library writes on the host; a call has one.
    template <typename Result = double>
    Result* answer(uint64_t) {
        static_assert(sizeof(Result) <= sizeof answer_);
        return reinterpret_cast<Result*>(&answer_);
    }
    int write_answer(int status, uint64_t place, size_t bytes) const {
        if (status != cusolver::kSuccess) return status;
        return call_.write(place, answer_, bytes) == CUDA_SUCCESS ? cusolver::kSuccess
                                                                  : cusolver::kExecutionFailed;
    }

    void* const handle;

  private:
    const CusolverCall& call_;
    std::optional<HostMemory::Room> host_room_;
    int elements_ = 0;
    size_t bytes_ = 0, host_bytes_ = 0;
    uint64_t room_ = 0;
    std::vector<std::byte> host_;
    void* params_ = nullptr;
    std::string settings_kind_;
    void* settings_ = nullptr;
    void* descriptor_ = nullptr;
    uint64_t answer_ = 0;
};

bool is_sparse(uint16_t function) {
    return std::string_view(maths::cusolver::name_of(function)).starts_with("cusolverSp");
}

template <typename Tolerance>
int solve_by_qr(const maths::cusolver::csrlsvqr& m, uint16_t function, Calling& call) {
    const auto at = [](uint64_t address) { return reinterpret_cast<void*>(address); };
    void* const descriptor = call.descriptor(m.base);
    if (!descriptor) return cusolver::kNotSupported;
    using Solve = int(void*, int, int, void*, void*, void*, void*, void*, Tolerance, int, void*, int*);
    const int status = call.invoke<Solve>(
        maths::cusolver::name_of(function), call.handle, static_cast<int>(m.m), static_cast<int>(m.nnz),
        descriptor, at(m.values), at(m.offsets), at(m.indices), at(m.b), static_cast<Tolerance>(m.tolerance),
        static_cast<int>(m.reorder), at(m.x), call.answer<int>(m.singularity));
    return call.write_answer(status, m.singularity, sizeof(int));
}

}  // namespace
}  // namespace worker

namespace maths::cusolver {

static int invoke_function(uint16_t function, const void* arguments, worker::Calling& call) {
    switch (function) {
#include "cusolver_nvidia.inc"
        case k_cusolverSpScsrlsvqr:
        case k_cusolverSpCcsrlsvqr:
            return worker::solve_by_qr<float>(*static_cast<const csrlsvqr*>(arguments), function, call);
        case k_cusolverSpDcsrlsvqr:
        case k_cusolverSpZcsrlsvqr:
            return worker::solve_by_qr<double>(*static_cast<const csrlsvqr*>(arguments), function, call);
        default:
            return ::cusolver::kNotSupported;
    }
}

}  // namespace maths::cusolver

namespace worker {

const char* cusolver_create(uint16_t function) {
    return is_sparse(function) ? "cusolverSpCreate" : "cusolverDnCreate";
}

CUresult invoke_cusolver(uint16_t function, const void* arguments, const CusolverCall& of) {
    Calling call(of);
    const char* const set_stream = is_sparse(function) ? "cusolverSpSetStream" : "cusolverDnSetStream";
    const int status = call.invoke<int(void*, void*)>(set_stream, of.handle, static_cast<void*>(of.stream));
    if (status != cusolver::kSuccess) return ::cusolver::result_of(status);
    return ::cusolver::result_of(maths::cusolver::invoke_function(function, arguments, call));
}

}  // namespace worker
