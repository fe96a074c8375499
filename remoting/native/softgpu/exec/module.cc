// Program, and its globals placed in a device's memory.
#include <algorithm>
#include <cstring>
#include <new>
#include <unordered_map>

#include "exec/handlers.h"
#include "exec/image.h"
#include "exec/variables.h"
#include "lower/device_runtime.h"
#include "lower/link.h"
#include "ptx/error.h"
#include "ptx/syntax.h"

namespace softgpu {

const Function* Image::function_of(const Op* op) const {
    const uint64_t at = uint64_t(op - ops.data());
    for (const Function& function : functions) {
        if (at >= function.first && at < function.end) return &function;
    }
    return nullptr;
}

std::string Image::source_of(const Op* op) const {
    const Function* function = function_of(op);
    if (function == nullptr) return {};
    const auto& lines = function->source_lines;
    auto after =
        std::upper_bound(lines.begin(), lines.end(), op->line,
                         [](uint32_t line, const SourceLine& place) { return line < place.ptx_line; });
    if (after == lines.begin()) return {};
    const SourceLine& place = *--after;
    const std::string& file = source_files[place.file];
    return place.line == 0 || file.empty() ? std::string() : file + ":" + std::to_string(place.line);
}

namespace {

constexpr std::string_view kDeviceRuntime = "the device runtime";

std::string describe(const ptx::Error& error, std::span<const PtxInput> inputs, size_t failed) {
    return ptx::describe(error, failed < inputs.size() ? inputs[failed].name : kDeviceRuntime);
}

}  // namespace

LinkResult Program::link(std::span<const PtxInput> inputs, const LinkOptions& options) noexcept try {
    if (instruction_set() == nullptr)
        return {nullptr, "this processor is older than x86-64-v2; the software GPU needs that"};
    size_t total = 0, failed = 0;
    for (const PtxInput& input : inputs) total += input.text.size();
    if (total > Limits::text_bytes)
        return {nullptr, "more than " + std::to_string(Limits::text_bytes) + " bytes of PTX text"};
    std::vector<ptx::Module> modules;
    try {
        for (; failed < inputs.size(); ++failed) {
            modules.push_back(ptx::parse(inputs[failed].name, inputs[failed].text));
            if (inputs.size() > 1 && lower::is_cuda_device_runtime(modules.back())) modules.back() = {};
        }
        for (const std::string_view text : lower::device_runtime_for(modules))
            modules.push_back(ptx::parse(kDeviceRuntime, text));
        failed = 0;
        return {std::make_shared<const Program>(lower::link(modules, options.allow_undefined, failed)), {}};
    } catch (const ptx::Error& error) {
        return {nullptr, describe(error, inputs, failed)};
    }
} catch (const std::bad_alloc&) {
    return {nullptr, "not enough memory for this PTX text"};
} catch (const std::exception& error) {
    return {nullptr, error.what()};
}

Program::Program(std::unique_ptr<const Image> image) : image_(std::move(image)) {}
Program::~Program() = default;

std::span<const KernelInfo> Program::kernels() const {
    return image_->kernel_infos;
}
std::span<const GlobalInfo> Program::globals() const {
    return image_->globals;
}

std::span<const RefusedKernel> Program::refused() const {
    return image_->refused;
}

std::optional<uint32_t> Program::find_kernel(std::string_view name) const {
    for (uint32_t i = 0; i < image_->kernel_infos.size(); ++i) {
        if (image_->kernel_infos[i].name == name) return i;
    }
    return std::nullopt;
}

LoadedModule::LoadedModule(std::shared_ptr<const Program> program, DeviceMemory& memory)
    : program_(std::move(program)), memory_(&memory) {}

LoadedModule::~LoadedModule() {
    for (const uint64_t place : places_) {
        variable_gone(place);
        memory_->free(place);
    }
}

LoadResult LoadedModule::load(std::shared_ptr<const Program> program, DeviceMemory& memory) noexcept try {
    const Image& image = program->image();
    std::unique_ptr<LoadedModule> module(new LoadedModule(std::move(program), memory));
    module->places_.reserve(image.globals.size());
    for (const GlobalInfo& global : image.globals) {
        const uint64_t bytes = global.bytes == 0 ? 1 : global.bytes;
        const uint64_t place = memory.allocate(bytes, global.align < 16 ? 16 : global.align);
        if (place == 0)
            return {nullptr,
                    "out of memory for " + global.name + " of " + std::to_string(global.bytes) + " bytes"};
        module->places_.push_back(place);
        variable_placed(place);
    }
    for (size_t i = 0; i < image.globals.size(); ++i) {
        const GlobalData& data = image.global_data[i];
        auto* to = reinterpret_cast<std::byte*>(module->places_[i]);
        if (!data.initial.empty()) std::memcpy(to, data.initial.data(), data.initial.size());
        for (const GlobalRelocation& relocation : data.relocations) {
            uint64_t value = uint64_t(relocation.addend);
            switch (relocation.kind) {
                case GlobalRelocation::Kind::global:
                    value += module->places_[relocation.index];
                    break;
                case GlobalRelocation::Kind::function:
                    value += Windows::function + relocation.index;
                    break;
                case GlobalRelocation::Kind::shared:
                    value += Windows::shared;
                    break;
            }
            std::memcpy(to + relocation.offset, &value, sizeof value);
        }
    }
    return {std::move(module), {}};
} catch (const std::bad_alloc&) {
    return {nullptr, "the host is out of memory"};
}

std::optional<GlobalPlace> LoadedModule::find_global(std::string_view name) const {
    const auto globals = program_->globals();
    const GlobalInfo* found = nullptr;
    for (const GlobalInfo& global : globals) {
        if (global.name == name && (found == nullptr || (global.visible && !found->visible))) found = &global;
    }
    if (found == nullptr) return std::nullopt;
    return GlobalPlace{places_[size_t(found - globals.data())], found->bytes};
}

}  // namespace softgpu
