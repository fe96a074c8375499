// One call of a function of functions.txt, in the program's process: what every exported function does.
#pragma once

#include <memory>

#include "handle.h"
#include "host_values.h"
#include "program_look.h"

#define MATHS_EXPORT extern "C" __attribute__((visibility("default")))

namespace maths::cusparse {

template <typename Descriptor>
bool is_live(const void* descriptor) {
    return ::cusparse::all<Descriptor>().find(descriptor) != nullptr;
}

class OwnLook : public libraries::ProgramLook {
  public:
    OwnLook(bool wide, bool on_device) : ProgramLook(kGkCusparse, LIBRARY_MAJOR, wide, on_device) {}
};

class OwnCall {
  public:
    // `pointers`: where scalars and results lie; the handle's mode, if it is not said.
    OwnCall(const void* handle, uint16_t function, bool wide);
    OwnCall(const void* handle, uint16_t function, ::cusparse::PointerMode pointers);

    // A value where the pointer mode says: it is sent, or its address.
    void scalar(Scalar& to, const void* from, Type type);
    // Values that the ends know on the device alone.
    void placed(uint64_t& to, void* at, Type type, size_t count, Access access);
    // A copy of what the descriptor says now.
    template <typename Descriptor>
    void describe(Descriptor& to, const void* descriptor) {
        const auto found = ::cusparse::all<Descriptor>().find(descriptor);
        wrong_ |= !found;
        if (found) to = *found;
    }
    bool on_device() const { return on_device_; }

    int send(void* message, size_t bytes);
    // The same for a function with placed values: those of the host are there when it returns.
    int send_and_fetch(void* message, size_t bytes);

  private:
    int submit(const void* message, size_t bytes) const;

    const std::shared_ptr<::cusparse::Handle> handle_;
    const uint16_t function_;
    const bool on_device_;
    bool wrong_ = false;
    libraries::HostValues placed_;
};

// How much a program is to bring for a function to work in: the ends bring their own.
int answer_room(const void* handle, bool fits, int* count);
int answer_room(const void* handle, bool fits, size_t* bytes);
int answer_room(const void* handle, const char* function, const Look& look, int* count);
int answer_room(const void* handle, const char* function, const Look& look, size_t* bytes);

}  // namespace maths::cusparse
