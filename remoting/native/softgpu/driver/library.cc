// What the front wants of this driver for libraries and modules.
#include "front/library.h"

#include "driver.h"
#include "front/platform.h"
#include "link.h"
#include "module.h"

namespace front::platform {
namespace {

using namespace softgpu;
using driver::as_handle;
using driver::Driver;

template <class Handle>
using Object = std::conditional_t<std::is_same_v<Handle, CUmodule>, driver::Module, driver::Library>;

template <class Handle>
Object<Handle>& object_in(const std::shared_ptr<void>& object) {
    return *static_cast<Object<Handle>*>(object.get());
}

// As the calling thread's context has it.
std::shared_ptr<driver::Module> here(driver::Library& library) {
    return library.module(*Driver::live()->current());
}
std::shared_ptr<driver::Module> here(driver::Module& module) {
    return module.shared_from_this();
}

std::shared_ptr<driver::Kernel> kernel_in(driver::Library& library, uint32_t index) {
    return library.kernel(index);
}
std::shared_ptr<driver::Function> kernel_in(driver::Module& module, uint32_t index) {
    return module.function(index);
}

}  // namespace

template <class Handle>
Library<Handle>::Library(Handle handle)
    : handle_(handle), object_(Driver::live()->handles.get<Object<Handle>>(handle)) {}

template <>
CUlibrary Library<CUlibrary>::load(const Image& image, const JitOptions& options) {
    Driver& driver = *Driver::live();
    const auto fresh = std::make_shared<driver::Library>(driver, driver::link_image(image, options));
    return as_handle<CUlibrary>(driver.handles.add(fresh));
}

template <>
CUmodule Library<CUmodule>::load(const Image& image, const JitOptions& options) {
    const auto context = Driver::live()->current();
    const auto fresh = std::make_shared<driver::Module>(context, driver::link_image(image, options), nullptr);
    context->driver.handles.add(fresh);
    context->own(fresh->handle);
    return as_handle<CUmodule>(fresh->handle);
}

template <class Handle>
void Library<Handle>::unload() {
    Object<Handle>& object = object_in<Handle>(object_);
    if constexpr (std::is_same_v<Handle, CUmodule>) require(!object.of_library, CUDA_ERROR_NOT_PERMITTED);
    require(Driver::live()->handles.remove(object.handle), CUDA_ERROR_INVALID_HANDLE);
    object.unload();
}

template <class Handle>
size_t Library<Handle>::kernel_count() const {
    return object_in<Handle>(object_).program->kernels().size();
}

template <class Handle>
KernelIn<Handle> Library<Handle>::kernel(size_t index) const {
    const auto kernel = kernel_in(object_in<Handle>(object_), static_cast<uint32_t>(index));
    return as_handle<KernelIn<Handle>>(kernel->handle);
}

template <class Handle>
KernelIn<Handle> Library<Handle>::kernel(const char* name) const {
    return kernel(driver::kernel_index(*object_in<Handle>(object_).program, name));
}

// A managed variable is a variable: programs may touch all memory of the device.
template <class Handle>
Variable Library<Handle>::variable(const char* name, bool) const {
    const auto place = here(object_in<Handle>(object_))->global(name);
    return {place.address, place.bytes};
}

template <class Handle>
CUmodule Library<Handle>::module() const {
    return as_handle<CUmodule>(here(object_in<Handle>(object_))->handle);
}

template class Library<CUlibrary>;
template class Library<CUmodule>;

}  // namespace front::platform
