#include "array.h"

#include <array>

#include "call.h"
#include "context.h"
#include "front/platform.h"
#include "handles.h"
#include "session.h"

namespace client {
namespace {

// Read without a lock, like all slots: what a destroy races with is stale, and the worker looks again.
struct Array {
    uint64_t context = 0;
    CUdevice device = 0;
    cuda::ArrayShape shape{};
    bool is_level = false;
};

struct MipmappedArray {
    uint64_t context = 0;
    CUdevice device = 0;
    cuda::ArrayShape shape{};
    std::array<uint64_t, wire::kMaxArrayLevels> levels{};
};

HandleTable<Array>& arrays() {
    static auto* table = new HandleTable<Array>(wire::HandleKind::array);
    return *table;
}
HandleTable<MipmappedArray>& mipmapped_arrays() {
    static auto* table = new HandleTable<MipmappedArray>(wire::HandleKind::mipmapped_array);
    return *table;
}

template <typename T, typename Handle>
T& find(HandleTable<T>& table, Handle handle) {
    T* found = table.find(reinterpret_cast<uint64_t>(handle));
    front::require(found != nullptr, CUDA_ERROR_INVALID_HANDLE);
    return *found;
}

uint64_t add_array(const cuda::ArrayShape& shape, bool is_level) {
    const CUdevice device = front::platform::require_context();
    return arrays().add(
        [&](Array& array, uint64_t) { array = {current_context_id(), device, shape, is_level}; });
}

void remove_levels(const MipmappedArray& array) {
    for (const uint64_t level : array.levels) arrays().remove(level);
}

// The worker makes it; the handles are to be given up where it does not.
CUresult ask_for(uint64_t handle, const cuda::ArrayShape& shape, const uint64_t* levels) {
    Call call;
    if (CUresult error = call.begin()) return error;
    wire::ArrayHead head{
        handle,         shape.width, shape.height, shape.depth, static_cast<uint32_t>(shape.format),
        shape.channels, shape.flags, shape.levels};
    const iovec parts[2] = {{&head, sizeof head},
                            {const_cast<uint64_t*>(levels), shape.levels * sizeof *levels}};
    std::span<const std::byte> nothing;
    return call.ask_parts(wire::kOpMakeArray, 0, parts, shape.levels ? 2 : 1, nothing);
}

void give_up(uint64_t handle) {
    Call call;
    front::check(call.begin_without_context());
    front::check(call.post(wire::kOpEndArray, 0, &handle, sizeof handle));
}

template <typename T>
void take_of(HandleTable<T>& table, uint64_t context, std::vector<uint64_t>& taken) {
    for (const uint64_t handle : table.all()) {
        const T* array = table.find(handle);
        if (array && array->context == context && table.remove(handle)) taken.push_back(handle);
    }
}

}  // namespace

std::vector<uint64_t> take_arrays(uint64_t context) {
    std::vector<uint64_t> taken;
    take_of(mipmapped_arrays(), context, taken);
    std::vector<uint64_t> with_levels;
    take_of(arrays(), context, with_levels);
    // Levels go with what they are of: the worker takes their handles for none then.
    taken.insert(taken.end(), with_levels.begin(), with_levels.end());
    return taken;
}

void forget_arrays() {
    mipmapped_arrays().forget_all();
    arrays().forget_all();
}

}  // namespace client

namespace front::platform {

using namespace client;

CUarray make_array(const cuda::ArrayShape& shape) {
    const uint64_t handle = add_array(shape, false);
    require(handle != 0, CUDA_ERROR_OUT_OF_MEMORY);
    if (CUresult error = ask_for(handle, shape, nullptr)) {
        arrays().remove(handle);
        refuse(error);
    }
    return reinterpret_cast<CUarray>(handle);
}

CUmipmappedArray make_mipmapped_array(const cuda::ArrayShape& shape) {
    MipmappedArray made{current_context_id(), require_context(), shape};
    bool is_room = true;
    for (unsigned i = 0; i < shape.levels; ++i) {
        made.levels[i] = add_array(shape.level(i), true);
        is_room = is_room && made.levels[i] != 0;
    }
    uint64_t handle = 0;
    if (is_room) handle = mipmapped_arrays().add([&](MipmappedArray& array, uint64_t) { array = made; });
    const CUresult error = handle ? ask_for(handle, shape, made.levels.data()) : CUDA_ERROR_OUT_OF_MEMORY;
    if (error == CUDA_SUCCESS) return reinterpret_cast<CUmipmappedArray>(handle);
    mipmapped_arrays().remove(handle);
    remove_levels(made);
    refuse(error);
}

cuda::ArrayShape array_shape(CUarray array) {
    return find(arrays(), array).shape;
}

cuda::ArrayShape array_shape(CUmipmappedArray array) {
    return find(mipmapped_arrays(), array).shape;
}

CUdevice array_device(CUarray array) {
    return find(arrays(), array).device;
}

CUdevice array_device(CUmipmappedArray array) {
    return find(mipmapped_arrays(), array).device;
}

CUarray array_level(CUmipmappedArray array, unsigned level) {
    const MipmappedArray& found = find(mipmapped_arrays(), array);
    require(level < found.levels.size() && found.levels[level] != 0);
    return reinterpret_cast<CUarray>(found.levels[level]);
}

void end_array(CUarray array) {
    const auto handle = reinterpret_cast<uint64_t>(array);
    require(!find(arrays(), array).is_level && arrays().remove(handle), CUDA_ERROR_INVALID_HANDLE);
    give_up(handle);
}

void end_mipmapped_array(CUmipmappedArray array) {
    const auto handle = reinterpret_cast<uint64_t>(array);
    const MipmappedArray ended = find(mipmapped_arrays(), array);
    require(mipmapped_arrays().remove(handle), CUDA_ERROR_INVALID_HANDLE);
    remove_levels(ended);
    give_up(handle);
}

}  // namespace front::platform
