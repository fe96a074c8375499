// One call of a function of functions.txt, in the program's process: what every exported function does.
#pragma once

#include <memory>
#include <vector>

#include "handle.h"
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
    struct Placed {
        uint64_t& field;
        void* at;
        size_t bytes, offset;
        Access access;
    };
    int submit(void* message, size_t bytes);
    CUresult through_scratch(void* message, size_t bytes, int& status);

    const std::shared_ptr<::cublas::Handle> handle_;
    const uint16_t function_;
    const bool wide_;
    const bool on_device_;
    bool null_ = false;
    int* info_ = nullptr;
    std::vector<Placed> placed_;
    size_t placed_bytes_ = 0;
};

}  // namespace maths::cublas
