// Modules and libraries: linked PTX, loaded into one context or, lazily, into each that uses it.
#pragma once

#include <condition_variable>
#include <map>
#include <set>

#include "context.h"
#include "engine.h"

namespace softgpu::driver {

class Module;

// What a program may ask about a kernel, and set. One for each kernel of a module or library.
struct KernelSettings {
    KernelSettings(std::shared_ptr<const Program> program, uint32_t index);

    const std::shared_ptr<const Program> program;
    const KernelInfo& info;
    std::atomic<uint32_t> max_dynamic_shared;
    std::atomic<int> shared_carveout{-1};  // a hint, kept for who asks
};

class Function : public Object {
  public:
    static constexpr Kind kKind = Kind::function;
    Function(std::shared_ptr<Module> module, uint32_t index, std::shared_ptr<KernelSettings> settings)
        : Object(kKind), module(std::move(module)), index(index), settings(std::move(settings)) {}
    const std::shared_ptr<Module> module;
    const uint32_t index;  // in the program's kernels
    const std::shared_ptr<KernelSettings> settings;
    const KernelInfo& info() const { return settings->info; }
};

class Library;

class Module : public Object, public std::enable_shared_from_this<Module> {
  public:
    static constexpr Kind kKind = Kind::module;
    // Throws OUT_OF_MEMORY when the globals do not fit. `library` is null for a module of its own.
    Module(std::shared_ptr<Context> context, std::shared_ptr<const Program> program,
           const std::shared_ptr<Library>& library);

    const std::shared_ptr<Context> context;
    const std::shared_ptr<const Program> program;
    const bool of_library;
    void context_ended() override;
    const LoadedModule& loaded() const { return *loaded_; }

    std::shared_ptr<Function> function(uint32_t index);  // with a handle; the same one each time
    GlobalPlace global(const char* name) const;          // throws NOT_FOUND
    uint32_t most_dynamic_shared(uint32_t kernel) const {
        return settings_[kernel]->max_dynamic_shared.load();
    }
    void unload();  // takes the functions' handles away; the context has it no longer

  private:
    void drop_functions();  // takes their handles away

    const std::weak_ptr<Library> library_;
    std::unique_ptr<LoadedModule> loaded_;
    std::vector<std::shared_ptr<KernelSettings>> settings_;
    std::mutex mutex_;
    std::map<uint32_t, std::shared_ptr<Function>> functions_;
};

class Kernel : public Object {
  public:
    static constexpr Kind kKind = Kind::kernel;
    Kernel(std::shared_ptr<Library> library, uint32_t index)
        : Object(kKind), library(std::move(library)), index(index) {}
    const std::shared_ptr<Library> library;
    const uint32_t index;
};

class Library : public Object, public std::enable_shared_from_this<Library> {
  public:
    static constexpr Kind kKind = Kind::library;
    Library(Driver& driver, std::shared_ptr<const Program> program);

    Driver& driver;
    const std::shared_ptr<const Program> program;
    std::shared_ptr<KernelSettings> settings(uint32_t index) const { return settings_[index]; }

    std::shared_ptr<Kernel> kernel(uint32_t index);  // with a handle; the same one each time
    std::shared_ptr<Module> module(Context& context);
    void forget(const Context& context);  // drops what was loaded into it
    void unload();  // takes all handles away; the memory goes when no launch needs it any more

  private:
    std::shared_ptr<Module> load(Context& context);

    std::vector<std::shared_ptr<KernelSettings>> settings_;
    std::mutex mutex_;
    std::map<uint32_t, std::shared_ptr<Kernel>> kernels_;
    std::map<uint64_t, std::shared_ptr<Module>> modules_;  // by the id of the context
    std::set<uint64_t> loading_;                           // contexts into which a thread loads it
    std::condition_variable loaded_;
};

// A CUfunction, or a CUkernel in its place, as programs pass it: in the given context.
std::shared_ptr<Function> find_function(Context& context, CUfunction handle);

// Index of the kernel of that name; throws NOT_FOUND or, after a line on the log, INVALID_PTX for one that is
// refused while others of its program run.
uint32_t kernel_index(const Program& program, const char* name);
// The line about it.
std::string refusal_of(const RefusedKernel& kernel);

}  // namespace softgpu::driver
