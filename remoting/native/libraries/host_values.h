// Values of the host that the ends know on the device alone: on their way they lie in a little of its memory.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "driver.h"
#include "operands.h"

namespace libraries {

class HostValues {
  public:
    bool empty() const { return values_.empty(); }
    // The value at `at`, of which `field` of the message is to have the device's address.
    void add(uint64_t& field, void* at, size_t bytes, maths::Access access);
    // Runs `send`, which posts the message and says its status, 0 where it did; then the values are there.
    // The scratch is the caller's alone meanwhile.
    CUresult around(Scratch& scratch, CUstream stream, const std::function<int()>& send, int& status) const;

  private:
    struct Value {
        uint64_t& field;
        void* at;
        size_t bytes, offset;
        maths::Access access;
    };
    CUresult through(CUdeviceptr memory, CUstream stream, const std::function<int()>& send,
                     int& status) const;

    std::vector<Value> values_;
    size_t bytes_ = 0;
};

}  // namespace libraries
