#include "copy.h"

#include <algorithm>
#include <cstring>

#include "capture.h"
#include "driver.h"
#include "exec/check/unwritten.h"
#include "front/platform.h"

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

// Device memory stays readable when it is freed. A mapping, or memory of the host, may have gone since the
// request was made, in a graph most of all, and its addresses with it.
void require_still_there(const std::byte* base, size_t bytes) try {
    Driver* driver = Driver::live();
    require(driver != nullptr);
    driver->memory.checked(reinterpret_cast<uint64_t>(base), bytes);
} catch (const Failure&) {
    refuse(CUDA_ERROR_ILLEGAL_ADDRESS);
}

void require_still_there(const Copy& copy, const End& end) {
    if (!end.may_go) return;
    require_still_there(end.base, extent(copy.width, copy.height, copy.depth, end.pitch, end.slice));
}

void copy_rows(const Copy& copy) {
    for (size_t z = 0; z < copy.depth; ++z) {
        for (size_t y = 0; y < copy.height; ++y) {
            std::byte* to = copy.to.base + z * copy.to.slice + y * copy.to.pitch;
            const std::byte* from = copy.from.base + z * copy.from.slice + y * copy.from.pitch;
            std::memmove(to, from, copy.width);
            check::Unwritten::get().copied(reinterpret_cast<uint64_t>(to), reinterpret_cast<uint64_t>(from),
                                           copy.width);
        }
    }
}

bool empty(const Copy& copy) {
    return copy.width == 0 || copy.height == 0 || copy.depth == 0;
}

cuda::CopyEnd shown(Context& context, const End& end) {
    cuda::CopyEnd shown{.pitch = end.pitch, .rows = end.pitch ? end.slice / end.pitch : 0};
    if (end.array) {
        shown.type = CU_MEMORYTYPE_ARRAY;
        shown.array = as_handle<CUarray>(end.array->handle);
        shown.place = end.place;
        return shown;
    }
    shown.start = reinterpret_cast<uint64_t>(end.base);
    const auto block = context.driver.memory.find(shown.start);
    const bool of_host = end.pageable || (block && !block->on_device());
    shown.type = of_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    return shown;
}

// The copy as a node of a graph shows it.
CUDA_MEMCPY3D request_of(Context& context, const Copy& copy) {
    return cuda::shown_copy(
        {shown(context, copy.to), shown(context, copy.from), copy.width, copy.height, copy.depth});
}

// In an array of the context's device: its reader has looked where it ends.
End array_end(Context& context, const cuda::CopyEnd& place) {
    const auto array = context.driver.handles.get<Array>(place.array);
    return {.base = reinterpret_cast<std::byte*>(array->base + place.start),
            .pitch = array->shape.row_bytes(),
            .slice = array->shape.plane_bytes(),
            .array = array,
            .place = place.place};
}

// Looks the end up by what it is said to be.
End end_of(Context& context, const cuda::CopyEnd& place, const cuda::CopyRequest& request) {
    if (place.type == CU_MEMORYTYPE_ARRAY) return array_end(context, place);
    const size_t plane = request.depth > 1 ? product(place.pitch, place.rows) : 0;
    const size_t bytes = extent(request.width, request.height, request.depth, place.pitch, plane);
    End end;
    if (place.type == CU_MEMORYTYPE_HOST) {
        end = host_end(context, reinterpret_cast<const void*>(place.start), bytes);
    } else if (place.type == CU_MEMORYTYPE_DEVICE) {
        end = device_end(context, place.start, bytes);
    } else {
        end = unified_end(context, place.start, bytes);
    }
    end.pitch = place.pitch;
    end.slice = plane;
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
    Memory& memory = context.driver.memory;
    std::byte* base = memory.checked(address, bytes);
    const auto block = memory.find(address);
    return {.base = base, .may_go = !block || !block->on_device()};
}

End host_end(Context& context, const void* memory, size_t bytes) {
    if (bytes == 0) return {};
    require(memory != nullptr);
    auto* base = static_cast<std::byte*>(const_cast<void*>(memory));
    const Memory& known = context.driver.memory;
    const bool pageable = !known.is_pinned(memory, bytes);
    const auto block = known.find(reinterpret_cast<uint64_t>(memory));
    return {.base = base, .pageable = pageable, .may_go = !pageable && !block->on_device()};
}

End unified_end(Context& context, CUdeviceptr address, size_t bytes) {
    if (bytes == 0) return {};
    if (context.driver.memory.allocation_at(address)) return device_end(context, address, bytes);
    return host_end(context, reinterpret_cast<const void*>(address), bytes);
}

Copy copy_of(Context& context, const cuda::CopyRequest& request) {
    Copy copy{.width = request.width, .height = request.height, .depth = request.depth};
    if (empty(copy)) return copy;
    copy.from = end_of(context, request.from, request);
    copy.to = end_of(context, request.to, request);
    return copy;
}

Copy copy_of(Context& context, const CUDA_MEMCPY3D& given) {
    cuda::CopyRequest request;
    check(cuda::read_copy_3d(&given, request, front::shape_of_array));
    return copy_of(context, request);
}

std::function<CUresult()> copy_body(const Copy& copy) {
    return [copy] {
        require_still_there(copy, copy.to);
        require_still_there(copy, copy.from);
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
    if (wait) {
        require_not_captured(stream);
    } else if (captured(stream, [&] { return graphs::CopyParams{request_of(*stream.context, copy)}; })) {
        return;
    }
    std::function<CUresult()> body = copy_body(copy);
    if (!wait && copy.from.pageable && !copy.to.pageable) {
        const bool flat = copy.height == 1 && copy.depth == 1;
        if (flat && copy.width <= kStage && scheduler.last(stream.queue)) {
            body = [staged = std::vector<std::byte>(copy.from.base, copy.from.base + copy.width),
                    to = copy.to.base, may_go = copy.to.may_go, keep = copy.to.array] {
                if (may_go) require_still_there(to, staged.size());
                std::memcpy(to, staged.data(), staged.size());
                check::Unwritten::get().written(reinterpret_cast<uint64_t>(to), staged.size());
                return CUDA_SUCCESS;
            };
        } else {
            wait = true;
        }
    }
    wait = wait || copy.to.pageable;
    const auto done = scheduler.submit(stream.queue, {.body = std::move(body)}, wait);
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
    fill.may_go = !block || !block->on_device();
    fill.visible_to_host = block && block->place != Place::device && block->place != Place::pool;
    return fill;
}

std::function<CUresult()> fill_body(const Fill& fill) {
    return [fill] {
        if (fill.may_go) {
            const size_t pitch = fill.height == 1 ? 0 : fill.pitch;
            require_still_there(fill.base, extent(fill.width * fill.unit, fill.height, 1, pitch, 0));
        }
        if (fill.unit == 1) {
            fill_rows<uint8_t>(fill);
        } else if (fill.unit == 2) {
            fill_rows<uint16_t>(fill);
        } else {
            fill_rows<uint32_t>(fill);
        }
        for (size_t y = 0; y < fill.height; ++y) {
            check::Unwritten::get().written(reinterpret_cast<uint64_t>(fill.base + y * fill.pitch),
                                            fill.width * fill.unit);
        }
        return CUDA_SUCCESS;
    };
}

void submit_fill(Stream& stream, const Fill& fill, bool wait) {
    Scheduler& scheduler = stream.context->driver.scheduler;
    if (fill.width == 0 || fill.height == 0) return;
    auto params = [&] {
        const auto address = reinterpret_cast<CUdeviceptr>(fill.base);
        return graphs::FillParams{
            {address, fill.pitch, fill.value, fill.unit, fill.width, fill.height, nullptr}};
    };
    if (captured(stream, params)) return;
    wait = wait && fill.visible_to_host;
    const auto done = scheduler.submit(stream.queue, {.body = fill_body(fill)}, wait);
    if (wait) scheduler.wait(done, stream.queue);
}

}  // namespace softgpu::driver
