#include "array.h"

#include "driver.h"
#include "front/platform.h"
#include "thread_state.h"

namespace softgpu::driver {

ArrayMemory::ArrayMemory(Context& context, uint64_t bytes)
    : base(context.driver.memory.place_or_refuse(context, bytes)),
      space_(context.driver.memory.space(context.device)) {}

ArrayMemory::~ArrayMemory() {
    space_.free(base);
}

std::shared_ptr<Array> make_array(const std::shared_ptr<Context>& context, const cuda::ArrayShape& shape) {
    auto memory = std::make_shared<ArrayMemory>(*context, shape.linear_bytes());
    const uint64_t base = memory->base;
    return std::make_shared<Array>(context, shape, std::move(memory), base, false);
}

std::shared_ptr<MipmappedArray> make_mipmapped_array(const std::shared_ptr<Context>& context,
                                                     const cuda::ArrayShape& shape) {
    const auto memory = std::make_shared<ArrayMemory>(*context, shape.linear_bytes());
    std::vector<std::shared_ptr<Array>> levels;
    for (unsigned i = 0; i < shape.levels; ++i) {
        levels.push_back(std::make_shared<Array>(context, shape.level(i), memory,
                                                 memory->base + shape.offset_of_level(i), true));
    }
    return std::make_shared<MipmappedArray>(context, shape, std::move(levels));
}

}  // namespace softgpu::driver

namespace front::platform {

using namespace softgpu;
using namespace softgpu::driver;

namespace {

// Its context has it from now on.
uint64_t given_out(const std::shared_ptr<Object>& object, driver::Context& context) {
    const uint64_t handle = live().handles.add(object);
    context.own(handle);
    return handle;
}

void take_back(const Object& object, driver::Context& context) {
    require(live().handles.remove(object.handle, &object), CUDA_ERROR_INVALID_HANDLE);
    context.disown(object.handle);
}

// A worker has waited for its session's work already; that of other sessions need not end.
void wait_for_users() {
    if (!thread_state().session) live().scheduler.drain_all();
}

}  // namespace

CUarray make_array(const cuda::ArrayShape& shape) {
    const auto context = driver::working_context();
    return as_handle<CUarray>(given_out(driver::make_array(context, shape), *context));
}

CUmipmappedArray make_mipmapped_array(const cuda::ArrayShape& shape) {
    const auto context = driver::working_context();
    const auto made = driver::make_mipmapped_array(context, shape);
    for (const auto& level : made->levels) given_out(level, *context);
    return as_handle<CUmipmappedArray>(given_out(made, *context));
}

cuda::ArrayShape array_shape(CUarray array) {
    return live().handles.get<Array>(array)->shape;
}

cuda::ArrayShape array_shape(CUmipmappedArray array) {
    return live().handles.get<MipmappedArray>(array)->shape;
}

CUdevice array_device(CUarray array) {
    return live().handles.get<Array>(array)->context->device;
}

CUdevice array_device(CUmipmappedArray array) {
    return live().handles.get<MipmappedArray>(array)->context->device;
}

CUarray array_level(CUmipmappedArray array, unsigned level) {
    const auto found = live().handles.get<MipmappedArray>(array);
    require(level < found->levels.size());
    return as_handle<CUarray>(found->levels[level]->handle);
}

void end_array(CUarray array) {
    const auto found = live().handles.get<Array>(array);
    require(!found->is_level, CUDA_ERROR_INVALID_HANDLE);
    take_back(*found, *found->context);
    wait_for_users();
}

void end_mipmapped_array(CUmipmappedArray array) {
    const auto found = live().handles.get<MipmappedArray>(array);
    take_back(*found, *found->context);
    for (const auto& level : found->levels) take_back(*level, *level->context);
    wait_for_users();
}

}  // namespace front::platform
