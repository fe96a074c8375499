#include "module.h"

#include <algorithm>

#include "driver.h"
#include "exec/readable_name.h"
#include "session.h"

namespace softgpu::driver {
namespace {

constexpr uint32_t kSharedWithoutOptIn = 48 * 1024;

std::vector<std::shared_ptr<KernelSettings>> default_settings(const std::shared_ptr<const Program>& program) {
    std::vector<std::shared_ptr<KernelSettings>> all;
    for (uint32_t i = 0; i < program->kernels().size(); ++i)
        all.push_back(std::make_shared<KernelSettings>(program, i));
    return all;
}

}  // namespace

KernelSettings::KernelSettings(std::shared_ptr<const Program> code, uint32_t index)
    : program(std::move(code)),
      info(program->kernels()[index]),
      max_dynamic_shared(kSharedWithoutOptIn - std::min(info.static_shared_bytes, kSharedWithoutOptIn)) {}

Module::Module(std::shared_ptr<Context> owner, std::shared_ptr<const Program> code,
               const std::shared_ptr<Library>& library)
    : Object(kKind),
      context(std::move(owner)),
      program(std::move(code)),
      of_library(library != nullptr),
      library_(library) {
    Memory& memory = context->driver.memory;
    LoadResult result;
    const auto load = [&] {
        result = LoadedModule::load(program, memory.space(context->device));
        return result.module != nullptr;
    };
    require(memory.find_room(context->device, load), CUDA_ERROR_OUT_OF_MEMORY);
    loaded_ = std::move(result.module);
    if (library) {
        for (uint32_t i = 0; i < program->kernels().size(); ++i) settings_.push_back(library->settings(i));
    } else {
        settings_ = default_settings(program);
    }
}

std::shared_ptr<Function> Module::function(uint32_t index) {
    const std::lock_guard lock(mutex_);
    auto& function = functions_[index];
    if (!function) {
        function = std::make_shared<Function>(shared_from_this(), index, settings_.at(index));
        context->driver.handles.add(function);
    }
    return function;
}

void Module::drop_functions() {
    std::map<uint32_t, std::shared_ptr<Function>> gone;
    {
        const std::lock_guard lock(mutex_);
        gone.swap(functions_);
    }
    for (const auto& [index, function] : gone) context->driver.handles.remove(function->handle);
}

void Module::unload() {
    context->disown(handle);
    drop_functions();
}

void Module::context_ended() {
    drop_functions();
    if (const auto library = library_.lock()) library->forget(*context);
}

GlobalPlace Module::global(const char* name) const {
    require(name != nullptr);
    const auto place = loaded_->find_global(name);
    require(place.has_value(), CUDA_ERROR_NOT_FOUND);
    return *place;
}

Library::Library(Driver& driver, std::shared_ptr<const Program> code)
    : Object(kKind), driver(driver), program(std::move(code)), settings_(default_settings(program)) {}

std::shared_ptr<Kernel> Library::kernel(uint32_t index) {
    const std::lock_guard lock(mutex_);
    auto& kernel = kernels_[index];
    if (!kernel) {
        kernel = std::make_shared<Kernel>(shared_from_this(), index);
        driver.handles.add(kernel);
    }
    return kernel;
}

std::shared_ptr<Module> Library::module(Context& context) {
    std::unique_lock lock(mutex_);
    // Variables are loaded once: there may be no room for a second copy, which would go at once. A function
    // that a stream calls must not wait, and loads what it may not need.
    const bool waits = !Scheduler::in_callback();
    if (waits) loaded_.wait(lock, [&] { return !loading_.contains(context.id); });
    if (const auto known = modules_.find(context.id); known != modules_.end()) return known->second;
    if (!waits) {
        lock.unlock();
        return load(context);
    }
    struct Turn {
        ~Turn() {
            const std::lock_guard again(library.mutex_);
            library.loading_.erase(context);
            library.loaded_.notify_all();
        }
        Library& library;
        const uint64_t context;
    };
    loading_.insert(context.id);
    lock.unlock();
    const Turn turn{*this, context.id};
    return load(context);
}

std::shared_ptr<Module> Library::load(Context& context) {
    // Without the lock: room for the variables may have to be waited for, perhaps for what another thread
    // does with this library.
    auto fresh = std::make_shared<Module>(context.shared_from_this(), program, shared_from_this());
    const std::lock_guard lock(mutex_);
    if (const auto known = modules_.find(context.id); known != modules_.end()) return known->second;
    driver.handles.add(fresh);
    context.own(fresh->handle);
    modules_.emplace(context.id, fresh);  // once nothing can fail any more
    return fresh;
}

void Library::forget(const Context& context) {
    std::shared_ptr<Module> gone;  // destroyed after the lock is given back
    const std::lock_guard lock(mutex_);
    auto it = modules_.find(context.id);
    if (it == modules_.end()) return;
    gone = std::move(it->second);
    modules_.erase(it);
}

void Library::unload() {
    decltype(kernels_) kernels;
    decltype(modules_) modules;
    {
        const std::lock_guard lock(mutex_);
        kernels.swap(kernels_);
        modules.swap(modules_);
    }
    for (const auto& [index, kernel] : kernels) driver.handles.remove(kernel->handle);
    for (const auto& [id, module] : modules) {
        if (!module) continue;
        driver.handles.remove(module->handle);
        module->unload();
    }
}

std::shared_ptr<Function> find_function(Context& context, CUfunction handle) {
    const auto object = context.driver.handles.find_any(reinterpret_cast<uint64_t>(handle));
    require(object != nullptr, CUDA_ERROR_INVALID_HANDLE);
    if (object->kind == Kind::function) return std::static_pointer_cast<Function>(object);
    require(object->kind == Kind::kernel, CUDA_ERROR_INVALID_HANDLE);
    const auto& kernel = static_cast<const Kernel&>(*object);
    return kernel.library->module(context)->function(kernel.index);
}

uint32_t kernel_index(const Program& program, const char* name) {
    require(name != nullptr);
    const auto index = program.find_kernel(name);
    if (index) return *index;
    for (const RefusedKernel& kernel : program.refused()) {
        if (kernel.name != name) continue;
        current_session()->tell(kGkTextFault, refusal_of(kernel));
        refuse(CUDA_ERROR_INVALID_PTX);
    }
    refuse(CUDA_ERROR_NOT_FOUND);
}

std::string refusal_of(const RefusedKernel& kernel) {
    return "cannot run kernel " + readable_name(kernel.name) + ": " + kernel.why;
}

}  // namespace softgpu::driver
