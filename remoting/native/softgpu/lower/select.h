// Chooses handlers for PTX instructions: one function's statements become blocks of typed instructions.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "exec/texture/request.h"
#include "instructions/form.h"
#include "lower/ir.h"
#include "lower/symbols.h"

namespace softgpu::lower {

class Selector {
  public:
    Selector(const std::vector<ptx::Module>& modules, size_t module, const ptx::Function& source,
             Symbols& symbols, Image& image, Function& target);
    Body run();

    struct Shape {
        unsigned m = 0, n = 0, k = 0;  // of a matrix product
    };

  private:
    using Type = ptx::Type;
    using Space = ptx::Space;

    // A memory operand: which handlers reach it, the slot that holds the address, and what is added.
    struct Memory {
        Where where = Where::generic;
        uint32_t address = kNoValue;
        uint64_t offset = 0;
    };

    // blocks
    void make_blocks();
    uint32_t new_block();
    void start_block(uint32_t block);
    void emit_return();
    void emit_returned_values();
    void end_jump(uint32_t target);
    void end_branch(uint32_t condition, bool negated, uint32_t target, uint32_t next);
    void instruction(const ptx::Instruction& instruction);

    // names, modifiers, errors
    [[noreturn]] void fail(const std::string& what) const;
    [[noreturn]] void unknown() const;
    [[noreturn]] void undefined(const std::string& what) const;
    std::string full_name() const;
    bool has(std::string_view modifier) const;
    std::optional<size_t> which(std::initializer_list<std::string_view> modifiers) const;
    Type type_from_end(size_t place = 0) const;  // the last modifier's type, the one before, ...
    Code code(std::initializer_list<unsigned> own = {}) const { return match_.code(own); }
    Handler handler(Code code) const;

    // values
    uint32_t new_value(Width width);
    uint32_t constant(SlotInit init);
    uint32_t immediate(Width width, uint64_t bits);
    uint32_t special(std::string_view name, Type type);
    uint32_t symbol_address(const ptx::Operand& operand);
    uint32_t literal(const ptx::Operand& operand, Type type);
    const ptx::Operand& operand(size_t index) const;
    uint32_t source(const ptx::Operand& operand, Type type, bool relaxed = false);
    uint32_t source(size_t index, Type type, bool relaxed = false) {
        return source(operand(index), type, relaxed);
    }
    uint32_t dest(const ptx::Operand& operand, Type type, bool relaxed = false);
    uint32_t dest(size_t index, Type type, bool relaxed = false) {
        return dest(operand(index), type, relaxed);
    }
    uint32_t predicate_source(const ptx::Operand& operand);
    void finish_dests();
    Inst& emit(Code code, uint32_t d, uint32_t a = kNoValue, uint32_t b = kNoValue, uint32_t c = kNoValue,
               uint32_t e = kNoValue);
    Inst& emit_without_result(Code code, uint32_t a = kNoValue, uint32_t b = kNoValue, uint32_t c = kNoValue,
                              uint32_t e = kNoValue);
    void emit_copy(uint32_t d, uint32_t a);
    void expect_operands(size_t least, size_t most) const;

    // storage of parameters and local variables
    void place_storage();
    void find_variables_in_memory();
    bool promotable(const ptx::Variable& variable) const;
    const Storage* storage_of(const ptx::Operand& operand) const;
    const ptx::Variable* variable_of(const ptx::Operand& operand) const;
    Place place_of(const Storage& storage, Inst& inst, bool written);

    // How forms become instructions: of their operands, or by hand.
    using Lower = void (Selector::*)();
    static const Lower kPicks[];
    void pick_generic();
#include "pick_declarations.inc"

    uint32_t compare(uint32_t a, uint32_t b);
    uint32_t combine(uint32_t test, bool inverted, uint32_t with);
    uint32_t third_predicate();
    void compare_pairs(uint32_t (&tests)[2]);
    void write_predicates(uint32_t p, uint32_t q);
    struct Parts {
        unsigned bytes, count;
        Type type;  // of a part
        Code pack, part[4];
    };
    const Parts& parts_of(Type type, size_t count) const;
    // The lower and the higher half of a pair.
    static constexpr Code kHalf[] = {"part0.b32.b16"_op, "part1.b32.b16"_op};
    void unpack(const ptx::Operand& to, Type type);
    void pack(const ptx::Operand& from, Type type);
    uint64_t narrowing() const;

    // memory
    Space space() const;
    uint32_t orders() const;  // check::Access, what the access orders: volatile, acquire, ...
    Memory memory(const ptx::Operand& operand, Space space);
    bool load_param(const ptx::Operand& from, Type type, std::vector<const ptx::Operand*>& parts);
    std::vector<const ptx::Operand*> parts_of_access(const ptx::Operand& operand,
                                                     std::array<ptx::Operand, 2>& both) const;
    void finish_access(Inst& inst, const Memory& at, unsigned bytes, uint32_t orders);
    unsigned seen(const Memory& at) const;
    uint32_t lanes_that_read(const uint32_t* parts, size_t count);

    // matrices
    uint32_t generic_address(const ptx::Operand& operand, Space space, uint64_t& offset);
    Inst tensor_instruction();
    Shape shape() const;
    std::vector<std::string_view> matrix_types() const;
    void fragment(Inst& inst, size_t index, Type type, size_t registers, bool written);

    // textures and surfaces
    uint32_t texture_handle(const ptx::Operand& operand);
    const ptx::Operand& coordinates(const ptx::Operand& operand) const;
    void append(std::vector<uint32_t>& values, const ptx::Operand& vector, size_t first, size_t count,
                Type type);
    Inst& texture_instruction(uint32_t handle, uint32_t request, std::vector<uint32_t> written,
                              std::vector<uint32_t> read);
    std::vector<uint32_t> texture_place(texture::Geometry geometry, const ptx::Operand& operand, Type type);
    void fetch(texture::Request request);
    texture::Request surface_request() const;

    // video
    uint32_t video_operand(size_t index, unsigned& part);
    uint64_t video_types() const;

    void find_tables();
    Targets resolve(const ptx::BranchTable& table) const;
    // Registers of 128 bits: low half first.
    void split_wide_registers();
    std::array<ptx::Operand, 2> halves(const ptx::Operand& operand) const;
    void move_wide();
    Place argument(const ptx::Operand& operand, const ptx::Variable* formal, Inst& inst, bool written);

    const std::vector<ptx::Module>& modules_;
    const size_t module_;
    const ptx::Function& source_;
    Symbols& symbols_;
    Image& image_;
    Function& target_;

    Body body_;
    std::vector<Type> registers_;  // the source's, and the halves of those of 128 bits
    std::unordered_map<uint32_t, uint32_t>
        halves_;  // register of 128 bits to its low half; the high one follows
    uint32_t block_ = 0;
    uint32_t return_block_ = kNoBlock;  // of a function that gives values: all that return go there
    std::vector<uint32_t> label_blocks_;
    struct Table {
        const ptx::BranchTable* source;
        Targets targets;  // once a branch has asked for them
    };
    std::unordered_map<std::string_view, Table> tables_;             // by name, once a branch has asked
    std::unordered_map<std::string_view, uint32_t> labels_by_name_;  // the same
    std::map<std::tuple<int, bool, bool, int, uint32_t, uint64_t>, uint32_t> constants_;
    std::unordered_map<std::string_view, size_t> param_index_;  // returns first, then params
    std::unordered_set<const ptx::Variable*> in_memory_;        // .param variables that are not promoted
    std::vector<Storage> param_storage_;
    std::vector<Storage> variable_storage_;  // by Function::variables
    std::vector<Symbol> variable_symbols_;
    const ptx::Instruction* now_ = nullptr;
    instructions::Match match_;  // of now_
    bool guarded_ = false;
    size_t table_targets_ = 0;
    struct PendingDest {
        uint32_t narrow, wide;
        Type type;
    };
    std::vector<PendingDest> pending_;
};

// The registers of a vector, or the one that stands alone.
std::vector<const ptx::Operand*> registers_of(const ptx::Operand& operand);
Width width_of(ptx::Type type);
bool is_float(ptx::Type type);
bool is_signed(ptx::Type type);

}  // namespace softgpu::lower
