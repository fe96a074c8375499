#include "host_values.h"

namespace libraries {

void HostValues::add(uint64_t& field, void* at, size_t bytes, maths::Access access) {
    constexpr size_t kApart = 16;  // a double complex number is aligned at its parts
    values_.push_back({field, at, bytes, bytes_, access});
    bytes_ += (bytes + kApart - 1) / kApart * kApart;
}

CUresult HostValues::through(CUdeviceptr memory, CUstream stream, const std::function<int()>& send,
                             int& status) const {
    const Driver& driver = *libraries::driver();
    for (const Value& each : values_) {
        each.field = memory + each.offset;
        if (each.access == maths::Access::kWrite) continue;
        if (CUresult error = driver.copy_in(each.field, each.at, each.bytes, stream)) return error;
    }
    status = send();
    if (status != 0) return CUDA_SUCCESS;
    for (const Value& each : values_) {
        if (each.access == maths::Access::kRead) continue;
        if (CUresult error = driver.copy_out(each.at, each.field, each.bytes, stream)) return error;
    }
    return driver.synchronize(stream);
}

CUresult HostValues::around(Scratch& scratch, CUstream stream, const std::function<int()>& send,
                            int& status) const {
    static_assert(Scratch::kBytes >= 8 * 16);
    CUdeviceptr memory = 0;
    const CUresult result = scratch.address(memory);
    return result == CUDA_SUCCESS ? through(memory, stream, send, status) : result;
}

}  // namespace libraries
