#include "copy.h"

#include <algorithm>
#include <cstring>

#include "capture.h"
#include "driver.h"

namespace softgpu::driver {
namespace {

// A pageable source up to this size is set aside, so that the call need not wait for the stream.
constexpr size_t kStage = 256 * 1024;

size_t product(size_t a, size_t b) {
    size_t result;
    require(!__builtin_mul_overflow(a, b, &result));
    return result;
}

size_t sum(size_t a, size_t b) {
    size_t result;
    require(!__builtin_add_overflow(a, b, &result));
    return result;
}

// Bytes from the first to the last byte that is touched.
size_t extent(size_t width, size_t height, size_t depth, size_t pitch, size_t slice) {
    return sum(sum(product(depth - 1, slice), product(height - 1, pitch)), width);
}

void copy_rows(const Copy& copy) {
    for (size_t z = 0; z < copy.depth; ++z) {
        for (size_t y = 0; y < copy.height; ++y) {
            std::memmove(copy.to.base + z * copy.to.slice + y * copy.to.pitch,
                         copy.from.base + z * copy.from.slice + y * copy.from.pitch, copy.width);
        }
    }
}

bool empty(const Copy& copy) {
    return copy.width == 0 || copy.height == 0 || copy.depth == 0;
}

// One end as the structures of 2D and 3D copies give it.
struct Place3D {
    CUmemorytype type;
    const void* host;
    CUdeviceptr device;
    size_t x, y, z, pitch, height;
};

End end_of(Context& context, const Place3D& place, size_t width, size_t height, size_t depth) {
    const size_t pitch = place.pitch ? place.pitch : sum(place.x, width);
    const size_t rows = place.height ? place.height : sum(place.y, height);
    require(pitch >= sum(place.x, width) && (depth <= 1 || rows >= sum(place.y, height)));
    const size_t slice = product(pitch, rows);
    const size_t start = sum(sum(product(place.z, slice), product(place.y, pitch)), place.x);
    const size_t bytes = extent(width, height, depth, pitch, slice);
    End end;
    switch (place.type) {
        case CU_MEMORYTYPE_HOST:
            require(place.host != nullptr);
            end = host_end(context, static_cast<const std::byte*>(place.host) + start, bytes);
            break;
        case CU_MEMORYTYPE_DEVICE:
            end = device_end(context, sum(place.device, start), bytes);
            break;
        case CU_MEMORYTYPE_UNIFIED:
            end = unified_end(context, sum(place.device, start), bytes);
            break;
        case CU_MEMORYTYPE_ARRAY:
            refuse(CUDA_ERROR_NOT_SUPPORTED);
        default:
            refuse(CUDA_ERROR_INVALID_VALUE);
    }
    end.pitch = pitch;
    end.slice = slice;
    return end;
}

template <class T>
void fill_rows(const Fill& fill) {
    for (size_t y = 0; y < fill.height; ++y) {
        T* row = reinterpret_cast<T*>(fill.base + y * fill.pitch);
        std::fill_n(row, fill.width, static_cast<T>(fill.value));
    }
}

}  // namespace

End device_end(Context& context, CUdeviceptr address, size_t bytes) {
    if (bytes == 0) return {};
    return {.base = context.driver.memory.checked(address, bytes)};
}

End host_end(Context& context, const void* memory, size_t bytes) {
    if (bytes == 0) return {};
    require(memory != nullptr);
    auto* base = static_cast<std::byte*>(const_cast<void*>(memory));
    return {.base = base, .pageable = !context.driver.memory.is_pinned(memory, bytes)};
}

End unified_end(Context& context, CUdeviceptr address, size_t bytes) {
    if (bytes == 0) return {};
    if (context.driver.memory.space().find(address)) return device_end(context, address, bytes);
    return host_end(context, reinterpret_cast<const void*>(address), bytes);
}

Copy copy_of(Context& context, const CUDA_MEMCPY3D& r) {
    Copy copy{.width = r.WidthInBytes, .height = r.Height, .depth = r.Depth};
    if (empty(copy)) return copy;
    require(r.srcLOD == 0 && r.dstLOD == 0);
    copy.from = end_of(
        context,
        {r.srcMemoryType, r.srcHost, r.srcDevice, r.srcXInBytes, r.srcY, r.srcZ, r.srcPitch, r.srcHeight},
        copy.width, copy.height, copy.depth);
    copy.to = end_of(
        context,
        {r.dstMemoryType, r.dstHost, r.dstDevice, r.dstXInBytes, r.dstY, r.dstZ, r.dstPitch, r.dstHeight},
        copy.width, copy.height, copy.depth);
    return copy;
}

Copy copy_of(Context& context, const CUDA_MEMCPY2D& r) {
    CUDA_MEMCPY3D flat{};
    flat.srcXInBytes = r.srcXInBytes;
    flat.srcY = r.srcY;
    flat.srcMemoryType = r.srcMemoryType;
    flat.srcHost = r.srcHost;
    flat.srcDevice = r.srcDevice;
    flat.srcPitch = r.srcPitch;
    flat.dstXInBytes = r.dstXInBytes;
    flat.dstY = r.dstY;
    flat.dstMemoryType = r.dstMemoryType;
    flat.dstHost = r.dstHost;
    flat.dstDevice = r.dstDevice;
    flat.dstPitch = r.dstPitch;
    flat.WidthInBytes = r.WidthInBytes;
    flat.Height = r.Height;
    flat.Depth = 1;
    return copy_of(context, flat);
}

std::function<CUresult()> copy_body(const Copy& copy) {
    return [copy] {
        copy_rows(copy);
        return CUDA_SUCCESS;
    };
}

void submit_copy(Stream& stream, const Copy& copy, bool wait) {
    Scheduler& scheduler = stream.context->driver.scheduler;
    if (empty(copy)) {
        if (wait) scheduler.wait(scheduler.last(stream.queue), stream.queue);
        return;
    }
    std::function<CUresult()> body = copy_body(copy);
    if (!wait && is_captured(stream)) {
        enqueue(stream, CU_GRAPH_NODE_TYPE_MEMCPY, {.body = std::move(body)});
        return;
    }
    if (!wait && copy.from.pageable && !copy.to.pageable) {
        const bool flat = copy.height == 1 && copy.depth == 1;
        if (flat && copy.width <= kStage && scheduler.last(stream.queue)) {
            body = [staged = std::vector<std::byte>(copy.from.base, copy.from.base + copy.width),
                    to = copy.to.base] {
                std::memcpy(to, staged.data(), staged.size());
                return CUDA_SUCCESS;
            };
        } else {
            wait = true;
        }
    }
    wait = wait || copy.to.pageable;
    const auto done = enqueue(stream, CU_GRAPH_NODE_TYPE_MEMCPY, {.body = std::move(body)}, wait);
    if (wait) scheduler.wait(done, stream.queue);
}

Fill fill_of(Context& context, CUdeviceptr address, size_t pitch, uint32_t value, uint32_t unit, size_t width,
             size_t height) {
    Fill fill{.pitch = pitch, .value = value, .unit = unit, .width = width, .height = height};
    if (width == 0 || height == 0) return fill;
    const size_t bytes = product(width, unit);
    require(address % unit == 0 && (height == 1 || (pitch % unit == 0 && pitch >= bytes)));
    fill.base = context.driver.memory.checked(address, extent(bytes, height, 1, height == 1 ? 0 : pitch, 0));
    const auto block = context.driver.memory.find(address);
    fill.visible_to_host = block && block->place != Place::device && block->place != Place::pool;
    return fill;
}

std::function<CUresult()> fill_body(const Fill& fill) {
    return [fill] {
        if (fill.unit == 1) {
            fill_rows<uint8_t>(fill);
        } else if (fill.unit == 2) {
            fill_rows<uint16_t>(fill);
        } else {
            fill_rows<uint32_t>(fill);
        }
        return CUDA_SUCCESS;
    };
}

void submit_fill(Stream& stream, const Fill& fill, bool wait) {
    Scheduler& scheduler = stream.context->driver.scheduler;
    if (fill.width == 0 || fill.height == 0) return;
    wait = wait && fill.visible_to_host;
    const auto done = enqueue(stream, CU_GRAPH_NODE_TYPE_MEMSET, {.body = fill_body(fill)}, wait);
    if (wait) scheduler.wait(done, stream.queue);
}

}  // namespace softgpu::driver
