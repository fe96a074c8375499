// What every end of a call asks first: does it fit together, and which memory does it touch? The functions of
// functions.txt say it to a Look; one is a check alone, another looks into the slice's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "call.h"
#include "extents.h"

namespace maths {

// cudaDataType.
enum Type : int32_t {
    kNoType = -1,
    kF32 = 0,
    kF64 = 1,
    kF16 = 2,
    kI8 = 3,
    kC32 = 4,
    kC64 = 5,
    kI32 = 10,
    kB16 = 14,
    kI64 = 24,
};

// Of an element; 0 for a type that is not known here.
constexpr uint32_t bytes_of(Type type) {
    switch (type) {
        case kI8:
            return 1;
        case kF16:
        case kB16:
            return 2;
        case kF32:
        case kI32:
            return 4;
        case kF64:
        case kC32:
        case kI64:
            return 8;
        case kC64:
            return 16;
        default:
            return 0;
    }
}
constexpr Type real_of(Type type) {
    return type == kC32 ? kF32 : type == kC64 ? kF64 : type;
}
// Of an address: a complex number is two.
constexpr uint32_t align_of(Type type) {
    return bytes_of(real_of(type));
}
constexpr Type as_type(int64_t number) {
    return number >= 0 && number <= kI64 ? static_cast<Type>(number) : kNoType;
}
constexpr bool is_number(int64_t type) {
    return type == kF32 || type == kF64 || type == kF16 || type == kB16 || type == kC32 || type == kC64;
}

constexpr bool is_complex(int64_t type) {
    return type == kC32 || type == kC64;
}
constexpr bool is_int(int64_t value) {
    return value >= INT32_MIN && value <= INT32_MAX;
}

// cublasComputeType_t. In 32 bits there are five, of which three may be faster and less exact.
enum Compute : int32_t {
    kCompute16F = 64,
    kCompute16FPedantic = 65,
    kCompute32F = 68,
    kCompute32FPedantic = 69,
    kCompute64F = 70,
    kCompute64FPedantic = 71,
    kCompute32I = 72,
    kCompute32IPedantic = 73,
    kCompute32FFast16F = 74,
    kCompute32FFast16BF = 75,
    kCompute32FFastTF32 = 77,
};
constexpr bool in_32f(int64_t compute) {
    return compute == kCompute32F || compute == kCompute32FPedantic || compute == kCompute32FFast16F ||
           compute == kCompute32FFast16BF || compute == kCompute32FFastTF32;
}
constexpr bool in_64f(int64_t compute) {
    return compute == kCompute64F || compute == kCompute64FPedantic;
}
constexpr bool in_16f(int64_t compute) {
    return compute == kCompute16F || compute == kCompute16FPedantic;
}
constexpr bool in_32i(int64_t compute) {
    return compute == kCompute32I || compute == kCompute32IPedantic;
}
// Of alpha and beta.
constexpr Type scalar_type(int64_t compute, int64_t result) {
    if (in_16f(compute)) return kF16;
    if (in_32i(compute)) return kI32;
    if (in_64f(compute)) return result == kC64 ? kC64 : kF64;
    return result == kC32 ? kC32 : kF32;
}
// Products that can be asked for, as the table in cublasGemmEx' documentation has them.
constexpr bool product_types(int64_t a, int64_t b, int64_t c, int64_t compute) {
    if (a != b) return false;
    if (in_16f(compute)) return a == kF16 && c == kF16;
    if (in_32i(compute)) return a == kI8 && c == kI32;
    if (in_64f(compute)) return a == c && (a == kF64 || a == kC64);
    if (!in_32f(compute)) return false;
    if (a == c) return a == kF32 || a == kC32 || a == kF16 || a == kB16;
    return c == kF32 && (a == kF16 || a == kB16 || a == kI8);
}

constexpr bool is_op(int64_t value) {
    return value >= 0 && value <= 2;
}
constexpr bool is_fill(int64_t value) {
    return value == 0 || value == 1;
}
constexpr bool is_side(int64_t value) {
    return value == 0 || value == 1;
}
constexpr bool is_diag(int64_t value) {
    return value == 0 || value == 1;
}
// By columns or by rows: of the orders that cuBLASLt has these are done.
constexpr bool is_order(int64_t value) {
    return value == 0 || value == 1;
}

// A value, or the device's address of one.
struct alignas(8) Scalar {
    unsigned char bytes[16];
};

// Of an iteration by rotations.
struct Settings {
    double tolerance = 0;  // 0: the library's own
    int32_t sweeps = 100;
    int32_t sorted = 1;
};
constexpr bool are_settings(const Settings& settings) {
    const bool is_tolerance = settings.tolerance >= 0 && settings.tolerance <= 1e300;  // and a number
    return is_tolerance && settings.sweeps >= 0 && (settings.sorted == 0 || settings.sorted == 1);
}

enum class Access { kRead, kWrite, kChange };

enum class Fit { fits, invalid, unsupported };

struct Operand {
    const char* name;
    uint64_t& address;
    uint64_t bytes;  // of it, or of each
    uint32_t align;
    Access access;
    uint64_t count;  // 0: one operand; else `address` is that of so many addresses
};

// More operands of one call than this no program has, and the worker keeps their addresses.
inline constexpr int64_t kMostArrays = 1 << 20;

// Whether all bytes are 0, but for the sign of a number.
bool is_zero(const Scalar& scalar, Type type);

class Look {
  public:
    Look(bool wide, bool scalars_on_device) : wide_(wide), on_device_(scalars_on_device) {}
    virtual ~Look() = default;
    Look(const Look&) = delete;
    Look& operator=(const Look&) = delete;

    bool wide() const { return wide_; }
    bool scalars_on_device() const { return on_device_; }
    Fit fit() const { return fit_; }
    // What does the call; who does not ask after its limits says that it is a GPU.
    virtual GkEnd end() { return {}; }
    // The first reason stays; `why` is for a person.
    void refuse(Fit fit, std::string why = {});
    const std::string& why() const { return why_; }

    void scalar(const char* name, Scalar& scalar, Type type);
    void memory(const char* name, uint64_t& address, Type type, Extent extent, Access access);
    void arrays(const char* name, uint64_t& address, Type type, Extent extent, int64_t count);
    // Of what was shown as a scalar. False where it lies on the device and nobody has looked.
    bool zero(const char* name) const;

  protected:
    // What the call touches; with `operand.bytes` 0 it must not be touched.
    virtual void operand(const Operand& operand) = 0;
    // A value that lies on the device; true when it was fetched to `scalar`.
    virtual bool fetch(const char* name, Scalar& scalar, Type type) { return false; }

  private:
    static constexpr int kMostScalars = 4;
    const bool wide_, on_device_;
    Fit fit_ = Fit::fits;
    std::string why_;
    struct {
        const char* name;
        bool zero;
    } scalars_[kMostScalars]{};
    int scalar_count_ = 0;
};

// Whether the sizes go together. Where the memory is, the end that computes asks, when the call runs.
class SizesAlone final : public Look {
  public:
    using Look::Look;

  private:
    void operand(const Operand&) override {}
};

}  // namespace maths
