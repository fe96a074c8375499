// Copies and fills of memory, in one, two or three dimensions, as operations of a stream.
#pragma once

#include "array.h"
#include "context.h"
#include "copy_request.h"

namespace softgpu::driver {

// One end of a copy, checked: rows of the copy start `pitch` apart, planes `slice` apart.
struct End {
    std::byte* base = nullptr;
    size_t pitch = 0, slice = 0;
    bool pageable = false;                 // memory of the program that the driver knows nothing of
    bool may_go = false;                   // no device memory: it is looked up again when the copy runs
    std::shared_ptr<const Array> array{};  // that it lies in: it is there as long as the copy
    cuda::ArrayPlace place{};              // where in it
};

struct Copy {
    End to{}, from{};
    size_t width = 0, height = 1, depth = 1;  // bytes, rows, planes
};

// The ends of a flat copy. Throws INVALID_VALUE when it is no device memory (or memory that kernels may
// touch).
End device_end(Context& context, CUdeviceptr address, size_t bytes);
End host_end(Context& context, const void* memory, size_t bytes);
// By what the address is: memory that kernels may touch, or else the program's.
End unified_end(Context& context, CUdeviceptr address, size_t bytes);

Copy copy_of(Context& context, const cuda::CopyRequest& request);
Copy copy_of(Context& context, const CUDA_MEMCPY3D& given);

// Queues the copy. With `wait`, returns when it is done. Without, pageable memory is still treated as CUDA
// does: on return a source has been read, and a destination has been written.
void submit_copy(Stream& stream, const Copy& copy, bool wait);

struct Fill {
    std::byte* base = nullptr;
    size_t pitch = 0;
    uint32_t value = 0;
    uint32_t unit = 1;             // bytes of the value: 1, 2 or 4
    size_t width = 0, height = 1;  // units, rows
    bool visible_to_host = false;  // the program may read it without a further call
    bool may_go = false;           // as that of an End
};

Fill fill_of(Context& context, CUdeviceptr address, size_t pitch, uint32_t value, uint32_t unit, size_t width,
             size_t height);
void submit_fill(Stream& stream, const Fill& fill, bool wait);

// As operations that can run any number of times.
std::function<CUresult()> copy_body(const Copy& copy);
std::function<CUresult()> fill_body(const Fill& fill);

}  // namespace softgpu::driver
