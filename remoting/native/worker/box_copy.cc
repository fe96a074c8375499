// Copies of boxes: rows and planes with gaps between them, and copies between any two places of the lease.
#include "box_copy.h"

namespace worker {
namespace {

// The box's end of a driver's copy; the driver takes planes as whole numbers of rows, as the box does.
void set_from(CUDA_MEMCPY3D& copy, CUmemorytype type, const wire::Box& box) {
    copy.srcMemoryType = type;
    if (type == CU_MEMORYTYPE_HOST) copy.srcHost = reinterpret_cast<const void*>(box.address);
    if (type == CU_MEMORYTYPE_DEVICE) copy.srcDevice = static_cast<CUdeviceptr>(box.address);
    copy.srcPitch = box.pitch;
    copy.srcHeight = box.rows;
}

void set_to(CUDA_MEMCPY3D& copy, CUmemorytype type, const wire::Box& box) {
    copy.dstMemoryType = type;
    if (type == CU_MEMORYTYPE_HOST) copy.dstHost = reinterpret_cast<void*>(box.address);
    if (type == CU_MEMORYTYPE_DEVICE) copy.dstDevice = static_cast<CUdeviceptr>(box.address);
    copy.dstPitch = box.pitch;
    copy.dstHeight = box.rows;
    copy.WidthInBytes = box.width;
    copy.Height = box.height;
    copy.Depth = box.depth;
}

// The same shape without gaps, at `address`.
wire::Box packed(const wire::Box& box, const void* address) {
    return {reinterpret_cast<uint64_t>(address), box.width, box.height, box.width, box.height, box.depth};
}

// A box with strides that mean nothing, because it has one row or one plane, with strides that every driver
// takes.
wire::Box normal(wire::Box box) {
    if (wire::is_flat(box)) box.pitch = box.width;
    if (box.depth == 1) box.rows = box.height;
    return box;
}

// Of memory on two devices; the driver needs to be told their contexts.
CUresult copy_between(Context& context, const wire::Box& to, uint8_t to_device, const wire::Box& from,
                      uint8_t from_device, CUstream stream) {
    const auto& devices = context.worker().devices;
    CUDA_MEMCPY3D same{};
    set_from(same, CU_MEMORYTYPE_DEVICE, from);
    set_to(same, CU_MEMORYTYPE_DEVICE, to);
    CUDA_MEMCPY3D_PEER copy{};
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = same.srcDevice;
    copy.srcContext = devices[from_device].context;
    copy.srcPitch = same.srcPitch;
    copy.srcHeight = same.srcHeight;
    copy.dstDevice = same.dstDevice;
    copy.dstContext = devices[to_device].context;
    copy.dstPitch = same.dstPitch;
    copy.dstHeight = same.dstHeight;
    copy.WidthInBytes = same.WidthInBytes;
    copy.Height = same.Height;
    copy.Depth = same.Depth;
    const CUDA_MEMCPY3D_PEER* request = &copy;
    return invoke(context.driver().cuMemcpy3DPeerAsync, request, stream);
}

}  // namespace

CUresult copy_piece_out(Context& context, void* to, const wire::Box& piece, CUstream stream) {
    const Driver& driver = context.driver();
    if (wire::is_flat(piece)) {
        return invoke(driver.cuMemcpyDtoHAsync_v2, to, static_cast<CUdeviceptr>(piece.address),
                      static_cast<size_t>(piece.width), stream);
    }
    CUDA_MEMCPY3D copy{};
    const wire::Box box = normal(piece);
    set_from(copy, CU_MEMORYTYPE_DEVICE, box);
    set_to(copy, CU_MEMORYTYPE_HOST, packed(box, to));
    const CUDA_MEMCPY3D* request = &copy;
    return invoke(driver.cuMemcpy3DAsync_v2, request, stream);
}

CUresult handle_copy_box_in(Context& context, uint8_t frame_flags, wire::Reader& payload, wire::Writer&) {
    wire::BoxHead head;
    std::span<const std::byte> bytes;
    if (!payload.take(head) || !wire::well_formed(head.box) ||
        !payload.take_bytes(wire::volume(head.box), bytes) || !payload.finished()) {
        return kMalformed;
    }
    CUstream stream;
    if (!context.stream(head.stream, stream)) return CUDA_ERROR_INVALID_HANDLE;
    if (!context.accessible(head.box.address, wire::span(head.box))) return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY3D copy{};
    const wire::Box box = normal(head.box);
    set_from(copy, CU_MEMORYTYPE_HOST, packed(box, bytes.data()));
    set_to(copy, CU_MEMORYTYPE_DEVICE, box);
    const CUDA_MEMCPY3D* request = &copy;
    const Driver& driver = context.driver();
    if (!(frame_flags & wire::kWholeCopy))
        return buffer_is_read(context, stream, invoke(driver.cuMemcpy3DAsync_v2, request, stream));
    constexpr uint64_t kPerThread = 2;
    return invoke(head.stream == kPerThread ? driver.cuMemcpy3D_v2_ptds : driver.cuMemcpy3D_v2, request);
}

CUresult handle_copy_box(Context& context, uint8_t, wire::Reader& payload, wire::Writer&) {
    wire::BoxCopy message;
    if (!payload.take(message) || !payload.finished()) return kMalformed;
    wire::Box to = message.to.box, from = message.from;
    from.width = to.width;
    from.height = to.height;
    from.depth = to.depth;
    if (!wire::well_formed(to) || !wire::well_formed(from)) return kMalformed;
    CUstream stream;
    if (!context.stream(message.to.stream, stream)) return CUDA_ERROR_INVALID_HANDLE;
    const MemoryLedger& memory = context.worker().memory;
    const auto to_device = memory.device_of(to.address, wire::span(to));
    const auto from_device = memory.device_of(from.address, wire::span(from));
    if (!to_device || !from_device) return CUDA_ERROR_INVALID_VALUE;
    to = normal(to);
    from = normal(from);
    if (*to_device != *from_device) {
        return copy_between(context, to, *to_device, from, *from_device, stream);
    }
    const Driver& driver = context.driver();
    if (wire::is_flat(to)) {
        return invoke(driver.cuMemcpyDtoDAsync_v2, static_cast<CUdeviceptr>(to.address),
                      static_cast<CUdeviceptr>(from.address), static_cast<size_t>(to.width), stream);
    }
    CUDA_MEMCPY3D copy{};
    set_from(copy, CU_MEMORYTYPE_DEVICE, from);
    set_to(copy, CU_MEMORYTYPE_DEVICE, to);
    const CUDA_MEMCPY3D* request = &copy;
    return invoke(driver.cuMemcpy3DAsync_v2, request, stream);
}

}  // namespace worker
