// Descriptors, in the program's process: made, filled in, read and ended. A call takes a copy of them.
#include <algorithm>
#include <cstring>

#include "cudnn/describing.h"
#include "cudnn/rules.h"
#include "roles.h"
#include "status.h"

using namespace cudnn;
using namespace maths;
using namespace maths::cudnn;

namespace {

bool is_format(int format) {
    return format == kNchw || format == kNhwc;
}

Status set_tensor(const void* descriptor, const Tensor& tensor) {
    if (element_type(tensor.type) == kNoType) return kNotSupported;
    return is_tensor(tensor) ? set(descriptor, tensor) : kBadParameter;
}

Status set_packed(const void* descriptor, int format, int type, int rank, const int* dims) {
    if (!dims || rank < 1 || rank > kMostDims) return kBadParameter;
    if (!is_format(format)) return kNotSupported;
    Tensor tensor{type, rank, {}, {}};
    std::copy_n(dims, rank, tensor.dims);
    pack(tensor, format == kNhwc);
    return set_tensor(descriptor, tensor);
}

Status set_filter(const void* descriptor, int type, int format, int rank, const int* dims) {
    if (!dims || rank < 3 || rank > kMostDims) return kBadParameter;
    if (!is_format(format) || element_type(type) == kNoType) return kNotSupported;
    Filter filter{type, format, rank, 0, {}};
    std::copy_n(dims, rank, filter.dims);
    return spanned(filter).fits ? set(descriptor, filter) : kBadParameter;
}

Status set_convolution(const void* descriptor, int rank, const int* pads, const int* strides, const int* dilations,
                       int mode, int compute) {
    if (!pads || !strides || !dilations || rank < 1 || rank > kMostSpatial || mode < 0 || mode > 1) {
        return kBadParameter;
    }
    for (int i = 0; i < rank; ++i) {
        if (pads[i] < 0 || strides[i] < 1 || dilations[i] < 1) return kBadParameter;
    }
    return with<Convolution>(descriptor, [&](Convolution& own) {
        // What other functions have set stays.
        own.rank = rank, own.mode = mode, own.compute = compute, own.groups = std::max(own.groups, 1);
        std::copy_n(pads, rank, own.pads);
        std::copy_n(pads, rank, own.pads_after);
        std::copy_n(strides, rank, own.strides);
        std::copy_n(dilations, rank, own.dilations);
        return kSuccess;
    });
}

Status set_pooling(const void* descriptor, int mode, int nan, int rank, const int* window, const int* pads,
                   const int* strides) {
    if (!window || !pads || !strides || rank < 1 || rank > kMostSpatial || mode < 0 || mode > 3) return kBadParameter;
    Pooling pooling{mode, nan, rank, 0, {}, {}, {}};
    for (int i = 0; i < rank; ++i) {
        if (window[i] < 1 || pads[i] < 0 || strides[i] < 1) return kBadParameter;
        pooling.window[i] = window[i], pooling.pads[i] = pads[i], pooling.strides[i] = strides[i];
    }
    return set(descriptor, pooling);
}

template <typename Descriptor>
Status size_in_bytes(const void* descriptor, size_t* bytes) {
    if (!bytes) return kNullPointer;
    return with<Descriptor>(descriptor, [&](Descriptor& own) {
        const Extent extent = spanned(own);
        if (!extent.fits) return kBadParameter;
        *bytes = product(extent.elements, bytes_of(type_of(own)));
        return kSuccess;
    });
}

}  // namespace

DESCRIPTOR(Tensor, Tensor)
DESCRIPTOR(Filter, Filter)
DESCRIPTOR(Convolution, Convolution)
DESCRIPTOR(Pooling, Pooling)
DESCRIPTOR(Activation, Activation)
DESCRIPTOR(LRN, Lrn)
DESCRIPTOR(OpTensor, OpTensor)
DESCRIPTOR(ReduceTensor, Reduction)

CUDNN_EXPORT int cudnnSetTensor4dDescriptor(void* descriptor, int format, int type, int n, int c, int h, int w) {
    const int dims[] = {n, c, h, w};
    return set_packed(descriptor, format, type, 4, dims);
}

CUDNN_EXPORT int cudnnSetTensor4dDescriptorEx(void* descriptor, int type, int n, int c, int h, int w, int n_stride,
                                              int c_stride, int h_stride, int w_stride) {
    return set_tensor(descriptor, {type, 4, {n, c, h, w}, {n_stride, c_stride, h_stride, w_stride}});
}

CUDNN_EXPORT int cudnnGetTensor4dDescriptor(void* descriptor, int* type, int* n, int* c, int* h, int* w,
                                            int* n_stride, int* c_stride, int* h_stride, int* w_stride) {
    int *dims[] = {n, c, h, w}, *strides[] = {n_stride, c_stride, h_stride, w_stride};
    return with<Tensor>(descriptor, [&](Tensor& own) {
        if (own.rank != 4) return kBadParameter;
        give(type, own.type);
        for (int i = 0; i < 4; ++i) give(dims[i], own.dims[i]), give(strides[i], own.strides[i]);
        return kSuccess;
    });
}

CUDNN_EXPORT int cudnnSetTensorNdDescriptor(void* descriptor, int type, int rank, const int* dims,
                                            const int* strides) {
    if (!dims || !strides || rank < 1 || rank > kMostDims) return kBadParameter;
    Tensor tensor{type, rank, {}, {}};
    std::copy_n(dims, rank, tensor.dims);
    std::copy_n(strides, rank, tensor.strides);
    return set_tensor(descriptor, tensor);
}

CUDNN_EXPORT int cudnnSetTensorNdDescriptorEx(void* descriptor, int format, int type, int rank, const int* dims) {
    return set_packed(descriptor, format, type, rank, dims);
}

CUDNN_EXPORT int cudnnGetTensorNdDescriptor(void* descriptor, int asked, int* type, int* rank, int* dims,
                                            int* strides) {
    if (asked < 0) return kBadParameter;
    return with<Tensor>(descriptor, [&](Tensor& own) {
        give(type, own.type), give(rank, own.rank);
        const int count = std::min(asked, own.rank);
        give_list(dims, own.dims, count), give_list(strides, own.strides, count);
        return kSuccess;
    });
}

CUDNN_EXPORT int cudnnGetTensorSizeInBytes(void* descriptor, size_t* bytes) {
    return size_in_bytes<Tensor>(descriptor, bytes);
}

CUDNN_EXPORT int cudnnSetFilter4dDescriptor(void* descriptor, int type, int format, int k, int c, int h, int w) {
    const int dims[] = {k, c, h, w};
    return set_filter(descriptor, type, format, 4, dims);
}

CUDNN_EXPORT int cudnnSetFilterNdDescriptor(void* descriptor, int type, int format, int rank, const int* dims) {
    return set_filter(descriptor, type, format, rank, dims);
}

CUDNN_EXPORT int cudnnGetFilter4dDescriptor(void* descriptor, int* type, int* format, int* k, int* c, int* h,
                                            int* w) {
    int* dims[] = {k, c, h, w};
    return with<Filter>(descriptor, [&](Filter& own) {
        if (own.rank != 4) return kBadParameter;
        give(type, own.type), give(format, own.format);
        for (int i = 0; i < 4; ++i) give(dims[i], own.dims[i]);
        return kSuccess;
    });
}

CUDNN_EXPORT int cudnnGetFilterNdDescriptor(void* descriptor, int asked, int* type, int* format, int* rank,
                                            int* dims) {
    if (asked < 0) return kBadParameter;
    return with<Filter>(descriptor, [&](Filter& own) {
        give(type, own.type), give(format, own.format), give(rank, own.rank);
        give_list(dims, own.dims, std::min(asked, own.rank));
        return kSuccess;
    });
}

CUDNN_EXPORT int cudnnGetFilterSizeInBytes(void* descriptor, size_t* bytes) {
    return size_in_bytes<Filter>(descriptor, bytes);
}

CUDNN_EXPORT int cudnnSetConvolution2dDescriptor(void* descriptor, int pad_h, int pad_w, int stride_h, int stride_w,
                                                 int dilation_h, int dilation_w, int mode, int compute) {
    const int pads[] = {pad_h, pad_w}, strides[] = {stride_h, stride_w}, dilations[] = {dilation_h, dilation_w};
    return set_convolution(descriptor, 2, pads, strides, dilations, mode, compute);
}

CUDNN_EXPORT int cudnnSetConvolutionNdDescriptor(void* descriptor, int rank, const int* pads, const int* strides,
                                                 const int* dilations, int mode, int compute) {
    return set_convolution(descriptor, rank, pads, strides, dilations, mode, compute);
}

CUDNN_EXPORT int cudnnGetConvolution2dDescriptor(void* descriptor, int* pad_h, int* pad_w, int* stride_h,
                                                 int* stride_w, int* dilation_h, int* dilation_w, int* mode,
                                                 int* compute) {
    return with<Convolution>(descriptor, [&](Convolution& own) {
        if (own.rank != 2) return kBadParameter;
        give(pad_h, own.pads[0]), give(pad_w, own.pads[1]);
        give(stride_h, own.strides[0]), give(stride_w, own.strides[1]);
        give(dilation_h, own.dilations[0]), give(dilation_w, own.dilations[1]);
        give(mode, own.mode), give(compute, own.compute);
        return kSuccess;
    });
}

CUDNN_EXPORT int cudnnGetConvolutionNdDescriptor(void* descriptor, int asked, int* rank, int* pads, int* strides,
                                                 int* dilations, int* mode, int* compute) {
    if (asked < 0) return kBadParameter;
    return with<Convolution>(descriptor, [&](Convolution& own) {
        const int count = std::min(asked, own.rank);
        give(rank, own.rank), give(mode, own.mode), give(compute, own.compute);
        give_list(pads, own.pads, count), give_list(strides, own.strides, count);
        give_list(dilations, own.dilations, count);
        return kSuccess;
    });
}

// Settings of a convolution, one a function.
#define SETTING(Name, member, least)                                                       \
    CUDNN_EXPORT int cudnnSetConvolution##Name(void* descriptor, int value) {              \
        if (value < least) return kBadParameter;                                           \
        return with<Convolution>(descriptor, [&](Convolution& own) {                       \
            own.member = value;                                                            \
            return kSuccess;                                                               \
        });                                                                                \
    }                                                                                      \
    CUDNN_EXPORT int cudnnGetConvolution##Name(void* descriptor, int* value) {             \
        if (!value) return kNullPointer;                                                   \
        return with<Convolution>(descriptor, [&](Convolution& own) {                       \
            *value = own.member;                                                           \
            return kSuccess;                                                               \
        });                                                                                \
    }
SETTING(GroupCount, groups, 1)
SETTING(MathType, math, 0)
SETTING(ReorderType, reorder, 0)

CUDNN_EXPORT int cudnnGetConvolutionNdForwardOutputDim(void* descriptor, void* x, void* w, int rank, int* dims) {
    if (!dims) return kNullPointer;
    const auto from = all<Tensor>().find(x);
    const auto by = all<Filter>().find(w);
    if (!from || !by) return kBadParameter;
    return with<Convolution>(descriptor, [&](Convolution& own) {
        if (rank != from->rank || rank != by->rank || rank != own.rank + 2) return kBadParameter;
        Tensor y{from->type, rank, {}, {}};
        y.dims[0] = from->dims[0], y.dims[1] = by->dims[0];
        for (int i = 0; i < own.rank; ++i) y.dims[i + 2] = places(own, i, from->dims[i + 2], by->dims[i + 2]);
        pack(y, false);
        if (!convolves(*from, *by, own, y)) return kBadParameter;
        give_list(dims, y.dims, rank);
        return kSuccess;
    });
}

CUDNN_EXPORT int cudnnGetConvolution2dForwardOutputDim(void* descriptor, void* x, void* w, int* n, int* c, int* h,
                                                       int* width) {
    int dims[4];
    const int status = cudnnGetConvolutionNdForwardOutputDim(descriptor, x, w, 4, dims);
    if (status == kSuccess) give(n, dims[0]), give(c, dims[1]), give(h, dims[2]), give(width, dims[3]);
    return status;
}

CUDNN_EXPORT int cudnnSetPooling2dDescriptor(void* descriptor, int mode, int nan, int window_h, int window_w,
                                             int pad_h, int pad_w, int stride_h, int stride_w) {
    const int window[] = {window_h, window_w}, pads[] = {pad_h, pad_w}, strides[] = {stride_h, stride_w};
    return set_pooling(descriptor, mode, nan, 2, window, pads, strides);
}

CUDNN_EXPORT int cudnnSetPoolingNdDescriptor(void* descriptor, int mode, int nan, int rank, const int* window,
                                             const int* pads, const int* strides) {
    return set_pooling(descriptor, mode, nan, rank, window, pads, strides);
}

CUDNN_EXPORT int cudnnGetPooling2dDescriptor(void* descriptor, int* mode, int* nan, int* window_h, int* window_w,
                                             int* pad_h, int* pad_w, int* stride_h, int* stride_w) {
    return with<Pooling>(descriptor, [&](Pooling& own) {
        if (own.rank != 2) return kBadParameter;
        give(mode, own.mode), give(nan, own.nan);
        give(window_h, own.window[0]), give(window_w, own.window[1]);
        give(pad_h, own.pads[0]), give(pad_w, own.pads[1]);
        give(stride_h, own.strides[0]), give(stride_w, own.strides[1]);
        return kSuccess;
    });
}

CUDNN_EXPORT int cudnnGetPoolingNdDescriptor(void* descriptor, int asked, int* mode, int* nan, int* rank,
                                             int* window, int* pads, int* strides) {
    if (asked < 0) return kBadParameter;
    return with<Pooling>(descriptor, [&](Pooling& own) {
        const int count = std::min(asked, own.rank);
        give(mode, own.mode), give(nan, own.nan), give(rank, own.rank);
        give_list(window, own.window, count), give_list(pads, own.pads, count);
        give_list(strides, own.strides, count);
        return kSuccess;
    });
}

CUDNN_EXPORT int cudnnGetPoolingNdForwardOutputDim(void* descriptor, void* x, int rank, int* dims) {
    if (!dims) return kNullPointer;
    const auto from = all<Tensor>().find(x);
    if (!from) return kBadParameter;
    return with<Pooling>(descriptor, [&](Pooling& own) {
        if (rank != from->rank || rank != own.rank + 2) return kBadParameter;
        Tensor y = *from;
        for (int i = 0; i < own.rank; ++i) y.dims[i + 2] = places(own, i, from->dims[i + 2]);
        pack(y, false);
        if (!pools(*from, own, y)) return kBadParameter;
        give_list(dims, y.dims, rank);
        return kSuccess;
    });
}

CUDNN_EXPORT int cudnnGetPooling2dForwardOutputDim(void* descriptor, void* x, int* n, int* c, int* h, int* w) {
    int dims[4];
    const int status = cudnnGetPoolingNdForwardOutputDim(descriptor, x, 4, dims);
    if (status == kSuccess) give(n, dims[0]), give(c, dims[1]), give(h, dims[2]), give(w, dims[3]);
    return status;
}

CUDNN_EXPORT int cudnnSetActivationDescriptor(void* descriptor, int mode, int nan, double coefficient) {
    return with<Activation>(descriptor, [&](Activation& own) {
        const double beta = own.swish_beta == 0 ? 1 : own.swish_beta;
        const Activation given{mode, nan, coefficient, beta};
        if (!is_activation(given)) return kBadParameter;
        return own = given, kSuccess;
    });
}

CUDNN_EXPORT int cudnnGetActivationDescriptor(void* descriptor, int* mode, int* nan, double* coefficient) {
    return with<Activation>(descriptor, [&](Activation& own) {
        give(mode, own.mode), give(nan, own.nan), give(coefficient, own.coefficient);
        return kSuccess;
    });
}

CUDNN_EXPORT int cudnnSetActivationDescriptorSwishBeta(void* descriptor, double beta) {
    if (!is_finite(beta)) return kBadParameter;
    return with<Activation>(descriptor, [&](Activation& own) { return own.swish_beta = beta, kSuccess; });
}

CUDNN_EXPORT int cudnnGetActivationDescriptorSwishBeta(void* descriptor, double* beta) {
    return with<Activation>(descriptor, [&](Activation& own) { return give(beta, own.swish_beta), kSuccess; });
}

CUDNN_EXPORT int cudnnSetLRNDescriptor(void* descriptor, unsigned n, double alpha, double beta, double k) {
    const Lrn lrn{n, 0, alpha, beta, k};
    return is_lrn(lrn) ? set(descriptor, lrn) : kBadParameter;
}

CUDNN_EXPORT int cudnnGetLRNDescriptor(void* descriptor, unsigned* n, double* alpha, double* beta, double* k) {
    return with<Lrn>(descriptor, [&](Lrn& own) {
        give(n, own.n), give(alpha, own.alpha), give(beta, own.beta), give(k, own.k);
        return kSuccess;
    });
}

CUDNN_EXPORT int cudnnSetOpTensorDescriptor(void* descriptor, int op, int compute, int nan) {
    return op < kAdd || op > kNot ? kBadParameter : set(descriptor, OpTensor{op, compute, nan, 0});
}

CUDNN_EXPORT int cudnnGetOpTensorDescriptor(void* descriptor, int* op, int* compute, int* nan) {
    return with<OpTensor>(descriptor, [&](OpTensor& own) {
        give(op, own.op), give(compute, own.compute), give(nan, own.nan);
        return kSuccess;
    });
}

CUDNN_EXPORT int cudnnSetReduceTensorDescriptor(void* descriptor, int op, int compute, int nan, int indices,
                                                int index_type) {
    return set(descriptor, Reduction{op, compute, nan, indices, index_type, 0});
}

CUDNN_EXPORT int cudnnGetReduceTensorDescriptor(void* descriptor, int* op, int* compute, int* nan, int* indices,
                                                int* index_type) {
    return with<Reduction>(descriptor, [&](Reduction& own) {
        give(op, own.op), give(compute, own.compute), give(nan, own.nan);
        give(indices, own.indices), give(index_type, own.index_type);
        return kSuccess;
    });
}

// The tensor of a batch normalisation's parameters; of 16 bits they are in single precision.
CUDNN_EXPORT int cudnnDeriveBNTensorDescriptor(void* descriptor, void* x, int mode) {
    const auto from = all<Tensor>().find(x);
    if (!from || from->rank < 2 || mode < 0 || mode > 2) return kBadParameter;
    Tensor derived = *from;
    if (derived.type == kHalf || derived.type == kBfloat16) derived.type = kFloat;
    derived.dims[0] = 1;
    for (int i = 2; mode != 0 && i < derived.rank; ++i) derived.dims[i] = 1;
    pack(derived, false);
    return set(descriptor, derived);
}
