// What functions of descriptors have in common, in the program's process.
#pragma once

#include "handle.h"
#include "status.h"

namespace cudnn {

template <typename Descriptor>
Status create(void** descriptor) {
    if (!descriptor) return kNullPointer;
    *descriptor = all<Descriptor>().add();
    return *descriptor ? kSuccess : kOutOfMemory;
}

template <typename Descriptor>
Status destroy(const void* descriptor) {
    return !descriptor || all<Descriptor>().remove(descriptor) ? kSuccess : kBadParameter;
}

// Runs `body` on it.
template <typename Descriptor, typename Body>
Status with(const void* descriptor, Body body) {
    const auto found = all<Descriptor>().find(descriptor);
    return found ? body(*found) : kBadParameter;
}

template <typename Descriptor>
Status set(const void* descriptor, const Descriptor& value) {
    return with<Descriptor>(descriptor, [&](Descriptor& own) { return own = value, kSuccess; });
}

// What the program does not ask for, it gives no place for.
template <typename To, typename From>
void give(To* to, From value) {
    if (to) *to = static_cast<To>(value);
}
template <typename From>
void give_list(int* to, const From* from, int count) {
    for (int i = 0; to && i < count; ++i) to[i] = static_cast<int>(from[i]);
}

}  // namespace cudnn

// Exports the functions that make and end one.
#define DESCRIPTOR(Name, Kind)                                                  \
    CUDNN_EXPORT int cudnnCreate##Name##Descriptor(void** descriptor) {         \
        return create<Kind>(descriptor);                                        \
    }                                                                           \
    CUDNN_EXPORT int cudnnDestroy##Name##Descriptor(void* descriptor) {         \
        return destroy<Kind>(descriptor);                                       \
    }
