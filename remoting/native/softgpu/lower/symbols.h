// Names across the texts of one link: what each symbol of each module stands for.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "exec/image.h"
#include "ptx/syntax.h"

namespace softgpu::lower {

struct Symbol {
    enum class Kind : uint8_t { global, shared, function, undefined };
    Kind kind = Kind::undefined;
    uint32_t index = 0;  // in the image; for undefined ones nothing
};

class Symbols {
  public:
    // Fills the image's functions, globals and shared variables. Throws ptx::Error; `failed_module` is whose.
    Symbols(const std::vector<ptx::Module>& modules, Image& image, bool allow, size_t& failed_module);

    std::optional<Symbol> find(size_t module, std::string_view name) const;
    // A variable that a function's body declares outside registers and local memory.
    Symbol place(const ptx::Variable& variable, Image& image);
    // Index of a module's own function definition in the image, or none for a mere declaration
    // or for one that another module's stands for.
    uint32_t function_index(size_t module, size_t function) const;
    // After all bodies: initialisers with addresses.
    void relocate(const std::vector<ptx::Module>& modules, Image& image) const;
    const bool allow_undefined;

  private:
    struct Definition {
        Symbol symbol;
        ptx::Linkage linkage;
        size_t module;
    };
    void declare_variables(const ptx::Module& module, size_t number, Image& image);
    void declare_functions(const ptx::Module& module, size_t number, Image& image);
    bool yields(std::string_view name, ptx::Linkage linkage) const;
    void claim(size_t module, std::string_view name, ptx::Linkage linkage, Symbol symbol, unsigned line,
               Image& image);

    std::vector<std::unordered_map<std::string_view, Symbol>> own_;  // by module: what only it sees
    std::unordered_map<std::string_view, Definition> shared_names_;  // what all modules see that declare it
    std::unordered_set<uint32_t> dropped_;                           // functions that a stronger one replaced
    std::vector<std::vector<uint32_t>> functions_;
    std::vector<std::unordered_set<std::string_view>>
        declared_;  // by module: names that mean the shared ones
    struct Initialised {
        size_t module;
        const ptx::Variable* variable;
        uint32_t global;
    };
    std::vector<Initialised> initialised_;
};

}  // namespace softgpu::lower
