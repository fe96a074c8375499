// Dropout's descriptors, in the program's process.
#include "cudnn_messages.h"
#include "describing.h"
#include "own_call.h"
#include "roles.h"

using namespace cudnn;
using namespace maths;
using namespace maths::cudnn;

DESCRIPTOR(Dropout, Dropout)

namespace {

// Without states the rate alone is set.
Status describe(const void* descriptor, const void* handle, float rate, const void* states, size_t bytes,
                unsigned long long seed) {
    if (!all<Handle>().find(handle)) return kBadParameter;
    return with<Dropout>(descriptor, [&](Dropout& own) {
        const Dropout dropout{rate, reinterpret_cast<uint64_t>(states), bytes, seed};
        if (!is_dropout(dropout)) return kBadParameter;
        own = states ? dropout : Dropout{rate, own.states, own.state_bytes, own.seed};
        return kSuccess;
    });
}

}  // namespace

// How much memory the random numbers' states want, the end says that draws them.
CUDNN_EXPORT int cudnnDropoutGetStatesSize(void* handle, size_t* bytes) {
    if (!bytes) return kNullPointer;
    OwnCall call(handle, k_cudnnDropoutGetStatesSize, false);
    dropout_room message{};
    OwnCall::Answer answer;
    const int status = call.ask(&message, sizeof message, message.answer, answer);
    if (status == kSuccess) *bytes = answer.numbers[0];
    return status;
}

CUDNN_EXPORT int cudnnDropoutGetReserveSpaceSize(void* descriptor, size_t* bytes) {
    if (!bytes) return kNullPointer;
    return with<Tensor>(descriptor, [&](const Tensor& own) {
        if (!is_tensor(own)) return kBadParameter;
        *bytes = elements_of(own);
        return kSuccess;
    });
}

CUDNN_EXPORT int cudnnSetDropoutDescriptor(void* descriptor, void* handle, float rate, void* states, size_t bytes,
                                           unsigned long long seed) {
    const Status status = describe(descriptor, handle, rate, states, bytes, seed);
    if (status != kSuccess || !states) return status;
    OwnCall call(handle, k_cudnnSetDropoutDescriptor, false);
    maths::cudnn::seed message{};
    call.describe(message.dropoutDesc, descriptor);
    return call.send(&message, sizeof message);
}

// The states are those of an earlier descriptor, and go on.
CUDNN_EXPORT int cudnnRestoreDropoutDescriptor(void* descriptor, void* handle, float rate, void* states, size_t bytes,
                                               unsigned long long seed) {
    return describe(descriptor, handle, rate, states, bytes, seed);
}

CUDNN_EXPORT int cudnnGetDropoutDescriptor(void* descriptor, void* handle, float* rate, void** states,
                                           unsigned long long* seed) {
    if (!all<Handle>().find(handle)) return kBadParameter;
    return with<Dropout>(descriptor, [&](const Dropout& own) {
        give(rate, own.rate), give(seed, own.seed);
        if (states) *states = reinterpret_cast<void*>(own.states);
        return kSuccess;
    });
}
