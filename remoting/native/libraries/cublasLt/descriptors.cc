#include "descriptors.h"

#include <cstring>

#include "roles.h"

using namespace cublas;

namespace cublasLt {
namespace {

const Attribute* find(std::span<const Attribute> attributes, int number) {
    for (const Attribute& attribute : attributes) {
        if (attribute.number == number) return &attribute;
    }
    return nullptr;
}

#define GK_ATTRIBUTE(number, Descriptor, member) {number, offsetof(Descriptor, member), sizeof(Descriptor::member)}
#define GK_ELEMENT(number, Descriptor, member, i)                                                   \
    {number, offsetof(Descriptor, member) + (i) * sizeof(Descriptor{}.member[0]), sizeof(Descriptor{}.member[0])}

constexpr Attribute kLayout[] = {
    GK_ATTRIBUTE(0, Layout, type),    GK_ATTRIBUTE(1, Layout, order),  GK_ATTRIBUTE(2, Layout, rows),
    GK_ATTRIBUTE(3, Layout, columns), GK_ATTRIBUTE(4, Layout, lead),   GK_ATTRIBUTE(5, Layout, batch),
    GK_ATTRIBUTE(6, Layout, stride),  GK_ATTRIBUTE(7, Layout, plane),  GK_ATTRIBUTE(8, Layout, batch_mode),
};
constexpr Attribute kMatmul[] = {
    GK_ATTRIBUTE(0, MatmulDescriptor, compute),
    GK_ATTRIBUTE(1, MatmulDescriptor, scale_type),
    GK_ATTRIBUTE(2, MatmulDescriptor, pointer_mode),
    GK_ATTRIBUTE(3, MatmulDescriptor, transa),
    GK_ATTRIBUTE(4, MatmulDescriptor, transb),
    GK_ATTRIBUTE(5, MatmulDescriptor, transc),
    GK_ATTRIBUTE(6, MatmulDescriptor, fill),
    GK_ATTRIBUTE(7, MatmulDescriptor, epilogue),
    GK_ATTRIBUTE(8, MatmulDescriptor, bias),
    GK_ATTRIBUTE(10, MatmulDescriptor, bias_stride),
    GK_ATTRIBUTE(11, MatmulDescriptor, auxiliary),
    GK_ATTRIBUTE(12, MatmulDescriptor, auxiliary_lead),
    GK_ATTRIBUTE(13, MatmulDescriptor, auxiliary_stride),
    GK_ATTRIBUTE(14, MatmulDescriptor, alpha_stride),
    GK_ATTRIBUTE(15, MatmulDescriptor, multiprocessors),
    GK_ELEMENT(17, MatmulDescriptor, factors, 0),
    GK_ELEMENT(18, MatmulDescriptor, factors, 1),
    GK_ELEMENT(19, MatmulDescriptor, factors, 2),
    GK_ELEMENT(20, MatmulDescriptor, factors, 3),
    GK_ELEMENT(21, MatmulDescriptor, factors, 4),
    GK_ATTRIBUTE(22, MatmulDescriptor, auxiliary_type),
    GK_ELEMENT(23, MatmulDescriptor, factors, 5),
    GK_ELEMENT(24, MatmulDescriptor, factors, 6),
    GK_ATTRIBUTE(25, MatmulDescriptor, fast_sums),
    GK_ATTRIBUTE(26, MatmulDescriptor, bias_type),
    GK_ELEMENT(31, MatmulDescriptor, factor_modes, 0),
    GK_ELEMENT(32, MatmulDescriptor, factor_modes, 1),
    GK_ELEMENT(33, MatmulDescriptor, factor_modes, 2),
    GK_ELEMENT(34, MatmulDescriptor, factor_modes, 3),
    GK_ELEMENT(35, MatmulDescriptor, factor_modes, 4),
};
constexpr Attribute kTransform[] = {
    GK_ATTRIBUTE(0, TransformDescriptor, scale_type),
    GK_ATTRIBUTE(1, TransformDescriptor, pointer_mode),
    GK_ATTRIBUTE(2, TransformDescriptor, transa),
    GK_ATTRIBUTE(3, TransformDescriptor, transb),
};
constexpr Attribute kPreference[] = {
    GK_ATTRIBUTE(0, Preference, search_mode), GK_ATTRIBUTE(1, Preference, most_workspace),
    GK_ATTRIBUTE(3, Preference, reductions),  GK_ELEMENT(5, Preference, align, 0),
    GK_ELEMENT(6, Preference, align, 1),      GK_ELEMENT(7, Preference, align, 2),
    GK_ELEMENT(8, Preference, align, 3),      GK_ATTRIBUTE(9, Preference, most_waves),
    GK_ATTRIBUTE(12, Preference, implementations),
};
constexpr Attribute kAlgorithm[] = {
    GK_ATTRIBUTE(0, Algorithm, id),      GK_ATTRIBUTE(1, Algorithm, tile),        GK_ATTRIBUTE(2, Algorithm, split),
    GK_ATTRIBUTE(3, Algorithm, reduction), GK_ATTRIBUTE(4, Algorithm, swizzle),   GK_ATTRIBUTE(5, Algorithm, custom),
    GK_ATTRIBUTE(6, Algorithm, stages),  GK_ATTRIBUTE(7, Algorithm, inner_shape), GK_ATTRIBUTE(8, Algorithm, cluster),
};

template <typename Descriptor>
Status create(void** to, const Descriptor& values) {
    if (!to) return kInvalidValue;
    *to = all_of<Descriptor>().add();
    if (!*to) return kAllocFailed;
    *all_of<Descriptor>().find(*to) = values;
    return kSuccess;
}

template <typename Descriptor>
Status destroy(void* descriptor) {
    return all_of<Descriptor>().remove(descriptor) ? kSuccess : kInvalidValue;
}

}  // namespace

Status set_attribute(void* descriptor, std::span<const Attribute> attributes, int number, const void* from,
                     size_t bytes, const char* function) {
    const Attribute* attribute = find(attributes, number);
    if (!descriptor || !from) return kInvalidValue;
    if (!attribute) return static_cast<Status>(library_unsupported(function));
    if (bytes != attribute->bytes) return kInvalidValue;
    std::memcpy(static_cast<std::byte*>(descriptor) + attribute->offset, from, bytes);
    return kSuccess;
}

// With `bytes` 0 the program asks how many there are.
Status get_attribute(const void* descriptor, std::span<const Attribute> attributes, int number, void* to,
                     size_t bytes, size_t* written, const char* function) {
    const Attribute* attribute = find(attributes, number);
    if (!descriptor || (bytes == 0 && !written) || (bytes != 0 && !to)) return kInvalidValue;
    if (!attribute) return static_cast<Status>(library_unsupported(function));
    if (bytes != 0 && bytes != attribute->bytes) return kInvalidValue;
    if (bytes != 0) std::memcpy(to, static_cast<const std::byte*>(descriptor) + attribute->offset, bytes);
    if (written) *written = attribute->bytes;
    return kSuccess;
}

}  // namespace cublasLt

using namespace cublasLt;

CUBLAS_EXPORT Status cublasLtMatrixLayoutCreate(void** layout, int type, uint64_t rows, uint64_t columns, int64_t lead) {
    Layout made;
    made.type = static_cast<uint32_t>(type);
    made.rows = rows, made.columns = columns, made.lead = lead;
    return create(layout, made);
}

CUBLAS_EXPORT Status cublasLtMatmulDescCreate(void** descriptor, int compute, int scale_type) {
    MatmulDescriptor made;
    made.compute = compute, made.scale_type = scale_type;
    return create(descriptor, made);
}

CUBLAS_EXPORT Status cublasLtMatrixTransformDescCreate(void** descriptor, int scale_type) {
    TransformDescriptor made;
    made.scale_type = scale_type;
    return create(descriptor, made);
}

CUBLAS_EXPORT Status cublasLtMatmulPreferenceCreate(void** preference) {
    return create(preference, Preference{});
}

#define GK_DESCRIPTOR(name, Descriptor, attributes)                                                               \
    CUBLAS_EXPORT Status cublasLt##name##Destroy(void* descriptor) {                                              \
        return destroy<Descriptor>(descriptor);                                                                   \
    }                                                                                                             \
    CUBLAS_EXPORT Status cublasLt##name##SetAttribute(void* descriptor, int number, const void* from,             \
                                                      size_t bytes) {                                             \
        return set_attribute(all_of<Descriptor>().find(descriptor).get(), attributes, number, from, bytes,        \
                             "cublasLt" #name "SetAttribute with such an attribute");                             \
    }                                                                                                             \
    CUBLAS_EXPORT Status cublasLt##name##GetAttribute(void* descriptor, int number, void* to, size_t bytes,       \
                                                      size_t* written) {                                          \
        return get_attribute(all_of<Descriptor>().find(descriptor).get(), attributes, number, to, bytes, written, \
                             "cublasLt" #name "GetAttribute with such an attribute");                             \
    }

GK_DESCRIPTOR(MatrixLayout, Layout, kLayout)
GK_DESCRIPTOR(MatmulDesc, MatmulDescriptor, kMatmul)
GK_DESCRIPTOR(MatrixTransformDesc, TransformDescriptor, kTransform)
GK_DESCRIPTOR(MatmulPreference, Preference, kPreference)

CUBLAS_EXPORT Status cublasLtMatmulAlgoConfigSetAttribute(Algorithm* algorithm, int number, const void* from,
                                                          size_t bytes) {
    return set_attribute(algorithm, kAlgorithm, number, from, bytes,
                         "cublasLtMatmulAlgoConfigSetAttribute with such an attribute");
}

CUBLAS_EXPORT Status cublasLtMatmulAlgoConfigGetAttribute(const Algorithm* algorithm, int number, void* to,
                                                          size_t bytes, size_t* written) {
    return get_attribute(algorithm, kAlgorithm, number, to, bytes, written,
                         "cublasLtMatmulAlgoConfigGetAttribute with such an attribute");
}
