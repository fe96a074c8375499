#include "arrays.h"

#include <algorithm>

#include "handlers.h"
#include "in_context.h"

namespace worker {
namespace {

// What an array takes. The software GPU's is linear; a real driver's lies in tiles, whose size it does not
// tell: rows and planes are counted in whole ones of 512 bytes by eight rows.
uint64_t bytes_of(const Driver& driver, const cuda::ArrayShape& shape) {
    if (driver.software) return shape.linear_bytes();
    constexpr uint64_t kTileWidth = 512, kTileRows = 8;
    const auto rounded = [](uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; };
    uint64_t bytes = 0;
    for (unsigned i = 0; i < std::max(shape.levels, 1u); ++i) {
        const cuda::ArrayShape level = shape.level(i);
        bytes += rounded(level.row_bytes(), kTileWidth) * rounded(level.rows(), kTileRows) * level.planes();
    }
    return bytes;
}

bool take_shape(wire::Reader& payload, wire::ArrayHead& head, cuda::ArrayShape& shape,
                std::vector<uint64_t>& levels) {
    if (!payload.take(head) || head.levels > wire::kMaxArrayLevels) return false;
    shape = {head.width,    head.height, head.depth, static_cast<CUarray_format>(head.format),
             head.channels, head.flags,  head.levels};
    levels.resize(head.levels);
    for (uint64_t& level : levels) {
        if (!payload.take(level)) return false;
    }
    return payload.finished();
}

// Whether the client may mint these now.
bool may_add(const Session& session, const wire::ArrayHead& head, std::vector<uint64_t> levels) {
    if (levels.empty()) return session.arrays.may_add(head.array, wire::HandleKind::array);
    std::sort(levels.begin(), levels.end());
    return std::adjacent_find(levels.begin(), levels.end()) == levels.end() &&
           session.mipmapped_arrays.may_add(head.array, wire::HandleKind::mipmapped_array) &&
           session.arrays.size() <= wire::kMaxHandles - levels.size() &&
           std::all_of(levels.begin(), levels.end(), [&](uint64_t level) {
               return session.arrays.may_add(level, wire::HandleKind::array);
           });
}

CUresult check_shape(const Context& context, const cuda::ArrayShape& shape) {
    const wire::DeviceSnapshot& device = context.worker().devices[context.device()].snapshot;
    return cuda::check_array(shape, [&](CUdevice_attribute attribute) {
        return device.attribute_status[attribute] == CUDA_SUCCESS ? device.attributes[attribute] : 0;
    });
}

CUresult add(const Context& context, uint64_t handle, const cuda::ArrayShape& shape,
             const std::vector<uint64_t>& levels, std::shared_ptr<const ArrayMemory> memory) {
    Session& session = context.session();
    const uint8_t device = context.device();
    if (levels.empty()) {
        const CUarray array = memory->array();
        const bool added = session.arrays.add(handle, {array, shape, device, false, std::move(memory)});
        return added ? CUDA_SUCCESS : kMalformed;
    }
    for (unsigned i = 0; i < shape.levels; ++i) {
        Array level{.shape = shape.level(i), .device = device, .is_level = true, .memory = memory};
        if (CUresult error = memory->level(i, level.handle)) {
            for (unsigned made = 0; made < i; ++made) session.arrays.take(levels[made], level);
            return error;
        }
        if (!session.arrays.add(levels[i], std::move(level))) return kMalformed;
    }
    return session.mipmapped_arrays.add(handle, {shape, device, levels, std::move(memory)}) ? CUDA_SUCCESS
                                                                                            : kMalformed;
}

}  // namespace

ArrayMemory::~ArrayMemory() {
    const InContext context(worker_, device_);
    CUresult result = CUDA_SUCCESS;
    if (array_) result = invoke(worker_.driver.cuArrayDestroy, array_);
    if (mipmapped_) result = invoke(worker_.driver.cuMipmappedArrayDestroy, mipmapped_);
    // What the driver does not let go of stays the slice's.
    if (result == CUDA_SUCCESS) worker_.memory.give_back(device_, charged_);
}

CUresult ArrayMemory::make(const cuda::ArrayShape& shape) {
    const CUDA_ARRAY3D_DESCRIPTOR described{shape.width,  shape.height,   shape.depth,
                                            shape.format, shape.channels, shape.flags};
    const CUDA_ARRAY3D_DESCRIPTOR* given = &described;
    if (!shape.levels) return invoke(worker_.driver.cuArray3DCreate_v2, &array_, given);
    return invoke(worker_.driver.cuMipmappedArrayCreate, &mipmapped_, given, shape.levels);
}

CUresult ArrayMemory::level(unsigned number, CUarray& level) const {
    return invoke(worker_.driver.cuMipmappedArrayGetLevel, &level, mipmapped_, number);
}

CUresult handle_make_array(Context& context, uint8_t, wire::Reader& payload, wire::Writer&) {
    wire::ArrayHead head;
    cuda::ArrayShape shape;
    std::vector<uint64_t> levels;
    if (!take_shape(payload, head, shape, levels) || !may_add(context.session(), head, levels))
        return kMalformed;
    if (CUresult error = check_shape(context, shape)) return error;
    Worker& worker = context.worker();
    const uint64_t charge = MemoryLedger::charge_of(bytes_of(context.driver(), shape));
    if (!worker.room.take(context.session(), context.device(), charge)) return CUDA_ERROR_OUT_OF_MEMORY;
    const auto memory = std::make_shared<ArrayMemory>(worker, context.device(), charge);
    if (CUresult error = memory->make(shape)) return error;
    return add(context, head.array, shape, levels, memory);
}

// What runs may use it.
CUresult handle_end_array(Context& context, uint8_t, wire::Reader& payload, wire::Writer&) {
    uint64_t handle;
    if (!payload.take(handle) || !payload.finished()) return kMalformed;
    Session& session = context.session();
    Array array;
    MipmappedArray mipmapped;
    uint8_t device;
    if (session.arrays.find(handle, array)) {
        device = array.device;
    } else if (session.mipmapped_arrays.find(handle, mipmapped)) {
        device = mipmapped.device;
    } else {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    const CUresult result = session.own_work.wait(device);
    return session.end_array(handle) ? result : CUDA_ERROR_INVALID_HANDLE;
}

bool Session::end_array(uint64_t handle) {
    Array array;
    if (arrays.take_if_one(handle, array, [](const Array& found) { return !found.is_level; })) return true;
    MipmappedArray mipmapped;
    if (!mipmapped_arrays.take(handle, mipmapped)) return false;
    for (const uint64_t level : mipmapped.levels) arrays.take(level, array);
    return true;
}

}  // namespace worker
