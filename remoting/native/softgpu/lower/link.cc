#include "lower/link.h"

#include <algorithm>
#include <unordered_map>

#include "exec/check/request.h"
#include "exec/handlers.h"
#include "lower/check.h"
#include "lower/passes.h"
#include "lower/refusals.h"
#include "lower/select.h"

namespace softgpu::lower {
namespace {

constexpr uint32_t kLocalAlign = 16;
constexpr uint32_t kOldParamBytes = 4096;      // before PTX 8.1
constexpr size_t kMaxSharedTable = 16u << 20;  // entries: kernels times shared variables

uint64_t round_up(uint64_t value, uint64_t to) {
    return (value + to - 1) / to * to;
}

class Linker {
  public:
    Linker(const std::vector<ptx::Module>& modules, bool allow_undefined, size_t& failed)
        : modules_(modules), failed_(failed), allow_undefined_(allow_undefined) {}

    std::unique_ptr<Image> run() {
        image_ = std::make_unique<Image>();
        image_->checked = check::current_request() != nullptr;
        for (const ptx::Module& module : modules_) {
            if (module.max_registers != 0) max_registers_ = module.max_registers;
        }
        const auto symbols = std::make_unique<Symbols>(modules_, *image_, allow_undefined_, failed_);
        for (size_t number = 0; number < modules_.size(); ++number) {
            failed_ = number;
            for (size_t i = 0; i < modules_[number].functions.size(); ++i) {
                const uint32_t index = symbols->function_index(number, i);
                if (index != UINT32_MAX) try_lower(number, modules_[number].functions[i], index, *symbols);
            }
        }
        image_->ops.shrink_to_fit();
        symbols->relocate(modules_, *image_);
        for (Op& op : image_->ops) op.gang = find_gang_handler(op.fn);
        for (auto& table : image_->tables) {
            for (const Op*& target : *table) target = &image_->ops[reinterpret_cast<uintptr_t>(target)];
        }
        check_constants();
        find_stacks();
        refusals_.spread(*image_);
        for (size_t number = 0; number < modules_.size(); ++number) {
            failed_ = number;
            for (size_t i = 0; i < modules_[number].functions.size(); ++i) {
                const ptx::Function& source = modules_[number].functions[i];
                const uint32_t index = symbols->function_index(number, i);
                if (index != UINT32_MAX && source.kernel) try_describe(number, source, index);
            }
        }
        if (image_->kernels.empty()) refusals_.rethrow(failed_);
        return std::move(image_);
    }

  private:
    // A function that cannot be lowered is refused alone, and so are the kernels that may call it; a text
    // that cannot be read is refused whole.
    void try_lower(size_t number, const ptx::Function& head, uint32_t index, Symbols& symbols) {
        const ptx::Function source = ptx::with_body(head);
        try {
            lower(number, source, index, symbols);
        } catch (const ptx::Undefined&) {
            throw;
        } catch (const ptx::Error& error) {
            refusals_.refuse(*image_, index, error, number, modules_[number].name);
        }
    }

    void try_describe(size_t number, const ptx::Function& source, uint32_t index) {
        if (refusals_.refused(*image_, index)) return;
        try {
            describe(modules_[number], source, index);
        } catch (const ptx::Error& error) {
            refusals_.refuse_kernel(*image_, index, error, number, modules_[number].name);
        }
    }

    void lower(size_t number, const ptx::Function& source, uint32_t index, Symbols& symbols) {
        Function& function = image_->functions[index];
        if (source.kernel) place_params(modules_[number], source, function);
        place_sources(number, source, function);
        Body body = Selector(modules_, number, source, symbols, *image_, function).run();
        if (image_->checked) add_checks(body, *image_);
        if (!image_->checked) simplify(body, source.kernel);
        const Graph graph(body);
        body.order = graph.order();
        if (image_->checked) remove_copies(body, graph);
        share_surveys(body, graph);
        try {
            function.slot_bytes = assign_slots(body, graph, function.registers);
        } catch (const ptx::Error& error) {
            throw ptx::Error(source.line, std::string(error.what()) + " in " + function.name);
        }
        function.local_bytes = uint32_t(round_up(body.local_bytes, kLocalAlign));
        assemble(body, *image_, function);
        for (size_t i = 0; i < body.params.size(); ++i) {
            const Storage& storage = body.params[i];
            Place place{storage.bytes, storage.value == kNoValue, storage.local_offset};
            if (!place.local) {
                place.offset = body.values[storage.value].slot;
                if (place.offset == kNoSlot) place.bytes = 0;  // never looked at
            }
            (i < source.returns.size() ? function.returns : function.params).push_back(place);
        }
    }

    // A program that is checked stays as it was written, so that findings are too.
    static void simplify(Body& body, bool kernel) {
        const Graph graph(body);
        remove_copies(body, graph);
        if (kernel) hoist_to_prologue(body, graph);
        guard_short_branches(body, graph);
        fuse(body, graph);
    }

    // Files by number, each module's apart from the others'.
    void place_sources(size_t number, const ptx::Function& source, Function& function) {
        if (source.places.empty()) return;
        if (files_of_ != number) {
            files_of_ = number;
            files_.clear();
            for (const auto& [file, name] : modules_[number].files) {
                files_[file] = uint32_t(image_->source_files.size());
                image_->source_files.emplace_back(name);
            }
        }
        function.source_lines.reserve(source.places.size());
        for (const ptx::SourcePlace& place : source.places) {
            auto file = files_.find(place.file);
            uint32_t line = place.line;
            if (file != files_.end() && is_toolkit(file->second)) {
                // Nobody who calls a function of the toolkit wants a line inside of it.
                const auto caller = files_.find(place.caller_file);
                if (place.caller_line == 0 || caller == files_.end()) continue;
                file = caller, line = place.caller_line;
                if (is_toolkit(file->second)) continue;
            }
            if (file != files_.end()) function.source_lines.push_back({place.ptx_line, file->second, line});
        }
    }
    bool is_toolkit(uint32_t file) const {
        const std::string& name = image_->source_files[file];
        auto has = [&name](std::string_view part) { return name.find(part) != std::string::npos; };
        return has("/include/") && (has("/targets/") || has("/cuda-") || has("/cuda/") || has("/nvidia/"));
    }

    void place_params(const ptx::Module& module, const ptx::Function& source, Function& function) {
        const bool many = module.version >= 81 && module.target >= 70;
        const uint32_t limit = many ? Limits::param_bytes : kOldParamBytes;
        uint64_t at = 0;
        for (const ptx::Variable& param : source.params) {
            at = round_up(at, param.align);
            if (at + param.bytes > limit) {
                throw ptx::Error(param.line, "more than " + std::to_string(limit) + " bytes of parameters");
            }
            function.params.push_back({uint32_t(param.bytes), false, uint32_t(at)});
            at += param.bytes;
        }
    }

    void check_constants() {
        uint64_t total = 0;
        for (const GlobalInfo& global : image_->globals) {
            if (global.constant) total = round_up(total, global.align) + global.bytes;
            if (total > Limits::constant_bytes) {
                throw ptx::Error(
                    0, "more than " + std::to_string(Limits::constant_bytes) + " bytes of constant memory");
            }
        }
        constant_bytes_ = uint32_t(total);
    }

    // Every function's own local memory plus that of the deepest calls below; kUnknown where there is no
    // bound.
    void find_stacks() {
        constexpr uint8_t kNew = 0, kOpen = 1, kDone = 2;
        const auto& functions = image_->functions;
        std::vector<uint8_t> state(functions.size(), kNew);
        stack_.assign(functions.size(), 0);
        unbounded_.assign(functions.size(), false);
        for (uint32_t root = 0; root < functions.size(); ++root) {
            std::vector<std::pair<uint32_t, size_t>> path;
            if (state[root] == kNew) path.emplace_back(root, 0), state[root] = kOpen;
            while (!path.empty()) {
                auto& [index, next] = path.back();
                const Function& function = functions[index];
                if (next < function.calls.size()) {
                    const uint32_t callee = function.calls[next++];
                    if (state[callee] == kNew) {
                        state[callee] = kOpen;
                        path.emplace_back(callee, 0);
                    } else if (state[callee] == kOpen) {
                        unbounded_[index] = true;
                    }
                    continue;
                }
                uint64_t deepest = 0;
                bool unbounded = unbounded_[index] || function.calls_unknown;
                for (const uint32_t callee : function.calls) {
                    deepest = std::max(deepest, stack_[callee]);
                    unbounded = unbounded || unbounded_[callee];
                }
                stack_[index] = std::min<uint64_t>(function.local_bytes + deepest, Limits::local_bytes);
                unbounded_[index] = unbounded;
                state[index] = kDone;
                path.pop_back();
            }
        }
    }

    // Which shared variables a kernel needs: its own and those of all functions that it may call.
    std::vector<uint32_t> shared_of(uint32_t kernel) const {
        const auto& functions = image_->functions;
        std::vector<bool> seen(functions.size());
        std::vector<uint32_t> stack{kernel}, used;
        seen[kernel] = true;
        auto visit = [&](uint32_t index) {
            if (!seen[index]) seen[index] = true, stack.push_back(index);
        };
        while (!stack.empty()) {
            const Function& function = functions[stack.back()];
            stack.pop_back();
            used.insert(used.end(), function.shared_used.begin(), function.shared_used.end());
            for (const uint32_t callee : function.calls) visit(callee);
            for (uint32_t i = 0; function.calls_unknown && i < functions.size(); ++i) {
                if (!functions[i].kernel) visit(i);
            }
        }
        std::sort(used.begin(), used.end());
        used.erase(std::unique(used.begin(), used.end()), used.end());
        return used;
    }

    void describe(const ptx::Module& module, const ptx::Function& source, uint32_t index) {
        const Function& function = image_->functions[index];
        Kernel kernel;
        kernel.function = index;
        KernelInfo info;
        info.name = function.name;
        for (size_t i = 0; i < function.params.size(); ++i) {
            info.params.push_back(
                {function.params[i].offset, function.params[i].bytes, source.params[i].align});
            info.param_bytes = function.params[i].offset + function.params[i].bytes;
        }
        if ((image_->kernels.size() + 1) * image_->shared.size() > kMaxSharedTable)
            throw ptx::Error(source.line, "too many kernels and shared variables");
        kernel.shared_offsets.assign(image_->shared.size(), kNoSlot);
        uint64_t at = 0;
        const auto used = shared_of(index);
        for (const uint32_t variable : used) {
            const SharedVariable& shared = image_->shared[variable];
            if (shared.dynamic) {
                kernel.dynamic_align = std::max(kernel.dynamic_align, shared.align);
                continue;
            }
            at = round_up(at, shared.align);
            kernel.shared_offsets[variable] = uint32_t(at);
            at += shared.bytes;
            if (at > Limits::shared_bytes) {
                throw ptx::Error(source.line, "kernel " + info.name + " uses more than " +
                                                  std::to_string(Limits::shared_bytes) +
                                                  " bytes of shared memory");
            }
        }
        info.static_shared_bytes = uint32_t(at);
        for (const uint32_t variable : used) {
            if (image_->shared[variable].dynamic)
                kernel.shared_offsets[variable] = uint32_t(round_up(at, kernel.dynamic_align));
        }
        kernel.local_bytes = uint32_t(stack_[index]);
        kernel.unbounded = unbounded_[index];
        info.local_bytes = uint32_t(stack_[index]);
        info.constant_bytes = constant_bytes_;
        info.registers = std::clamp(function.registers + 8, 16u, 255u);
        for (const uint32_t limit : {source.max_registers, max_registers_}) {
            if (limit != 0) info.registers = std::min(info.registers, limit);  // nothing is slower for it
        }
        if (source.max_threads != 0) info.max_threads = source.max_threads;
        for (int i = 0; i < 3; ++i) info.required_block[size_t(i)] = source.required[i];
        info.ptx_version = module.version;
        info.target = module.target;
        image_->kernel_infos.push_back(std::move(info));
        image_->kernels.push_back(std::move(kernel));
    }

    const std::vector<ptx::Module>& modules_;
    size_t& failed_;
    const bool allow_undefined_;
    std::unique_ptr<Image> image_;
    Refusals refusals_;
    uint32_t constant_bytes_ = 0;
    uint32_t max_registers_ = 0;                    // what the link was told, 0 for no limit
    size_t files_of_ = SIZE_MAX;                    // the module that files_ belongs to
    std::unordered_map<uint32_t, uint32_t> files_;  // number to index in the image
    std::vector<uint64_t> stack_;
    std::vector<bool> unbounded_;
};

}  // namespace

std::unique_ptr<Image> link(const std::vector<ptx::Module>& modules, bool allow_undefined, size_t& failed) {
    return Linker(modules, allow_undefined, failed).run();
}

}  // namespace softgpu::lower
