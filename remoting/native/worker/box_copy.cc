// Copies of boxes: rows and planes with gaps between them, and copies between any two places of the lease.
#include "box_copy.h"

#include <cstring>

namespace worker {
namespace {

// The box's end of a driver's copy; the driver takes planes as whole numbers of rows, as the box does.
void set_from(CUDA_MEMCPY3D& copy, const CopyPlace& from) {
    const wire::Box& box = from.box;
    copy.srcMemoryType = from.type;
    if (from.type == CU_MEMORYTYPE_ARRAY) {
        copy.srcArray = from.array.handle;
        copy.srcXInBytes = from.place.x, copy.srcY = from.place.y, copy.srcZ = from.place.z;
        return;
    }
    if (from.type == CU_MEMORYTYPE_HOST) copy.srcHost = reinterpret_cast<const void*>(box.address);
    if (from.type == CU_MEMORYTYPE_DEVICE) copy.srcDevice = static_cast<CUdeviceptr>(box.address);
    copy.srcPitch = box.pitch;
    copy.srcHeight = box.rows;
}

void set_to(CUDA_MEMCPY3D& copy, const CopyPlace& to) {
    const wire::Box& box = to.box;
    copy.dstMemoryType = to.type;
    copy.WidthInBytes = box.width;
    copy.Height = box.height;
    copy.Depth = box.depth;
    if (to.type == CU_MEMORYTYPE_ARRAY) {
        copy.dstArray = to.array.handle;
        copy.dstXInBytes = to.place.x, copy.dstY = to.place.y, copy.dstZ = to.place.z;
        return;
    }
    if (to.type == CU_MEMORYTYPE_HOST) copy.dstHost = reinterpret_cast<void*>(box.address);
    if (to.type == CU_MEMORYTYPE_DEVICE) copy.dstDevice = static_cast<CUdeviceptr>(box.address);
    copy.dstPitch = box.pitch;
    copy.dstHeight = box.rows;
}

// The same shape without gaps, at `address`.
CopyPlace packed(const wire::Box& box, const void* address) {
    return host_place(
        {reinterpret_cast<uint64_t>(address), box.width, box.height, box.width, box.height, box.depth});
}

// A box with strides that mean nothing, because it has one row or one plane, with strides that every driver
// takes.
wire::Box normal(wire::Box box) {
    if (wire::is_flat(box)) box.pitch = box.width;
    if (box.depth == 1) box.rows = box.height;
    return box;
}

CUresult find_in_array(const Context& context, const wire::Box& box, CopyPlace& place) {
    if (!context.session().arrays.find(box.array, place.array)) return CUDA_ERROR_INVALID_HANDLE;
    const cuda::ArrayShape& shape = place.array.shape;
    place.place = cuda::place_of(shape, box.address);
    place.box.pitch = shape.row_bytes();  // whatever the client says: pieces are found by it
    place.box.rows = shape.rows();
    place.type = CU_MEMORYTYPE_ARRAY;
    place.device = place.array.device;
    return cuda::holds(shape, place.place, box.width, box.height, box.depth) ? CUDA_SUCCESS
                                                                             : CUDA_ERROR_INVALID_VALUE;
}

// Of memory on two devices; the driver needs to be told their contexts.
CUresult copy_between(Context& context, const CopyPlace& to, const CopyPlace& from, CUstream stream) {
    const auto& devices = context.worker().devices;
    const CUDA_MEMCPY3D same = described(to, from);
    CUDA_MEMCPY3D_PEER copy;
    static_assert(sizeof copy == sizeof same, "the same, with contexts where that has nothing");
    std::memcpy(&copy, &same, sizeof copy);
    copy.srcContext = devices[from.device].context;
    copy.dstContext = devices[to.device].context;
    const CUDA_MEMCPY3D_PEER* request = &copy;
    return invoke(context.driver().cuMemcpy3DPeerAsync, request, stream);
}

}  // namespace

CUDA_MEMCPY3D described(const CopyPlace& to, const CopyPlace& from) {
    CUDA_MEMCPY3D copy{};
    set_from(copy, from);
    set_to(copy, to);
    return copy;
}

CopyPlace host_place(const wire::Box& box) {
    return {.box = box, .type = CU_MEMORYTYPE_HOST};
}

CUresult find_place(const Context& context, const wire::Box& box, CopyPlace& place) {
    place.box = normal(box);
    if (box.array) return find_in_array(context, box, place);
    const auto device = context.worker().memory.device_of(box.address, wire::span(box));
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    place.device = *device;
    return CUDA_SUCCESS;
}

CopyPlace part_of(const CopyPlace& place, const wire::Piece& piece) {
    CopyPlace part = place;
    part.box = normal(wire::part_of(place.box, piece));
    if (part.box.array) part.place = cuda::place_of(part.array.shape, part.box.address);
    return part;
}

CUresult copy_piece_out(Context& context, void* to, const CopyPlace& piece, CUstream stream) {
    const Driver& driver = context.driver();
    if (wire::is_flat(piece.box)) {
        return invoke(driver.cuMemcpyDtoHAsync_v2, to, static_cast<CUdeviceptr>(piece.box.address),
                      static_cast<size_t>(piece.box.width), stream);
    }
    const CUDA_MEMCPY3D copy = described(packed(piece.box, to), piece);
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
    CopyPlace to;
    if (CUresult error = find_place(context, head.box, to)) return error;
    const CUDA_MEMCPY3D copy = described(to, packed(head.box, bytes.data()));
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
    wire::Box from_box = message.from;
    const wire::Box& to_box = message.to.box;
    from_box.width = to_box.width;
    from_box.height = to_box.height;
    from_box.depth = to_box.depth;
    if (!wire::well_formed(to_box) || !wire::well_formed(from_box)) return kMalformed;
    CUstream stream;
    if (!context.stream(message.to.stream, stream)) return CUDA_ERROR_INVALID_HANDLE;
    CopyPlace to, from;
    if (CUresult error = find_place(context, to_box, to)) return error;
    if (CUresult error = find_place(context, from_box, from)) return error;
    if (to.device != from.device) return copy_between(context, to, from, stream);
    const Driver& driver = context.driver();
    if (wire::is_flat(to.box) && wire::is_flat(from.box)) {
        return invoke(driver.cuMemcpyDtoDAsync_v2, static_cast<CUdeviceptr>(to.box.address),
                      static_cast<CUdeviceptr>(from.box.address), static_cast<size_t>(to.box.width), stream);
    }
    const CUDA_MEMCPY3D copy = described(to, from);
    const CUDA_MEMCPY3D* request = &copy;
    return invoke(driver.cuMemcpy3DAsync_v2, request, stream);
}

}  // namespace worker
