// cuBLASLt's calls that compute: from descriptors to a message, which is looked at and sent.
#include <algorithm>
#include <cstring>
#include <initializer_list>

#include "algorithms.h"
#include "cublas/status.h"
#include "cublasLt_messages.h"
#include "descriptors.h"
#include "driver.h"
#include "program_look.h"
#include "roles.h"

using namespace cublas;
using namespace cublasLt;
using maths::Fit;
using maths::Scalar;
using maths::Type;

namespace {

enum PointerMode : int { kHost = 0, kDevice = 1 };

constexpr uint64_t kBatchesInStrides = 0;

class ProductLook final : public libraries::ProgramLook {
  public:
    explicit ProductLook(bool scalars_on_device)
        : ProgramLook(kGkCublasLt, CUBLAS_MAJOR, true, scalars_on_device) {}
    // An address is null of what must be there. Where scalars lie on the device, what is read alone may not
    // be needed.
    bool lacks() const { return lacks_; }

  private:
    void operand(const maths::Operand& operand) override {
        const bool may_lack = scalars_on_device() && operand.access == maths::Access::kRead;
        lacks_ |= operand.bytes != 0 && operand.address == 0 && !may_lack;
    }

    bool lacks_ = false;
};

// What a product is, without its memory.
template <typename Message>
struct Asked {
    Status status = kSuccess;
    Message message{};
    bool scalars_on_device = false;
};

// `has_memory`: operands are to be there, which a question for an algorithm does not name.
template <typename Message>
Status fit(uint16_t function, Asked<Message>& asked, bool has_memory) {
    if (asked.status != kSuccess) return asked.status;
    Message copy = asked.message;
    ProductLook look(asked.scalars_on_device);
    switch (maths::cublasLt::look_at(function, &copy, sizeof copy, look)) {
        case Fit::fits:
            return has_memory && look.lacks() ? kInvalidValue : kSuccess;
        case Fit::invalid:
            return kInvalidValue;
        default:
            return static_cast<Status>(
                library_refuses(maths::cublasLt::name_of(function), look.why().c_str()));
    }
}

Scalar scalar_of(const void* value, int type, bool on_device) {
    Scalar scalar{};
    if (on_device) {
        std::memcpy(scalar.bytes, &value, sizeof value);
    } else if (value) {
        std::memcpy(scalar.bytes, value, maths::bytes_of(maths::as_type(type)));
    }
    return scalar;
}

int64_t length_of(uint64_t size) {
    return size > INT64_MAX ? -1 : static_cast<int64_t>(size);  // which no size is
}

// Whether a matrix has the rows and columns that op(it) is to have.
bool has_shape(const Layout& layout, int64_t operation, int64_t rows, int64_t columns) {
    if (operation != 0) std::swap(rows, columns);
    return length_of(layout.rows) == rows && length_of(layout.columns) == columns;
}

bool are_strided(std::initializer_list<const Layout*> layouts) {
    return std::all_of(layouts.begin(), layouts.end(), [](const Layout* layout) {
        return layout->batch_mode == kBatchesInStrides && layout->plane == 0;
    });
}

bool have_batch(std::initializer_list<const Layout*> layouts, int32_t batch) {
    return std::all_of(layouts.begin(), layouts.end(),
                       [&](const Layout* layout) { return layout->batch == batch; });
}

Status send(GkLibraryCall head, void* message, size_t bytes, CUstream stream) {
    const char* const name = maths::cublasLt::name_of(head.function);
    const libraries::Driver* driver = libraries::driver();
    if (!driver) return kNotInitialized;
    if (!driver->library_call) return static_cast<Status>(library_unsupported(name));
    std::byte call[kGkMostCallBytes];
    head.library = kGkCublasLt;
    head.major = CUBLAS_MAJOR;
    head.wide = 1;
    std::memcpy(call, &head, sizeof head);
    std::memcpy(call + sizeof head, message, bytes);
    const auto result = static_cast<CUresult>(driver->library_call(stream, call, sizeof head + bytes));
    if (result == CUDA_ERROR_NOT_SUPPORTED) return static_cast<Status>(library_unsupported(name));
    if (result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) {
        return static_cast<Status>(library_unsupported("cuBLASLt in a captured stream"));
    }
    return meaning(result);
}

// Settings that change what is computed, and that are not done.
const char* what_is_not_done(const MatmulDescriptor& of, const std::initializer_list<const Layout*> layouts) {
    if (of.pointer_mode != kHost && of.pointer_mode != kDevice)
        return "cublasLtMatmul with alpha as a vector";
    if (of.transc != 0 || of.fill != kWholeMatrix) return "cublasLtMatmul with a transposed C, or a triangle";
    if (std::any_of(std::begin(of.factors), std::end(of.factors), [](uint64_t at) { return at != 0; })) {
        return "cublasLtMatmul with factors of its operands";
    }
    return are_strided(layouts) ? nullptr : "cublasLtMatmul with arrays of matrices, or planes";
}

using Matmul = Asked<maths::cublasLt::matmul>;

Matmul matmul_of(void* descriptor, void* a_layout, void* b_layout, void* c_layout, void* d_layout) {
    Matmul asked;
    const auto of = all_of<MatmulDescriptor>().find(descriptor);
    const auto a = all_of<Layout>().find(a_layout), b = all_of<Layout>().find(b_layout);
    const auto c = all_of<Layout>().find(c_layout), d = all_of<Layout>().find(d_layout);
    if (!of || !a || !b || !c || !d) return asked.status = kInvalidValue, asked;
    if (const char* name = what_is_not_done(*of, {a.get(), b.get(), c.get(), d.get()})) {
        return asked.status = static_cast<Status>(library_unsupported(name)), asked;
    }
    if (d->type != c->type) {
        return asked.status =
                   static_cast<Status>(library_unsupported("cublasLtMatmul with C of another type than D")),
               asked;
    }
    auto& m = asked.message;
    m.transa = of->transa, m.transb = of->transb;
    m.m = length_of(d->rows), m.n = length_of(d->columns),
    m.k = length_of(of->transa == 0 ? a->columns : a->rows);
    m.batch = d->batch;
    const bool fits = has_shape(*a, m.transa, m.m, m.k) && has_shape(*b, m.transb, m.k, m.n) &&
                      has_shape(*c, 0, m.m, m.n) && have_batch({a.get(), b.get(), c.get()}, d->batch);
    if (!fits) return asked.status = kInvalidValue, asked;
    m.Atype = a->type, m.orderA = a->order, m.lda = a->lead, m.strideA = a->stride;
    m.Btype = b->type, m.orderB = b->order, m.ldb = b->lead, m.strideB = b->stride;
    m.Ctype = c->type, m.orderC = c->order, m.ldc = c->lead, m.strideC = c->stride;
    m.orderD = d->order, m.ldd = d->lead, m.strideD = d->stride;
    m.compute = of->compute, m.scaleType = of->scale_type, m.epilogue = of->epilogue;
    m.biasType = of->bias_type == kSameType ? m.Ctype : of->bias_type;
    m.auxiliaryType = of->auxiliary_type == kSameType ? m.Ctype : of->auxiliary_type;
    m.strideBias = of->bias_stride, m.leadAuxiliary = of->auxiliary_lead,
    m.strideAuxiliary = of->auxiliary_stride;
    (maths::cublasLt::gives_gradient(m.epilogue) ? m.gradient : m.bias) = of->bias;
    (maths::cublasLt::is_backward(m.epilogue) ? m.auxiliary : m.kept) = of->auxiliary;
    asked.scalars_on_device = of->pointer_mode == kDevice;
    return asked;
}

struct HeuristicResult {
    Algorithm algorithm;
    size_t workspace_bytes;
    Status state;
    float waves;
    int reserved[4];
};

constexpr HeuristicResult kTheOne = {{}, 0, kSuccess, 1, {}};

// Whether what computes would do it, and what the algorithm needs.
Status ask(Matmul& asked, const Preference& preference, HeuristicResult& result) {
    constexpr auto kFunction = maths::cublasLt::k_cublasLtMatmul;
    if (Status status = fit(kFunction, asked, false)) return status;
    auto& m = asked.message;
    m.A = preference.align[0], m.B = preference.align[1], m.C = preference.align[2],
    m.D = preference.align[3];
    HeuristicResult found = kTheOne;
    const Status status =
        find_algorithm(m, asked.scalars_on_device, preference.most_workspace, found.algorithm.workspace);
    if (status != kSuccess) return status;
    found.workspace_bytes = found.algorithm.workspace;
    result = found;
    return kSuccess;
}

}  // namespace

CUBLAS_EXPORT Status cublasLtMatmul(void* handle, void* descriptor, const void* alpha, const void* a,
                                    void* a_layout, const void* b, void* b_layout, const void* beta,
                                    const void* c, void* c_layout, void* d, void* d_layout, const Algorithm*,
                                    void* workspace, size_t bytes, CUstream stream) {
    if (!handle) return kNotInitialized;
    if (!alpha || !beta) return kInvalidValue;
    Matmul asked = matmul_of(descriptor, a_layout, b_layout, c_layout, d_layout);
    auto& m = asked.message;
    const auto type = static_cast<int>(m.scaleType);
    m.alpha = scalar_of(alpha, type, asked.scalars_on_device),
    m.beta = scalar_of(beta, type, asked.scalars_on_device);
    m.A = reinterpret_cast<uint64_t>(a), m.B = reinterpret_cast<uint64_t>(b);
    m.C = reinterpret_cast<uint64_t>(c), m.D = reinterpret_cast<uint64_t>(d);
    if (Status status = fit(maths::cublasLt::k_cublasLtMatmul, asked, true)) return status;
    GkLibraryCall head{};
    head.function = maths::cublasLt::k_cublasLtMatmul;
    head.scalars_on_device = asked.scalars_on_device;
    head.workspace = reinterpret_cast<uint64_t>(workspace), head.workspace_bytes = bytes;
    return send(head, &m, sizeof m, stream);
}

CUBLAS_EXPORT Status cublasLtMatmulAlgoGetHeuristic(void* handle, void* descriptor, void* a_layout,
                                                    void* b_layout, void* c_layout, void* d_layout,
                                                    void* preference, int most, HeuristicResult* results,
                                                    int* count) {
    if (count) *count = 0;
    if (!handle) return kNotInitialized;
    if (most < 1 || !results || !count) return kInvalidValue;
    const auto hints = all_of<Preference>().find(preference);
    Matmul asked = matmul_of(descriptor, a_layout, b_layout, c_layout, d_layout);
    if (Status status = ask(asked, hints ? *hints : Preference{}, *results)) return status;
    *count = 1;
    return kSuccess;
}

CUBLAS_EXPORT Status cublasLtMatmulAlgoCheck(void* handle, void* descriptor, void* a_layout, void* b_layout,
                                             void* c_layout, void* d_layout, const Algorithm* algorithm,
                                             HeuristicResult* result) {
    if (!handle) return kNotInitialized;
    if (!algorithm || !result) return kInvalidValue;
    Matmul asked = matmul_of(descriptor, a_layout, b_layout, c_layout, d_layout);
    const Preference as_found{.most_workspace = algorithm->workspace};
    const Algorithm given = *algorithm;  // which may lie in the result
    if (Status status = ask(asked, as_found, *result)) return status;
    result->algorithm = given;
    return kSuccess;
}

CUBLAS_EXPORT Status cublasLtMatmulAlgoGetIds(void* handle, int, int, int, int, int, int, int most, int* ids,
                                              int* count) {
    if (!handle) return kNotInitialized;
    if (most < 1 || !ids || !count) return kInvalidValue;
    ids[0] = kTheOne.algorithm.id;
    *count = 1;
    return kSuccess;
}

CUBLAS_EXPORT Status cublasLtMatmulAlgoInit(void* handle, int, int, int, int, int, int, int id,
                                            Algorithm* algorithm) {
    if (!handle) return kNotInitialized;
    if (!algorithm || id != kTheOne.algorithm.id) return kInvalidValue;
    *algorithm = kTheOne.algorithm;
    return kSuccess;
}

CUBLAS_EXPORT Status cublasLtMatrixTransform(void* handle, void* descriptor, const void* alpha, const void* a,
                                             void* a_layout, const void* beta, const void* b, void* b_layout,
                                             void* c, void* c_layout, CUstream stream) {
    if (!handle) return kNotInitialized;
    const auto of = all_of<TransformDescriptor>().find(descriptor);
    const auto first = all_of<Layout>().find(a_layout), to = all_of<Layout>().find(c_layout);
    auto second = all_of<Layout>().find(b_layout);
    // There need not be a second matrix.
    if (!b) second = first;
    const bool on_device = of && of->pointer_mode == kDevice;
    if (!of || !first || !second || !to || !alpha || (!beta && (b || on_device))) return kInvalidValue;
    if (of->pointer_mode != kHost && of->pointer_mode != kDevice) {
        return static_cast<Status>(library_unsupported("cublasLtMatrixTransform with alpha as a vector"));
    }
    if (!are_strided({first.get(), second.get(), to.get()})) {
        return static_cast<Status>(
            library_unsupported("cublasLtMatrixTransform with arrays of matrices, or planes"));
    }
    Asked<maths::cublasLt::transform> asked;
    asked.scalars_on_device = on_device;
    auto& m = asked.message;
    m.transa = of->transa, m.transb = b ? of->transb : of->transa;
    m.m = length_of(to->rows), m.n = length_of(to->columns), m.batch = to->batch;
    if (!has_shape(*first, m.transa, m.m, m.n) || !has_shape(*second, m.transb, m.m, m.n) ||
        !have_batch({first.get(), second.get()}, to->batch)) {
        return kInvalidValue;
    }
    m.alpha = scalar_of(alpha, of->scale_type, asked.scalars_on_device);
    if (b || on_device) m.beta = scalar_of(beta, of->scale_type, asked.scalars_on_device);
    m.scaleType = of->scale_type;
    m.A = reinterpret_cast<uint64_t>(a), m.B = reinterpret_cast<uint64_t>(b),
    m.C = reinterpret_cast<uint64_t>(c);
    m.Atype = first->type, m.orderA = first->order, m.lda = first->lead, m.strideA = first->stride;
    m.Btype = second->type, m.orderB = second->order, m.ldb = second->lead, m.strideB = second->stride;
    m.Ctype = to->type, m.orderC = to->order, m.ldc = to->lead, m.strideC = to->stride;
    if (Status status = fit(maths::cublasLt::k_cublasLtMatrixTransform, asked, true)) return status;
    GkLibraryCall head{};
    head.function = maths::cublasLt::k_cublasLtMatrixTransform;
    head.scalars_on_device = asked.scalars_on_device;
    return send(head, &m, sizeof m, stream);
}
