#include "nvidia_cublaslt.h"

#include <cstring>
#include <memory>
#include <string>

#include "cublasLt_messages.h"
#include "host_memory.h"
#include "libraries/cublas/status.h"
#include "nvidia_function.h"

namespace worker {
namespace {

namespace lt = maths::cublasLt;
using cublas::Status;

template <typename... Arguments>
int invoke_named(void* library, const std::string& name, Arguments... arguments) {
    const auto function = reinterpret_cast<int (*)(Arguments...)>(function_of(library, name));
    return function ? function(arguments...) : static_cast<int>(cublas::kNotSupported);
}

// The numbers of cuBLASLt's attributes.
enum LayoutAttribute : int { kOrder = 1, kBatch = 5, kStride = 6 };
enum MatmulAttribute : int {
    kPointerMode = 2,
    kOperationA = 3,
    kOperationB = 4,
    kEpilogue = 7,
    kBiasPointer = 8,
    kBiasStride = 10,
    kKeptPointer = 11,
    kKeptLead = 12,
    kKeptStride = 13,
    kKeptType = 22,
    kBiasType = 26,
};
enum TransformAttribute : int { kTransformMode = 1, kTransformA = 2, kTransformB = 3 };
enum PreferenceAttribute : int { kMostWorkspace = 1, kAlignA = 5, kAlignB = 6, kAlignC = 7, kAlignD = 8 };

// One of NVIDIA's descriptors. The first error of all that is done with it stays.
class Descriptor {
  public:
    template <typename... Values>
    Descriptor(void* library, const char* kind, Values... values) : library_(library), kind_(kind) {
        status_ = invoke_named(library_, name("Create"), &made_, values...);
    }
    ~Descriptor() {
        if (made_) invoke_named(library_, name("Destroy"), made_);
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;

    template <typename Value>
    Descriptor& set(int attribute, Value value) {
        if (status_ == cublas::kSuccess) {
            status_ = invoke_named(library_, name("SetAttribute"), made_, attribute,
                                   static_cast<const void*>(&value), sizeof value);
        }
        return *this;
    }
    void* made() const { return made_; }
    int status() const { return status_; }

  private:
    std::string name(const char* what) const { return std::string("cublasLt") + kind_ + what; }

    void* const library_;
    const char* const kind_;
    void* made_ = nullptr;
    int status_;
};

struct Shape {
    int64_t type, rows, columns, lead, order, batch, stride;
};

class Layout : public Descriptor {
  public:
    Layout(void* library, const Shape& shape)
        : Descriptor(library, "MatrixLayout", static_cast<int>(shape.type), static_cast<uint64_t>(shape.rows),
                     static_cast<uint64_t>(shape.columns), shape.lead) {
        set(kOrder, static_cast<int32_t>(shape.order));
        set(kBatch, static_cast<int32_t>(shape.batch));
        set(kStride, shape.stride);
    }
};

Shape shape_of_factor(int64_t type, int64_t operation, int64_t rows, int64_t columns, int64_t lead,
                      int64_t order, int64_t batch, int64_t stride) {
    if (operation != 0) std::swap(rows, columns);
    return {type, rows, columns, lead, order, batch, stride};
}

int first_error(std::initializer_list<const Descriptor*> descriptors) {
    for (const Descriptor* each : descriptors) {
        if (each->status() != cublas::kSuccess) return each->status();
    }
    return cublas::kSuccess;
}

const void* value_of(const maths::Scalar& scalar, bool on_device) {
    uint64_t address;
    std::memcpy(&address, scalar.bytes, sizeof address);
    return on_device ? reinterpret_cast<const void*>(address) : scalar.bytes;
}

void* at(uint64_t address) {
    return reinterpret_cast<void*>(address);
}

// What an address is a multiple of: NVIDIA's heuristic takes so much for granted.
uint32_t alignment_of(uint64_t address) {
    constexpr uint64_t kMost = 256;
    const uint64_t of = address | kMost;
    return static_cast<uint32_t>(of & (0 - of));
}

struct HeuristicResult {
    uint64_t algorithm[8];
    size_t workspace_bytes;
    int state;
    float waves;
    int reserved[4];
};

void describe(const lt::matmul& m, const LtCall& call, Descriptor& to) {
    to.set(kPointerMode, static_cast<int32_t>(call.scalars_on_device));
    to.set(kOperationA, static_cast<int32_t>(m.transa)).set(kOperationB, static_cast<int32_t>(m.transb));
    to.set(kEpilogue, static_cast<uint32_t>(m.epilogue));
    if ((m.epilogue & lt::kBias) != 0 || lt::gives_gradient(m.epilogue)) {
        to.set(kBiasPointer, lt::gives_gradient(m.epilogue) ? m.gradient : m.bias)
            .set(kBiasStride, m.strideBias);
        if (m.biasType != m.Ctype) to.set(kBiasType, static_cast<int32_t>(m.biasType));
    }
    if ((m.epilogue & lt::kAuxiliary) != 0) {
        to.set(kKeptPointer, lt::is_backward(m.epilogue) ? m.auxiliary : m.kept);
        to.set(kKeptLead, m.leadAuxiliary).set(kKeptStride, m.strideAuxiliary);
        if (!lt::keeps_bits(m.epilogue) && m.auxiliaryType != m.Ctype) {
            to.set(kKeptType, static_cast<int32_t>(m.auxiliaryType));
        }
    }
}

// A product's descriptors, of NVIDIA's library.
class Described {
  public:
    Described(const lt::matmul& m, const LtCall& call)
        : product(call.library, "MatmulDesc", static_cast<int>(m.compute), static_cast<int>(m.scaleType)),
          a(call.library, shape_of_factor(m.Atype, m.transa, m.m, m.k, m.lda, m.orderA, m.batch, m.strideA)),
          b(call.library, shape_of_factor(m.Btype, m.transb, m.k, m.n, m.ldb, m.orderB, m.batch, m.strideB)),
          c(call.library, {m.Ctype, m.m, m.n, m.ldc, m.orderC, m.batch, m.strideC}),
          d(call.library, {m.Ctype, m.m, m.n, m.ldd, m.orderD, m.batch, m.strideD}),
          preference(call.library, "MatmulPreference") {
        describe(m, call, product);
        preference.set(kMostWorkspace, call.workspace_bytes);
        preference.set(kAlignA, alignment_of(m.A)).set(kAlignB, alignment_of(m.B));
        preference.set(kAlignC, alignment_of(m.C)).set(kAlignD, alignment_of(m.D));
    }

    // The algorithm that NVIDIA's heuristic puts first; NOT_SUPPORTED where it has none.
    int find(const LtCall& call, HeuristicResult& best) const {
        if (const int status = first_error({&product, &a, &b, &c, &d, &preference})) return status;
        int found = 0;
        const int status =
            invoke_named(call.library, "cublasLtMatmulAlgoGetHeuristic", call.handle, product.made(),
                         a.made(), b.made(), c.made(), d.made(), preference.made(), 1, &best, &found);
        if (status != cublas::kSuccess || found >= 1) return status;
        return refused(cublas::kNotSupported,
                       "NVIDIA's heuristic has no algorithm for this product that works in " +
                           mib(call.workspace_bytes) +
                           ": give it a larger workspace, or leave "
                           "its epilogue to a call of its own");
    }

    Descriptor product;
    const Layout a, b, c, d;
    Descriptor preference;
};

int invoke(const lt::matmul& m, const LtCall& call) {
    const Described of(m, call);
    HeuristicResult best{};
    if (const int status = of.find(call, best)) return status;
    return invoke_named(call.library, "cublasLtMatmul", call.handle, of.product.made(),
                        value_of(m.alpha, call.scalars_on_device), at(m.A), of.a.made(), at(m.B), of.b.made(),
                        value_of(m.beta, call.scalars_on_device), at(m.C), of.c.made(), at(m.D), of.d.made(),
                        static_cast<const void*>(&best.algorithm), at(call.workspace),
                        static_cast<size_t>(call.workspace_bytes), call.stream);
}

int invoke(const lt::transform& m, const LtCall& call) {
    void* const library = call.library;
    Descriptor sum(library, "MatrixTransformDesc", static_cast<int>(m.scaleType));
    sum.set(kTransformMode, static_cast<int32_t>(call.scalars_on_device));
    sum.set(kTransformA, static_cast<int32_t>(m.transa)).set(kTransformB, static_cast<int32_t>(m.transb));
    const Layout a(library,
                   shape_of_factor(m.Atype, m.transa, m.m, m.n, m.lda, m.orderA, m.batch, m.strideA));
    const Layout b(library,
                   shape_of_factor(m.Btype, m.transb, m.m, m.n, m.ldb, m.orderB, m.batch, m.strideB));
    const Layout c(library, {m.Ctype, m.m, m.n, m.ldc, m.orderC, m.batch, m.strideC});
    if (const int status = first_error({&sum, &a, &b, &c})) return status;
    return invoke_named(library, "cublasLtMatrixTransform", call.handle, sum.made(),
                        value_of(m.alpha, call.scalars_on_device), at(m.A), a.made(),
                        value_of(m.beta, call.scalars_on_device), at(m.B), m.B ? b.made() : nullptr, at(m.C),
                        c.made(), call.stream);
}

}  // namespace

int ask_cublaslt(const void* arguments, const LtCall& call, uint64_t& workspace_bytes) {
    HeuristicResult best{};
    const int status = Described(*static_cast<const lt::matmul*>(arguments), call).find(call, best);
    workspace_bytes = best.workspace_bytes;
    return status;
}

int invoke_cublaslt(uint16_t function, const void* arguments, const LtCall& call) {
    switch (function) {
        case lt::k_cublasLtMatmul:
            return invoke(*static_cast<const lt::matmul*>(arguments), call);
        case lt::k_cublasLtMatrixTransform:
            return invoke(*static_cast<const lt::transform*>(arguments), call);
        default:
            return cublas::kNotSupported;
    }
}

}  // namespace worker
