#include "lower/symbols.h"

#include "ptx/error.h"

namespace softgpu::lower {
namespace {

constexpr uint32_t kDropped = UINT32_MAX;
constexpr size_t kMaxFunctions = 16384;

bool weak(ptx::Linkage linkage) {
    return linkage == ptx::Linkage::weak || linkage == ptx::Linkage::common;
}

std::string quoted(std::string_view name) {
    return std::string(name.substr(0, 200));
}

}  // namespace

Symbols::Symbols(const std::vector<ptx::Module>& modules, Image& image, bool allow, size_t& failed_module)
    : allow_undefined(allow), own_(modules.size()), functions_(modules.size()), declared_(modules.size()) {
    for (size_t number = 0; number < modules.size(); ++number) {
        failed_module = number;
        declare_variables(modules[number], number, image);
        declare_functions(modules[number], number, image);
    }
    for (size_t number = 0; number < modules.size() && !allow_undefined; ++number) {
        failed_module = number;
        for (const ptx::Variable& variable : modules[number].variables) {
            if (variable.linkage == ptx::Linkage::external && !find(number, variable.name)) {
                throw ptx::Error(variable.line, "undefined variable " + quoted(variable.name));
            }
        }
    }
}

uint32_t Symbols::function_index(size_t module, size_t function) const {
    const uint32_t index = functions_[module][function];
    return dropped_.contains(index) ? kDropped : index;
}

// True when a definition that is there already stands for this one.
bool Symbols::yields(std::string_view name, ptx::Linkage linkage) const {
    return weak(linkage) && shared_names_.contains(name);
}

void Symbols::claim(size_t module, std::string_view name, ptx::Linkage linkage, Symbol symbol, unsigned line,
                    Image& image) {
    if (linkage == ptx::Linkage::internal) {
        if (!own_[module].emplace(name, symbol).second)
            throw ptx::Error(line, quoted(name) + " is defined twice");
        return;
    }
    declared_[module].insert(name);
    const auto [known, fresh] = shared_names_.try_emplace(name, Definition{symbol, linkage, module});
    if (fresh) return;
    if (!weak(known->second.linkage)) {
        const bool here = known->second.module == module;
        throw ptx::Error(line,
                         quoted(name) + " is defined twice" + (here ? "" : ", here and in another input"));
    }
    const Symbol old = known->second.symbol;
    if (old.kind == Symbol::Kind::function) dropped_.insert(old.index);
    if (old.kind == Symbol::Kind::global) image.globals[old.index].visible = false;
    known->second = Definition{symbol, linkage, module};
}

Symbol Symbols::place(const ptx::Variable& variable, Image& image) {
    if (variable.space == ptx::Space::shared) {
        SharedVariable shared;
        shared.name = quoted(variable.name);
        shared.dynamic = variable.linkage == ptx::Linkage::external;
        shared.bytes = variable.bytes;
        shared.align = variable.align;
        image.shared.push_back(shared);
        return {Symbol::Kind::shared, uint32_t(image.shared.size() - 1)};
    }
    GlobalInfo info;
    info.name = std::string(variable.name);
    info.bytes = variable.bytes;
    info.align = variable.align;
    info.constant = variable.space == ptx::Space::constant;
    info.opaque = variable.opaque;
    info.visible = variable.linkage != ptx::Linkage::internal;
    image.globals.push_back(std::move(info));
    image.global_data.push_back({variable.initial, {}});
    return {Symbol::Kind::global, uint32_t(image.globals.size() - 1)};
}

void Symbols::declare_variables(const ptx::Module& module, size_t number, Image& image) {
    for (const ptx::Variable& variable : module.variables) {
        const bool shared = variable.space == ptx::Space::shared;
        if (shared &&
            variable.linkage == ptx::Linkage::external) {  // dynamic shared memory: all names mean one place
            if (!own_[number].contains(variable.name))
                own_[number].emplace(variable.name, place(variable, image));
        } else if (variable.linkage == ptx::Linkage::external) {
            declared_[number].insert(variable.name);
        } else if (!shared && yields(variable.name, variable.linkage)) {
            declared_[number].insert(variable.name);
        } else {
            const Symbol symbol = place(variable, image);
            claim(number, variable.name, shared ? ptx::Linkage::internal : variable.linkage, symbol,
                  variable.line, image);
            if (!variable.relocations.empty()) initialised_.push_back({number, &variable, symbol.index});
        }
    }
}

void Symbols::declare_functions(const ptx::Module& module, size_t number, Image& image) {
    for (const ptx::Function& function : module.functions) {
        functions_[number].push_back(kDropped);
        if (!function.has_body() || yields(function.name, function.linkage)) {
            declared_[number].insert(function.name);
            continue;
        }
        if (image.functions.size() >= kMaxFunctions) throw ptx::Error(function.line, "too many functions");
        const Symbol symbol{Symbol::Kind::function, uint32_t(image.functions.size())};
        claim(number, function.name, function.linkage, symbol, function.line, image);
        Function made;
        made.name = std::string(function.name);
        made.input = std::string(module.name);
        made.kernel = function.kernel;
        image.functions.push_back(std::move(made));
        functions_[number].back() = symbol.index;
    }
    for (const auto& [alias, target] : module.aliases) {
        const auto symbol = find(number, target);
        if (!symbol) throw ptx::Error(0, ".alias of unknown " + quoted(target));
        own_[number].emplace(alias, *symbol);
        shared_names_.try_emplace(alias, Definition{*symbol, ptx::Linkage::weak, number});
    }
}

std::optional<Symbol> Symbols::find(size_t module, std::string_view name) const {
    const auto own = own_[module].find(name);
    if (own != own_[module].end()) return own->second;
    if (!declared_[module].contains(name)) return std::nullopt;
    const auto shared = shared_names_.find(name);
    if (shared != shared_names_.end()) return shared->second.symbol;
    return std::nullopt;
}

void Symbols::relocate(const std::vector<ptx::Module>& modules, Image& image) const {
    for (const Initialised& entry : initialised_) {
        for (const ptx::Relocation& relocation : entry.variable->relocations) {
            const auto symbol = find(entry.module, relocation.symbol);
            if (!symbol) {
                throw ptx::Error(relocation.line, "undefined symbol " + quoted(relocation.symbol) + " of " +
                                                      quoted(modules[entry.module].name));
            }
            using Kind = GlobalRelocation::Kind;
            const Kind kind = symbol->kind == Symbol::Kind::function ? Kind::function
                              : symbol->kind == Symbol::Kind::shared ? Kind::shared
                                                                     : Kind::global;
            image.global_data[entry.global].relocations.push_back(
                {kind, relocation.offset, symbol->index, relocation.addend});
        }
    }
}

}  // namespace softgpu::lower
