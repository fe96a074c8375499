// CTC's loss, in the program's process: its descriptor, and the older form, which takes its lists from the
// host.
#include <algorithm>

#include "cudnn_messages.h"
#include "describing.h"
#include "own_call.h"
#include "roles.h"

using namespace cudnn;
using namespace maths;
using namespace maths::cudnn;

DESCRIPTOR(CTCLoss, Ctc)

namespace {

constexpr int kMostLabels = 256;  // of a sequence, where the descriptor does not say

Status set_ctc(const void* descriptor, const Ctc& by) {
    return is_ctc(by) ? set(descriptor, by) : kBadParameter;
}

template <typename... Places>
Status get_ctc(const void* descriptor, int* type, Places... places) {
    return with<Ctc>(descriptor, [&](const Ctc& own) {
        const int32_t values[] = {own.normalization, own.gradient_mode, own.max_label_length};
        give(type, own.type);
        const int32_t* value = values;
        (give(places, *value++), ...);
        return kSuccess;
    });
}

// Labels one sequence behind the other, how many each has, and how many steps.
struct Lists {
    const int* lists[3];
    size_t counts[3];
    int most_labels;

    size_t bytes() const { return (counts[0] + counts[1] + counts[2]) * sizeof(int); }
};

// What the older form is given, where it goes together.
Status read(const Tensor& probabilities, const int* labels, const int* label_lengths, const int* lengths,
            Lists& to) {
    if (!label_lengths || !lengths) return kNullPointer;
    if (probabilities.rank != 3) return kBadParameter;
    const auto sequences = static_cast<size_t>(probabilities.dims[1]);
    to = {{labels, label_lengths, lengths}, {0, sequences, sequences}, 0};
    for (size_t i = 0; i < sequences; ++i) {
        if (label_lengths[i] < 0 || lengths[i] < 0 || lengths[i] > probabilities.dims[0])
            return kBadParameter;
        to.counts[0] += static_cast<size_t>(label_lengths[i]);
        to.most_labels = std::max(to.most_labels, label_lengths[i]);
    }
    if (to.counts[0] > 0 && !labels) return kNullPointer;
    const auto is_class = [&](int label) { return label >= 0 && label < probabilities.dims[2]; };
    return std::all_of(labels, labels + to.counts[0], is_class) ? kSuccess : kBadParameter;
}

}  // namespace

CUDNN_EXPORT int cudnnSetCTCLossDescriptor(void* descriptor, int type) {
    return set_ctc(descriptor, {type, kProbabilities, kZeros, kMostLabels});
}
// What spreads numbers that are none leaves the slopes.
CUDNN_EXPORT int cudnnSetCTCLossDescriptorEx(void* descriptor, int type, int normalization, int nan) {
    return set_ctc(descriptor, {type, normalization, nan, kMostLabels});
}
CUDNN_EXPORT int cudnnSetCTCLossDescriptor_v8(void* descriptor, int type, int normalization, int nan,
                                              int most_labels) {
    return set_ctc(descriptor, {type, normalization, nan, most_labels});
}
CUDNN_EXPORT int cudnnSetCTCLossDescriptor_v9(void* descriptor, int type, int normalization, int mode,
                                              int most_labels) {
    return set_ctc(descriptor, {type, normalization, mode, most_labels});
}

CUDNN_EXPORT int cudnnGetCTCLossDescriptor(void* descriptor, int* type) {
    return get_ctc(descriptor, type);
}
CUDNN_EXPORT int cudnnGetCTCLossDescriptorEx(void* descriptor, int* type, int* normalization, int* nan) {
    return get_ctc(descriptor, type, normalization, nan);
}
CUDNN_EXPORT int cudnnGetCTCLossDescriptor_v8(void* descriptor, int* type, int* normalization, int* nan,
                                              int* most_labels) {
    return get_ctc(descriptor, type, normalization, nan, most_labels);
}
CUDNN_EXPORT int cudnnGetCTCLossDescriptor_v9(void* descriptor, int* type, int* normalization, int* mode,
                                              int* most_labels) {
    return get_ctc(descriptor, type, normalization, mode, most_labels);
}

CUDNN_EXPORT int cudnnGetCTCLossWorkspaceSize_v8(void*, int, void*, void*, void*, size_t* bytes) {
    if (!bytes) return kNullPointer;
    return *bytes = 0, kSuccess;
}
// The lists' place on the device.
CUDNN_EXPORT int cudnnGetCTCLossWorkspaceSize(void*, void* probabilities, void*, const int* labels,
                                              const int* label_lengths, const int* lengths, int, void*,
                                              size_t* bytes) {
    if (!bytes) return kNullPointer;
    return with<Tensor>(probabilities, [&](const Tensor& own) {
        Lists lists;
        const Status status = read(own, labels, label_lengths, lengths, lists);
        if (status == kSuccess) *bytes = lists.bytes();
        return status;
    });
}

CUDNN_EXPORT int cudnnCTCLoss(void* handle, void* probabilities, const void* probs, const int* labels,
                              const int* label_lengths, const int* lengths, void* costs, void* gradients_is,
                              void* gradients, int algorithm, void* descriptor, void* workspace,
                              size_t bytes) {
    const auto own = all<Handle>().find(handle);
    const auto tensor = all<Tensor>().find(probabilities);
    if (!own || !tensor) return kBadParameter;
    Lists lists;
    if (const Status status = read(*tensor, labels, label_lengths, lengths, lists)) return status;
    if (!workspace) return kNullPointer;
    if (bytes < lists.bytes()) return kBadParameter;
    OwnCall call(handle, k_cudnnCTCLoss_v8, false);
    ctc message{};
    call.describe(message.ctcLossDesc, descriptor);
    call.describe(message.probsDesc, probabilities);
    call.describe(message.gradientsDesc, gradients_is);
    message.ctcLossDesc.max_label_length = lists.most_labels;
    message.algo = algorithm;
    message.probs = reinterpret_cast<uint64_t>(probs), message.costs = reinterpret_cast<uint64_t>(costs);
    message.gradients = reinterpret_cast<uint64_t>(gradients);
    const libraries::Driver* driver = libraries::driver();
    if (!driver) return kNotInitialized;
    uint64_t places[3], next = reinterpret_cast<uint64_t>(workspace);
    for (int i = 0; i < 3; ++i) {
        const size_t size = lists.counts[i] * sizeof(int);
        places[i] = next, next += size;
        if (size == 0) continue;
        if (const CUresult error = driver->copy_in(places[i], lists.lists[i], size, own->stream))
            return meaning(error);
    }
    message.labels = lists.counts[0] ? places[0] : 0;
    message.labelLengths = places[1], message.inputLengths = places[2];
    return call.send(&message, sizeof message);
}
