// One call of a function of functions.txt, in the program's process: what every exported function does.
#pragma once

#include <memory>

#include "handle.h"
#include "host_values.h"
#include "operands.h"

#define MATHS_EXPORT extern "C" __attribute__((visibility("default")))

namespace maths::cublas {

class OwnCall {
  public:
    OwnCall(const void* handle, uint16_t function, bool wide);

    // A value where the pointer mode says: it is sent, or its address.
    void scalar(Scalar& to, const void* from, Type type);
    // Values that the ends know on the device alone. Those on the host go through a little of its memory.
    void placed(uint64_t& to, void* at, Type type, size_t count, Access access);
    void info(void* at) { info_ = static_cast<int*>(at); }

    int send(void* message, size_t bytes);
    // The same for a function with placed values: those of the host are there when it returns.
    int send_and_fetch(void* message, size_t bytes);

  private:
    int submit(void* message, size_t bytes);

    const std::shared_ptr<::cublas::Handle> handle_;
    const uint16_t function_;
    const bool wide_;
    const bool on_device_;
    bool null_ = false;
    int* info_ = nullptr;
    libraries::HostValues placed_;
};

}  // namespace maths::cublas
