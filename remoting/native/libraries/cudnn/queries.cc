// What programs ask before they compute: which algorithms there are, and how much memory they want to work in.
//
// Each end chooses how it computes, and takes what it needs to work in itself. So there is one algorithm of each
// function, those that NVIDIA's library always has, and it wants no memory of the program.
#include <algorithm>
#include <cstdint>

#include "cudnn/rules.h"
#include "handle.h"
#include "status.h"

using namespace cudnn;
using namespace maths::cudnn;

namespace {

enum Algorithm : int { kForward = 1, kBackwardData = 1, kBackwardFilter = 1 };

// cudnnConvolutionFwdAlgoPerf_t, and those of the other two, which are alike.
struct Performance {
    int algorithm, status;
    float milliseconds;
    size_t memory;
    int determinism, math, reserved[3];
};
static_assert(sizeof(Performance) == 48);

// The one algorithm, for tensors that go together. `ran` milliseconds: negative where nothing was run.
Status answer(const void* handle, const void* x, const void* w, const void* convolution, const void* y, int algorithm,
              int asked, int* returned, Performance* results, float ran) {
    if (!returned || !results) return kNullPointer;
    const auto image = all<Tensor>().find(x), result = all<Tensor>().find(y);
    const auto filter = all<Filter>().find(w);
    const auto by = all<Convolution>().find(convolution);
    if (!all<Handle>().find(handle) || !image || !result || !filter || !by || asked < 1) return kBadParameter;
    if (!convolves(*image, *filter, *by, *result)) return kBadParameter;
    if (!is_done(*image, *filter, *by, *result)) return kNotSupported;
    *results = {algorithm, kSuccess, ran, 0, 1, by->math, {}};
    *returned = 1;
    return kSuccess;
}

Status none(size_t* bytes) {
    if (!bytes) return kNullPointer;
    *bytes = 0;
    return kSuccess;
}

Status one(const void* handle, int* count) {
    if (!count) return kNullPointer;
    *count = 1;
    return all<Handle>().find(handle) ? kSuccess : kBadParameter;
}

constexpr float kNotRun = -1, kRan = 1;

}  // namespace

CUDNN_EXPORT int cudnnGetConvolutionForwardAlgorithmMaxCount(void* handle, int* count) {
    return one(handle, count);
}
CUDNN_EXPORT int cudnnGetConvolutionBackwardDataAlgorithmMaxCount(void* handle, int* count) {
    return one(handle, count);
}
CUDNN_EXPORT int cudnnGetConvolutionBackwardFilterAlgorithmMaxCount(void* handle, int* count) {
    return one(handle, count);
}

CUDNN_EXPORT int cudnnGetConvolutionForwardAlgorithm_v7(void* handle, void* x, void* w, void* convolution, void* y,
                                                        int asked, int* returned, Performance* results) {
    return answer(handle, x, w, convolution, y, kForward, asked, returned, results, kNotRun);
}
CUDNN_EXPORT int cudnnGetConvolutionBackwardDataAlgorithm_v7(void* handle, void* w, void* dy, void* convolution,
                                                             void* dx, int asked, int* returned,
                                                             Performance* results) {
    return answer(handle, dx, w, convolution, dy, kBackwardData, asked, returned, results, kNotRun);
}
CUDNN_EXPORT int cudnnGetConvolutionBackwardFilterAlgorithm_v7(void* handle, void* x, void* dy, void* convolution,
                                                               void* dw, int asked, int* returned,
                                                               Performance* results) {
    return answer(handle, x, dw, convolution, dy, kBackwardFilter, asked, returned, results, kNotRun);
}

// Of one algorithm there is nothing to measure.
CUDNN_EXPORT int cudnnFindConvolutionForwardAlgorithm(void* handle, void* x, void* w, void* convolution, void* y,
                                                      int asked, int* returned, Performance* results) {
    return answer(handle, x, w, convolution, y, kForward, asked, returned, results, kRan);
}
CUDNN_EXPORT int cudnnFindConvolutionBackwardDataAlgorithm(void* handle, void* w, void* dy, void* convolution,
                                                           void* dx, int asked, int* returned,
                                                           Performance* results) {
    return answer(handle, dx, w, convolution, dy, kBackwardData, asked, returned, results, kRan);
}
CUDNN_EXPORT int cudnnFindConvolutionBackwardFilterAlgorithm(void* handle, void* x, void* dy, void* convolution,
                                                             void* dw, int asked, int* returned,
                                                             Performance* results) {
    return answer(handle, x, dw, convolution, dy, kBackwardFilter, asked, returned, results, kRan);
}
CUDNN_EXPORT int cudnnFindConvolutionForwardAlgorithmEx(void* handle, void* x, void*, void* w, void*,
                                                        void* convolution, void* y, void*, int asked, int* returned,
                                                        Performance* results, void*, size_t) {
    return answer(handle, x, w, convolution, y, kForward, asked, returned, results, kRan);
}
CUDNN_EXPORT int cudnnFindConvolutionBackwardDataAlgorithmEx(void* handle, void* w, void*, void* dy, void*,
                                                             void* convolution, void* dx, void*, int asked,
                                                             int* returned, Performance* results, void*, size_t) {
    return answer(handle, dx, w, convolution, dy, kBackwardData, asked, returned, results, kRan);
}
CUDNN_EXPORT int cudnnFindConvolutionBackwardFilterAlgorithmEx(void* handle, void* x, void*, void* dy, void*,
                                                               void* convolution, void* dw, void*, int asked,
                                                               int* returned, Performance* results, void*, size_t) {
    return answer(handle, x, dw, convolution, dy, kBackwardFilter, asked, returned, results, kRan);
}

CUDNN_EXPORT int cudnnGetConvolutionForwardWorkspaceSize(void*, void*, void*, void*, void*, int, size_t* bytes) {
    return none(bytes);
}
CUDNN_EXPORT int cudnnGetConvolutionBackwardDataWorkspaceSize(void*, void*, void*, void*, void*, int, size_t* bytes) {
    return none(bytes);
}
CUDNN_EXPORT int cudnnGetConvolutionBackwardFilterWorkspaceSize(void*, void*, void*, void*, void*, int,
                                                                size_t* bytes) {
    return none(bytes);
}
CUDNN_EXPORT int cudnnGetReductionWorkspaceSize(void*, void*, void*, void*, size_t* bytes) {
    return none(bytes);
}
CUDNN_EXPORT int cudnnGetReductionIndicesSize(void*, void*, void*, void*, size_t* bytes) {
    return none(bytes);
}
CUDNN_EXPORT int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(void*, int, int, void*, void*, void*, void*,
                                                                          void*, size_t* bytes) {
    return none(bytes);
}
CUDNN_EXPORT int cudnnGetBatchNormalizationBackwardExWorkspaceSize(void*, int, int, void*, void*, void*, void*, void*,
                                                                   void*, void*, size_t* bytes) {
    return none(bytes);
}
CUDNN_EXPORT int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(void*, int, int, void*, void*, size_t* bytes) {
    return none(bytes);
}
