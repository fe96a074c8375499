// Chooses handlers for PTX instructions: one function's statements become blocks of typed instructions.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "lower/ir.h"
#include "lower/symbols.h"

namespace softgpu::lower {

class Selector {
  public:
    Selector(const std::vector<ptx::Module>& modules, size_t module, const ptx::Function& source,
             Symbols& symbols, Image& image, Function& target);
    Body run();

  private:
    using Type = ptx::Type;
    using Space = ptx::Space;
    using Pick = void (Selector::*)();
    static const std::unordered_map<std::string_view, Pick>& picks();

    // A memory operand: the handler's name for the space, the slot that holds the address, and what is added.
    struct Memory {
        std::string where;
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
    bool needs_branch_for_guard() const;

    // names, modifiers, errors
    [[noreturn]] void fail(const std::string& what) const;
    [[noreturn]] void unknown() const;
    [[noreturn]] void undefined(const std::string& what) const;
    std::string full_name() const;
    bool take(std::string_view modifier);
    std::string_view take_one(std::initializer_list<std::string_view> modifiers);
    Type take_type();  // the last modifier, which must be a type
    std::string_view take_last();
    void all_taken() const;  // fails when a modifier was not understood
    std::string rounding();  // "", ".rz", ".rm", ".rp"; .rn and .approx are ""
    Handler handler(const std::string& name) const;

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
    Inst& emit(const std::string& name, uint32_t d, uint32_t a = kNoValue, uint32_t b = kNoValue,
               uint32_t c = kNoValue, uint32_t e = kNoValue);
    Inst& emit_without_result(const std::string& name, uint32_t a = kNoValue, uint32_t b = kNoValue,
                              uint32_t c = kNoValue, uint32_t e = kNoValue);
    void emit_copy(uint32_t d, uint32_t a);
    void expect_operands(size_t least, size_t most) const;

    // storage of parameters and local variables
    void place_storage();
    void find_variables_in_memory();
    bool promotable(const ptx::Variable& variable) const;
    const Storage* storage_of(const ptx::Operand& operand) const;
    const ptx::Variable* variable_of(const ptx::Operand& operand) const;
    Place place_of(const Storage& storage, Inst& inst, bool written);

    // arithmetic
    void pick_add();
    void pick_mul();
    void pick_mul24();
    void pick_mad();
    void pick_fma();
    void pick_divide();
    void pick_min();
    void pick_unary_sign();
    void pick_bitwise();
    void pick_shift();
    void pick_funnel();
    void pick_lop3();
    void pick_permute();
    void pick_field();
    void pick_count();
    void pick_dot();
    void pick_sad();
    void pick_fns();
    void pick_function();
    void pick_copysign();
    void pick_mask();
    void integer3(const std::string& name, Type type);
    std::string float_tail(Type type);
    void mad_with_carry(bool reads, bool writes, std::string_view part, Type type);

    // comparisons, moves, conversions
    void pick_setp();
    void pick_set();
    void pick_selp();
    void pick_slct();
    void pick_testp();
    void pick_mov();
    void pick_cvt();
    void pick_cvta();
    void pick_isspacep();
    uint32_t compare(Type type, uint32_t a, uint32_t b);
    uint32_t combine(std::string_view logic, uint32_t test, bool inverted, uint32_t with);
    void unpack(const ptx::Operand& to, Type type);
    void pack(const ptx::Operand& from, Type type);
    void convert_to_float(Type to, Type from, const std::string& round);
    void convert_to_pair(std::string_view to, std::string_view from);
    bool convert_unusual();
    void convert_pack();
    uint64_t narrowing();
    void compare_pairs(std::string_view logic, Type type, uint32_t (&tests)[2]);

    // memory
    Space take_space();
    uint32_t take_memory_modifiers();  // check::Access, what the access orders: volatile, acquire, ...
    Memory memory(const ptx::Operand& operand, Space space);
    void pick_ld();
    void pick_st();
    void pick_atom();
    void pick_multimem();
    void pick_prefetch();
    void pick_policy();
    bool load_param(const ptx::Operand& from, Type type, std::vector<const ptx::Operand*>& parts);
    void pick_cp();

    // matrices
    void pick_ldmatrix();
    void pick_movmatrix();
    void pick_mma();
    void pick_wmma();
    void wmma_multiply();
    uint32_t generic_address(const ptx::Operand& operand, Space space, uint64_t& offset);
    Inst tensor_instruction(const std::string& name);
    void fragment(Inst& inst, size_t index, Type type, size_t registers, bool written);

    // video
    void pick_video();
    void pick_video_mad();
    void pick_video_parts();
    uint32_t video_operand(size_t index, unsigned& part);

    // warps, blocks and control
    void pick_shfl();
    void pick_vote();
    void pick_match();
    void pick_redux();
    void pick_activemask();
    void pick_bar();
    void pick_fence();
    void pick_nothing();
    void pick_nanosleep();
    void pick_stop();
    void pick_bra();
    void pick_brx();
    void find_tables();
    Targets resolve(const ptx::BranchTable& table) const;
    void pick_call();
    // Registers of 128 bits: low half first.
    void split_wide_registers();
    std::array<ptx::Operand, 2> halves(const ptx::Operand& operand) const;
    void move_wide();
    void pick_wide_atom(Space space, uint32_t orders);
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
    std::vector<std::string_view> modifiers_;  // of now_, not yet taken
    bool guarded_ = false;
    size_t table_targets_ = 0;
    struct PendingDest {
        uint32_t narrow, wide;
        Type type;
    };
    std::vector<PendingDest> pending_;
};

Width width_of(ptx::Type type);
bool is_float(ptx::Type type);
bool is_signed(ptx::Type type);
std::string bit_name(ptx::Type type);  // "b16", "b32", "b64"

}  // namespace softgpu::lower
