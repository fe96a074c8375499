#include "lower/symbols.h"

#include "ptx/error.h"

namespace softgpu::lower {
namespace {

constexpr uint32_t kDropped = UINT32_MAX;

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

// Takes a name for a definition. False when another module's definition stands for it: `symbol` is then that
// one.
bool Symbols::claim(size_t module, std::string_view name, ptx::Linkage linkage, Symbol& symbol,
                    unsigned line) {
    if (linkage != ptx::Linkage::internal) {
        const auto [known, fresh] = shared_names_.try_emplace(name, Definition{symbol, linkage, module});
        if (!fresh) {
            const bool other_yields = known->second.linkage != ptx::Linkage::visible;
            const bool this_yields = linkage != ptx::Linkage::visible;
            if (!other_yields && !this_yields) {
                throw ptx::Error(line, quoted(name) + " is defined twice, here and in another input");
            }
            if (this_yields) {
                symbol = known->second.symbol;
                own_[module].emplace(name, symbol);
                return false;
            }
            known->second = Definition{symbol, linkage, module};
            own_[known->second.module][name] = symbol;
        }
    }
    if (!own_[module].emplace(name, symbol).second)
        throw ptx::Error(line, quoted(name) + " is defined twice");
    return true;
}

Symbol Symbols::place(const ptx::Variable& variable, Image& image) {
    if (variable.space == ptx::Space::shared) {
        SharedVariable shared;
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
    info.visible = variable.linkage != ptx::Linkage::internal;
    image.globals.push_back(std::move(info));
    image.global_data.push_back({variable.initial, {}});
    return {Symbol::Kind::global, uint32_t(image.globals.size() - 1)};
}

void Symbols::declare_variables(const ptx::Module& module, size_t number, Image& image) {
    for (const ptx::Variable& variable : module.variables) {
        const bool dynamic =
            variable.space == ptx::Space::shared && variable.linkage == ptx::Linkage::external;
        if (variable.linkage == ptx::Linkage::external && !dynamic) {
            declared_[number].emplace(variable.name, true);
            continue;
        }
        Symbol symbol;
        if (dynamic) {
            symbol = place(variable, image);
            if (!own_[number].emplace(variable.name, symbol).second) continue;
        } else {
            // Place only what is kept, so look first: a weak or common second definition is the first one.
            const auto known = shared_names_.find(variable.name);
            const bool yields =
                variable.linkage == ptx::Linkage::weak || variable.linkage == ptx::Linkage::common;
            if (yields && known != shared_names_.end()) {
                own_[number].emplace(variable.name, known->second.symbol);
                continue;
            }
            symbol = place(variable, image);
            const ptx::Linkage linkage =
                variable.space == ptx::Space::shared ? ptx::Linkage::internal : variable.linkage;
            claim(number, variable.name, linkage, symbol, variable.line);
            if (!variable.relocations.empty()) initialised_.push_back({number, &variable, symbol.index});
        }
    }
}

void Symbols::declare_functions(const ptx::Module& module, size_t number, Image& image) {
    for (const ptx::Function& function : module.functions) {
        functions_[number].push_back(kDropped);
        if (!function.has_body) {
            declared_[number].emplace(function.name, true);
            continue;
        }
        Symbol symbol{Symbol::Kind::function, uint32_t(image.functions.size())};
        if (!claim(number, function.name, function.linkage, symbol, function.line)) continue;
        Function made;
        made.name = std::string(function.name);
        made.input = std::string(module.name);
        made.kernel = function.kernel;
        image.functions.push_back(std::move(made));
        functions_[number].back() = symbol.index;
    }
    for (const auto& [alias, target] : module.aliases) {
        const auto known = own_[number].find(target);
        if (known == own_[number].end()) throw ptx::Error(0, ".alias of unknown " + quoted(target));
        const Symbol symbol = known->second;
        own_[number].emplace(alias, symbol);
        shared_names_.try_emplace(alias, Definition{symbol, ptx::Linkage::weak, number});
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
