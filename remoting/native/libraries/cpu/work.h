// One call at the CPU end.
#pragma once

#include <cuda.h>

#include <complex>
#include <string>
#include <vector>

#include "end.h"
#include "operands.h"

namespace maths {

// Ends the call, with a line for the person.
struct Fault {
    CUresult result;
    std::string line;
};
// Ends a call that was interrupted.
struct Stopped {};
// Ends a call that has changed nothing, and will be done anew when there is room for it.
struct PutBack {};

class Work {
  public:
    Work(const GkSlice& slice, const char* function, bool wide)
        : slice_(slice), function_(function), wide_(wide) {}

    unsigned threads() const { return slice_.threads; }
    bool wide() const { return wide_; }  // integers that a result has are of 64 bits
    bool reach(uint64_t address, uint64_t bytes, bool written) const {
        return slice_.reach(slice_.user, address, bytes, written);
    }
    // Asked between pieces of long work, which is then left.
    bool stopped() const { return slice_.stopped(slice_.user); }
    // What the call takes to work in, beside its operands, until it ends: all of it, once, and before
    // anything is changed or much is computed, since a call without room is ended and begins anew. Throws
    // where it is, was interrupted, or cannot have as much.
    void reserve(uint64_t bytes);
    // For what shows only when operands were read: the whole, with what was reserved for reading them. Where
    // it is not there the call ends, and lets go of what it holds.
    void reserve_again(uint64_t bytes);
    [[noreturn]] void fail(CUresult result, const std::string& why) const {
        throw Fault{result, std::string(function_) + ": " + why};
    }

  private:
    const GkSlice& slice_;
    const char* const function_;
    const bool wide_;
    bool has_room_ = false;
};

template <typename T>
T* at(uint64_t address) {
    return reinterpret_cast<T*>(address);
}
// The i-th of an array of operands, which were looked up: `arrays` is this process's copy.
template <typename T>
T* nth(uint64_t arrays, int64_t i) {
    return arrays ? at<T>(at<uint64_t>(arrays)[i]) : nullptr;
}
template <typename T>
T value(const Scalar& scalar) {
    T result;
    __builtin_memcpy(&result, scalar.bytes, sizeof result);
    return result;
}

template <typename T>
struct RealOf {
    using Type = T;
};
template <typename T>
struct RealOf<std::complex<T>> {
    using Type = T;
};
template <typename T>
using Real = typename RealOf<T>::Type;
template <typename T>
inline constexpr bool kIsComplex = !std::is_same_v<Real<T>, T>;

inline float conjugate(float x) {
    return x;
}
inline double conjugate(double x) {
    return x;
}
template <typename T>
std::complex<T> conjugate(std::complex<T> x) {
    return std::conj(x);
}

// Calls `body` with a value of the type: one of the four that BLAS knows.
template <typename Body>
CUresult of_type(Type type, Body body) {
    switch (type) {
        case kF32:
            return body(float{}), CUDA_SUCCESS;
        case kF64:
            return body(double{}), CUDA_SUCCESS;
        case kC32:
            return body(std::complex<float>{}), CUDA_SUCCESS;
        case kC64:
            return body(std::complex<double>{}), CUDA_SUCCESS;
        default:
            return CUDA_ERROR_NOT_SUPPORTED;
    }
}
template <typename Body>
CUresult of_real_type(Type type, Body body) {
    if (type == kF32) return body(float{}), CUDA_SUCCESS;
    if (type == kF64) return body(double{}), CUDA_SUCCESS;
    return CUDA_ERROR_NOT_SUPPORTED;
}
template <typename Body>
CUresult of_complex_type(Type type, Body body) {
    if (type == kC32) return body(std::complex<float>{}), CUDA_SUCCESS;
    if (type == kC64) return body(std::complex<double>{}), CUDA_SUCCESS;
    return CUDA_ERROR_NOT_SUPPORTED;
}

// A vector that is walked in steps, backwards too: its first element. A step that is never made may be any
// number.
inline int64_t step_of(int64_t n, int64_t step) {
    return n > 1 ? step : 1;
}
template <typename T>
T* first(uint64_t address, int64_t n, int64_t step) {
    return at<T>(address) + (n > 1 && step < 0 ? -step * (n - 1) : 0);
}
// The same of elements of `bytes`.
inline std::byte* first(uint64_t address, int64_t n, int64_t step, uint32_t bytes) {
    return first<std::byte>(address, n, step_of(n, step) * static_cast<int64_t>(bytes));
}

}  // namespace maths
