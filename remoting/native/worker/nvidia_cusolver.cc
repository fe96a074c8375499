#include "nvidia_cusolver.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <numeric>
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

// What helps where the worker has no room for what a library works in.
constexpr const char* kSmaller = "Solve a smaller system, or on the program's own processor";

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
            return refused(cusolver::kAllocFailed, host_room_->refusal("its work", kSmaller));
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

    const CusolverCall& of() const { return call_; }

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

// A sparse system, copied to the worker's own memory: NVIDIA's library believes offsets and indices, and any
// work of the program's might change those that lie in the slice.
class SparseSystem {
  public:
    SparseSystem(const maths::cusolver::csrlsvqr& m, size_t element)
        : m_(m),
          element_(element),
          offsets_(static_cast<size_t>(m.m) + 1),
          indices_(static_cast<size_t>(m.nnz)),
          values_(static_cast<size_t>(m.nnz) * element),
          b_(static_cast<size_t>(m.m) * element),
          x_(b_.size()) {}

    // What it takes, and its solution at most: factors without a zero, with as much for finding an order.
    static uint64_t bytes_for(const maths::cusolver::csrlsvqr& m, size_t element) {
        const uint64_t rows = maths::sum(maths::length(m.m), 1), entries = maths::length(m.nnz);
        const uint64_t factors = maths::product(maths::product(rows, rows), element + 4 * sizeof(int));
        const uint64_t lists = maths::product(maths::sum(rows, entries), 2 * element + 8 * sizeof(int));
        return maths::sum(factors, lists);
    }

    CUresult copy_in(const CusolverCall& call) {
        const auto read = [&](uint64_t from, auto& to) {
            return call.read(from, to.data(), to.size() * sizeof to[0]);
        };
        if (CUresult error = read(m_.offsets, offsets_)) return error;
        if (CUresult error = read(m_.indices, indices_)) return error;
        if (CUresult error = read(m_.values, values_)) return error;
        return read(m_.b, b_);
    }
    CUresult copy_out(const CusolverCall& call) const { return call.put(m_.x, x_.data(), x_.size()); }

    bool goes_together() const {
        const auto base = static_cast<int>(m_.base);
        const auto is_column = [&](int index) { return index >= base && index - base < m_.m; };
        return offsets_.front() == base && offsets_.back() - int64_t{base} == m_.nnz &&
               std::is_sorted(offsets_.begin(), offsets_.end()) &&
               std::all_of(indices_.begin(), indices_.end(), is_column);
    }
    // Each row by its columns, which a library may count on; false where one has a column twice.
    bool sort_rows() {
        std::vector<int> order, columns;
        std::vector<std::byte> values;
        for (size_t row = 0; row + 1 < offsets_.size(); ++row) {
            const auto first = static_cast<size_t>(offsets_[row] - m_.base),
                       count = static_cast<size_t>(offsets_[row + 1] - offsets_[row]);
            int* const own = indices_.data() + first;
            if (std::adjacent_find(own, own + count, std::greater_equal()) == own + count) continue;
            order.resize(count);
            std::iota(order.begin(), order.end(), 0);
            std::sort(order.begin(), order.end(), [&](int a, int b) { return own[a] < own[b]; });
            columns.assign(own, own + count);
            values.assign(values_.data() + first * element_, values_.data() + (first + count) * element_);
            for (size_t i = 0; i < count; ++i) {
                const auto from = static_cast<size_t>(order[i]);
                own[i] = columns[from];
                if (i > 0 && own[i] == own[i - 1]) return false;
                std::copy_n(values.data() + from * element_, element_,
                            values_.data() + (first + i) * element_);
            }
        }
        return true;
    }

    template <typename Tolerance>
    int solve(uint16_t function, void* descriptor, Calling& call) {
        using Solve = int(void*, int, int, void*, const void*, const int*, const int*, const void*, Tolerance,
                          int, void*, int*);
        const std::string name = std::string(maths::cusolver::name_of(function)) + "Host";
        return call.invoke<Solve>(name.c_str(), call.handle, static_cast<int>(m_.m), static_cast<int>(m_.nnz),
                                  descriptor, values_.data(), offsets_.data(), indices_.data(), b_.data(),
                                  static_cast<Tolerance>(m_.tolerance), static_cast<int>(m_.reorder),
                                  x_.data(), call.answer<int>(m_.singularity));
    }

  private:
    const maths::cusolver::csrlsvqr& m_;
    const size_t element_;  // bytes of a number
    std::vector<int> offsets_, indices_;
    std::vector<std::byte> values_, b_, x_;
};

// By the library's function for the host: the one for the device reads the matrix in the slice, and takes
// memory of the GPU that nobody is told of.
template <typename Tolerance>
int solve_by_qr(const maths::cusolver::csrlsvqr& m, uint16_t function, size_t element, Calling& call) {
    const HostMemory::Room room(call.of().host_memory, SparseSystem::bytes_for(m, element));
    if (!room) return refused(cusolver::kAllocFailed, room.refusal("its solution", kSmaller));
    SparseSystem system(m, element);
    if (system.copy_in(call.of()) != CUDA_SUCCESS) return cusolver::kExecutionFailed;
    if (!system.goes_together() || !system.sort_rows()) {
        return refused(
            cusolver::kInvalidValue,
            "A's offsets do not go up to its entries, or an index is no column of it, or twice in a row");
    }
    void* const descriptor = call.descriptor(m.base);
    if (!descriptor) return cusolver::kNotSupported;
    const int status = system.solve<Tolerance>(function, descriptor, call);
    if (status == cusolver::kSuccess && system.copy_out(call.of()) != CUDA_SUCCESS)
        return cusolver::kExecutionFailed;
    return call.write_answer(status, m.singularity, sizeof(int));
}

}  // namespace
}  // namespace worker

namespace maths::cusolver {

static int invoke_function(uint16_t function, const void* arguments, worker::Calling& call) {
    switch (function) {
#include "cusolver_nvidia.inc"
        case k_cusolverSpScsrlsvqr:
            return worker::solve_by_qr<float>(*static_cast<const csrlsvqr*>(arguments), function, 4, call);
        case k_cusolverSpDcsrlsvqr:
            return worker::solve_by_qr<double>(*static_cast<const csrlsvqr*>(arguments), function, 8, call);
        case k_cusolverSpCcsrlsvqr:
            return worker::solve_by_qr<float>(*static_cast<const csrlsvqr*>(arguments), function, 8, call);
        case k_cusolverSpZcsrlsvqr:
            return worker::solve_by_qr<double>(*static_cast<const csrlsvqr*>(arguments), function, 16, call);
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
