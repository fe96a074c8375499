// Warps, blocks, branches and calls.
#include "exec/check/access.h"
#include "lower/device_runtime.h"
#include "lower/select.h"

namespace softgpu::lower {
namespace {

// Of all branches through tables in a function: edges of its graph.
constexpr size_t kMaxTableTargets = 1u << 20;

}  // namespace

const std::unordered_map<std::string_view, Selector::Pick>& Selector::picks() {
    using S = Selector;
    static const auto* all = new std::unordered_map<std::string_view, Pick>{
        {"add", &S::pick_add},
        {"sub", &S::pick_add},
        {"addc", &S::pick_add},
        {"subc", &S::pick_add},
        {"mul", &S::pick_mul},
        {"mul24", &S::pick_mul24},
        {"mad24", &S::pick_mul24},
        {"mad", &S::pick_mad},
        {"madc", &S::pick_mad},
        {"fma", &S::pick_fma},
        {"div", &S::pick_divide},
        {"rem", &S::pick_divide},
        {"min", &S::pick_min},
        {"max", &S::pick_min},
        {"abs", &S::pick_unary_sign},
        {"neg", &S::pick_unary_sign},
        {"and", &S::pick_bitwise},
        {"or", &S::pick_bitwise},
        {"xor", &S::pick_bitwise},
        {"not", &S::pick_bitwise},
        {"cnot", &S::pick_bitwise},
        {"shl", &S::pick_shift},
        {"shr", &S::pick_shift},
        {"shf", &S::pick_funnel},
        {"lop3", &S::pick_lop3},
        {"prmt", &S::pick_permute},
        {"bfe", &S::pick_field},
        {"bfi", &S::pick_field},
        {"popc", &S::pick_count},
        {"clz", &S::pick_count},
        {"brev", &S::pick_count},
        {"bfind", &S::pick_count},
        {"dp4a", &S::pick_dot},
        {"dp2a", &S::pick_dot},
        {"sad", &S::pick_sad},
        {"fns", &S::pick_fns},
        {"bmsk", &S::pick_mask},
        {"szext", &S::pick_mask},
        {"rcp", &S::pick_function},
        {"sqrt", &S::pick_function},
        {"rsqrt", &S::pick_function},
        {"sin", &S::pick_function},
        {"cos", &S::pick_function},
        {"lg2", &S::pick_function},
        {"ex2", &S::pick_function},
        {"tanh", &S::pick_function},
        {"copysign", &S::pick_copysign},
        {"setp", &S::pick_setp},
        {"set", &S::pick_set},
        {"selp", &S::pick_selp},
        {"slct", &S::pick_slct},
        {"testp", &S::pick_testp},
        {"mov", &S::pick_mov},
        {"cvt", &S::pick_cvt},
        {"cvta", &S::pick_cvta},
        {"isspacep", &S::pick_isspacep},
        {"ld", &S::pick_ld},
        {"ldu", &S::pick_ld},
        {"st", &S::pick_st},
        {"atom", &S::pick_atom},
        {"red", &S::pick_atom},
        {"multimem", &S::pick_multimem},
        {"prefetch", &S::pick_prefetch},
        {"prefetchu", &S::pick_prefetch},
        {"applypriority", &S::pick_prefetch},
        {"discard", &S::pick_prefetch},
        {"createpolicy", &S::pick_policy},
        {"cp", &S::pick_cp},
        {"ldmatrix", &S::pick_ldmatrix},
        {"movmatrix", &S::pick_movmatrix},
        {"mma", &S::pick_mma},
        {"wmma", &S::pick_wmma},
        {"vadd", &S::pick_video},
        {"vsub", &S::pick_video},
        {"vabsdiff", &S::pick_video},
        {"vmin", &S::pick_video},
        {"vmax", &S::pick_video},
        {"vshl", &S::pick_video},
        {"vshr", &S::pick_video},
        {"vset", &S::pick_video},
        {"vmad", &S::pick_video_mad},
        {"vadd2", &S::pick_video_parts},
        {"vsub2", &S::pick_video_parts},
        {"vavrg2", &S::pick_video_parts},
        {"vabsdiff2", &S::pick_video_parts},
        {"vmin2", &S::pick_video_parts},
        {"vmax2", &S::pick_video_parts},
        {"vset2", &S::pick_video_parts},
        {"vadd4", &S::pick_video_parts},
        {"vsub4", &S::pick_video_parts},
        {"vavrg4", &S::pick_video_parts},
        {"vabsdiff4", &S::pick_video_parts},
        {"vmin4", &S::pick_video_parts},
        {"vmax4", &S::pick_video_parts},
        {"vset4", &S::pick_video_parts},
        {"shfl", &S::pick_shfl},
        {"vote", &S::pick_vote},
        {"match", &S::pick_match},
        {"redux", &S::pick_redux},
        {"activemask", &S::pick_activemask},
        {"bar", &S::pick_bar},
        {"barrier", &S::pick_bar},
        {"membar", &S::pick_fence},
        {"fence", &S::pick_fence},
        {"pmevent", &S::pick_nothing},
        {"griddepcontrol", &S::pick_nothing},
        {"setmaxnreg", &S::pick_nothing},
        {"nanosleep", &S::pick_nanosleep},
        {"trap", &S::pick_stop},
        {"brkpt", &S::pick_stop},
        {"exit", &S::pick_stop},
        {"ret", &S::pick_stop},
        {"bra", &S::pick_bra},
        {"brx", &S::pick_brx},
        {"call", &S::pick_call},
    };
    return *all;
}

void Selector::pick_shfl() {
    const bool sync = take("sync");
    const auto way = take_one({"up", "down", "bfly", "idx"});
    if (way.empty() || ptx::traits(take_type()).bytes != 4) unknown();
    all_taken();
    expect_operands(sync ? 5 : 4, sync ? 5 : 4);
    ptx::Operand to = operand(0);
    uint32_t valid = kNoValue;
    if (to.kind == ptx::OperandKind::pair) {
        if (to.second != ptx::kNone) valid = to.second;
        if (valid != kNoValue && registers_[valid] != Type::pred) fail("shfl wants a predicate after '|'");
        to.kind = to.reg == ptx::kNone ? ptx::OperandKind::sink : ptx::OperandKind::reg;
    }
    const uint32_t a = source(1, Type::b32), b = source(2, Type::b32), c = source(3, Type::b32);
    const uint32_t members = sync ? source(4, Type::b32) : kNoValue;
    Inst& inst = emit("shfl." + std::string(way) + ".b32", dest(to, Type::b32), a, b, c, valid);
    if (valid != kNoValue) inst.defs |= 1 << kE;
    inst.crosses = true;
    inst.values[kJump] = members;
}

void Selector::pick_vote() {
    const bool sync = take("sync");
    const auto mode = take_one({"all", "any", "uni", "ballot"});
    const Type type = take_type();
    all_taken();
    expect_operands(sync ? 3 : 2, sync ? 3 : 2);
    if (mode.empty() || type != (mode == "ballot" ? Type::b32 : Type::pred)) unknown();
    const uint32_t votes = predicate_source(operand(1));
    const uint32_t members = sync ? source(2, Type::b32) : kNoValue;
    emit("vote." + std::string(mode) + "." + std::string(ptx::traits(type).name), dest(0, type), votes,
         members)
        .crosses = true;
}

void Selector::pick_match() {
    const Type type = take_type();
    const auto mode = take_one({"any", "all"});
    if (!take("sync") || mode.empty()) unknown();
    all_taken();
    expect_operands(3, 3);
    ptx::Operand to = operand(0);
    uint32_t agreed = kNoValue;
    if (to.kind == ptx::OperandKind::pair) {
        if (mode != "all" || to.second == ptx::kNone || registers_[to.second] != Type::pred) unknown();
        agreed = to.second;
        to.kind = to.reg == ptx::kNone ? ptx::OperandKind::sink : ptx::OperandKind::reg;
    }
    const uint32_t a = source(1, type), members = source(2, Type::b32);
    Inst& inst = emit("match." + std::string(mode) + "." + bit_name(type), dest(to, Type::b32), a, members,
                      kNoValue, agreed);
    if (agreed != kNoValue) inst.defs |= 1 << kE;
    inst.crosses = true;
}

void Selector::pick_redux() {
    const Type type = take_type();
    const auto what = take_one({"add", "min", "max", "and", "or", "xor"});
    if (!take("sync") || what.empty()) unknown();
    all_taken();
    expect_operands(3, 3);
    const bool ordered = what == "min" || what == "max";
    const std::string typed = ordered ? std::string(ptx::traits(type).name) : bit_name(type);
    const uint32_t a = source(1, type), members = source(2, Type::b32);
    emit("redux." + std::string(what) + "." + typed, dest(0, type), a, members).crosses = true;
}

void Selector::pick_activemask() {
    take("b32");
    all_taken();
    expect_operands(1, 1);
    emit("activemask.b32", dest(0, Type::b32));
}

// bar and barrier: id in a, number of threads in b, predicate in c.
void Selector::pick_bar() {
    take("cta"), take("aligned");
    if (take("cluster")) {  // a cluster is one block here
        modifiers_.clear();
        return;
    }
    if (take("warp")) {
        if (!take("sync")) unknown();
        all_taken();
        expect_operands(1, 1);
        emit_without_result("bar.warp.sync", source(0, Type::b32)).imm = kMeetsAnywhere;
        return;
    }
    const auto kind = take_one({"sync", "arrive", "red"});
    if (kind == "red") {
        const Type type = take_type();
        const auto what = take_one({"popc", "and", "or"});
        all_taken();
        expect_operands(3, 4);
        const bool counted = now_->operands.size() == 4;
        const uint32_t id = source(1, Type::b32), threads = counted ? source(2, Type::b32) : kNoValue;
        const uint32_t p = predicate_source(operand(counted ? 3 : 2));
        if (what.empty() || type != (what == "popc" ? Type::u32 : Type::pred)) unknown();
        emit("bar.red." + std::string(what), dest(0, type), id, threads, p).crosses = true;
        return;
    }
    all_taken();
    expect_operands(kind == "arrive" ? 2 : 1, 2);
    const uint32_t id = source(0, Type::b32);
    const uint32_t threads = now_->operands.size() == 2 ? source(1, Type::b32) : kNoValue;
    if (kind.empty()) unknown();
    emit_without_result("bar." + std::string(kind), id, threads);
}

void Selector::pick_fence() {
    modifiers_.clear();
    emit_without_result("fence").order = check::acquires | check::releases;
}

void Selector::pick_nothing() {
    modifiers_.clear();
}

void Selector::pick_nanosleep() {
    modifiers_.clear();
    emit_without_result("spin.long");
}

// trap, brkpt, exit, ret
void Selector::pick_stop() {
    take("uni");
    all_taken();
    expect_operands(0, 0);
    if (now_->opcode == "ret") return emit_return();
    emit_without_result(std::string(now_->opcode));
    block_ = kNoBlock;
}

void Selector::pick_bra() {
    take("uni");
    all_taken();
    expect_operands(1, 1);
    if (operand(0).kind != ptx::OperandKind::label) fail("bra wants a label");
    const uint32_t target = label_blocks_[operand(0).reg];
    if (now_->guard == ptx::kNone) return end_jump(target);
    const uint32_t next = new_block();
    end_branch(now_->guard, now_->guard_negated, target, next);
    block_ = next;
}

void Selector::pick_brx() {
    take("idx"), take("uni");
    all_taken();
    expect_operands(2, 2);
    if (tables_.empty()) find_tables();
    const std::string_view name = operand(1).name;
    const auto found = tables_.find(name);
    if (found == tables_.end()) fail("unknown branch targets " + std::string(name.substr(0, 80)));
    Table& table = found->second;
    table_targets_ += table.source->targets.size();
    if (table_targets_ > kMaxTableTargets) fail("more than 1048576 branch targets in a function");
    const uint32_t index = source(0, Type::b32);
    if (table.targets == nullptr) table.targets = resolve(*table.source);
    Block& block = body_.blocks[block_];
    block.targets = table.targets;
    block.end = End::table;
    block.condition = index;
    block.line = now_->line;
    block_ = kNoBlock;
}

void Selector::find_tables() {
    for (const ptx::BranchTable& table : source_.tables) tables_[table.name] = {&table, nullptr};
    for (size_t i = 0; i < source_.labels.size(); ++i)
        labels_by_name_.emplace(source_.labels[i].name, uint32_t(i));
}

Targets Selector::resolve(const ptx::BranchTable& table) const {
    std::vector<uint32_t> blocks;
    blocks.reserve(table.targets.size());
    for (const auto target : table.targets) {
        const auto label = labels_by_name_.find(target);
        if (label == labels_by_name_.end()) fail("unknown label " + std::string(target.substr(0, 80)));
        blocks.push_back(label_blocks_[label->second]);
    }
    return std::make_shared<const std::vector<uint32_t>>(std::move(blocks));
}

Place Selector::argument(const ptx::Operand& operand, const ptx::Variable* formal, Inst& inst, bool written) {
    if (operand.kind == ptx::OperandKind::symbol) {
        if (const Storage* storage = storage_of(operand)) return place_of(*storage, inst, written);
    }
    if (operand.kind == ptx::OperandKind::sink) return Place{};
    Type type = formal != nullptr ? formal->type : Type::b32;
    if (operand.kind == ptx::OperandKind::reg) type = registers_[operand.reg];
    if (type == Type::pred) fail("a predicate cannot be an argument");
    Storage storage;
    storage.bytes = ptx::traits(type).bytes;
    storage.value = written ? dest(operand, type) : source(operand, type);
    return place_of(storage, inst, written);
}

void Selector::pick_call() {
    take("uni");
    all_taken();
    expect_operands(1, 2);
    auto site = std::make_unique<CallSite>();
    Inst inst;
    inst.line = now_->line;
    inst.crosses = true;
    inst.waits = true;
    const ptx::Operand& callee = operand(0);
    const ptx::Function* formal = nullptr;
    if (callee.kind == ptx::OperandKind::reg) {
        for (const ptx::Function& prototype : source_.prototypes) {
            if (now_->operands.size() == 2 && prototype.name == operand(1).name) formal = &prototype;
        }
        site->pointer = source(callee, Type::b64);
        inst.extra_uses.push_back(site->pointer);
        target_.calls_unknown = true;
    } else if (callee.kind == ptx::OperandKind::symbol) {
        const auto symbol = symbols_.find(module_, callee.name);
        if (symbol && symbol->kind == Symbol::Kind::function) {
            site->callee = symbol->index;
            target_.calls.push_back(symbol->index);
        } else if (callee.name == "vprintf") {
            site->builtin = Builtin::print;
        } else if (callee.name == "__assertfail") {
            site->builtin = Builtin::assertion;
        } else if (callee.name == "malloc") {
            site->builtin = Builtin::allocate;
        } else if (callee.name == "free") {
            site->builtin = Builtin::release;
        } else {
            site->undefined = std::string(callee.name.substr(0, 200));
            if (is_device_launch(callee.name)) {
                fail(
                    "kernels that launch kernels (dynamic parallelism) do not run on the software GPU: this "
                    "text calls " +
                    site->undefined + "; launch the inner kernel from the host");
            }
            if (!symbols_.allow_undefined) undefined("undefined function " + site->undefined);
        }
    } else {
        fail("call wants a function");
    }
    for (size_t i = 0; i < now_->arguments.size(); ++i) {
        const ptx::Variable* variable =
            formal != nullptr && i < formal->params.size() ? &formal->params[i] : nullptr;
        site->arguments.push_back(argument(now_->arguments[i], variable, inst, false));
    }
    for (size_t i = 0; i < now_->returns.size(); ++i) {
        site->returns.push_back(argument(now_->returns[i], nullptr, inst, true));
    }
    inst.fn = handler(site->builtin != Builtin::none ? "call.builtin" : "call");
    inst.call = site.get();
    image_.calls.push_back(std::move(site));
    body_.blocks[block_].code.push_back(std::move(inst));
}

}  // namespace softgpu::lower
