#include "lower/check.h"

#include <algorithm>
#include <charconv>

#include "exec/check/check.h"
#include "exec/handlers.h"

namespace softgpu::lower {
namespace {

bool starts(std::string_view text, std::string_view with) {
    return text.substr(0, with.size()) == with;
}

// Takes the part before the next point off the front.
std::string_view next_part(std::string_view& name) {
    const size_t point = name.find('.');
    const std::string_view part = name.substr(0, point);
    name = point == std::string_view::npos ? std::string_view() : name.substr(point + 1);
    return part;
}

// "b32", "s8", "f16x2": its bytes; 0 when it is no type.
uint32_t bytes_of(std::string_view type) {
    const bool twice = type.size() > 2 && type.substr(type.size() - 2) == "x2";
    if (twice) type.remove_suffix(2);
    while (!type.empty() && (type[0] < '0' || type[0] > '9')) type.remove_prefix(1);
    uint32_t bits = 0;
    std::from_chars(type.data(), type.data() + type.size(), bits);
    return bits / 8 * (twice ? 2 : 1);
}

// What checks a place or an instruction; kNoCode where nothing does.
Code checked(std::string_view name) {
    return code_named("check." + std::string(name));
}

class Instrumenter {
  public:
    Instrumenter(Body& body, Image& image) : body_(body), image_(image) {}

    void run() {
        for (Block& block : body_.blocks) {
            std::vector<Inst> code;
            code.reserve(block.code.size() * 2);
            for (Inst& inst : block.code) add(code, inst);
            block.code = std::move(code);
        }
    }

  private:
    void add(std::vector<Inst>& code, Inst& inst) {
        const std::string_view name = inst.name;
        if (starts(name, "ld.") || starts(name, "st.")) {
            access(code, inst);
        } else if (starts(name, "atom.") || starts(name, "red.")) {
            atomic(code, inst);
        } else if (starts(name, "ldmatrix.")) {
            matrix_rows(code, inst);
        } else if (inst.moves != 0) {
            matrix_lines(code, inst);
        } else if (name == "fence" && inst.order != 0) {
            code.push_back(beside("check.fence"_op, inst));
        } else if (name == "bar.warp.sync") {
            code.push_back(beside("check.warp.arrive"_op, inst));
            Inst leave = beside("check.warp.leave"_op, inst);
            leave.values[kA] = inst.values[kA];
            code.push_back(std::move(inst));
            code.push_back(std::move(leave));
            return;
        } else if (name == "exit" || starts(name, "bar.") || starts(name, "shfl.")) {
            inst.fn = find_handler(checked(name));
        }
        code.push_back(std::move(inst));
    }

    Inst beside(Code code, const Inst& inst) const {
        Inst made;
        made.fn = find_handler(code);
        made.line = inst.line;
        made.guard = inst.guard;
        made.guard_negated = inst.guard_negated;
        return made;
    }

    void emit(std::vector<Inst>& code, const Inst& inst, std::string_view where, uint32_t element,
              uint32_t parts, uint32_t access, uint32_t value) {
        const Code check = checked(where);
        if (element == 0 || check == kNoCode) return;
        Inst made = beside(check, inst);
        made.values[kA] = inst.values[kA];
        made.imm = inst.imm;
        made.raw_b = element | parts << 8;
        made.raw_c = access;
        if (value != kNoValue) made.values[kE] = value;
        code.push_back(std::move(made));
        look_in_units(where, element);
    }

    void look_in_units(std::string_view where, uint32_t element) {
        if (where != "global" && where != "local") image_.check_unit = std::min(image_.check_unit, element);
        if (where == "global" || where == "generic")
            image_.check_device_unit = std::min(image_.check_device_unit, element);
    }

    // ldmatrix.xN[.trans]
    void matrix_rows(std::vector<Inst>& code, const Inst& inst) {
        Inst made = beside("check.matrix.rows"_op, inst);
        made.values[kA] = inst.values[kA];
        made.imm = inst.imm;
        made.raw_b = uint32_t(inst.name[sizeof "ldmatrix.x" - 1] - '0') * 8;
        made.raw_c = inst.name.ends_with(".trans");
        code.push_back(std::move(made));
        look_in_units("generic", 2);
    }

    void matrix_lines(std::vector<Inst>& code, const Inst& inst) {
        Inst made = beside("check.matrix.lines"_op, inst);
        made.values[kA] = inst.values[kA];
        made.values[kB] = inst.values[kB];
        made.imm = inst.moves;
        code.push_back(std::move(made));
        look_in_units("generic", check::Matrix::unpack(inst.moves).bytes);
    }

    // ld.WHERE.TYPE[.vN], st.WHERE.TYPE[.vN]
    void access(std::vector<Inst>& code, const Inst& inst) {
        std::string_view name = inst.name;
        const bool load = next_part(name) == "ld";
        const std::string_view where = next_part(name), type = next_part(name);
        const uint32_t parts = name == "v4" ? 4 : name == "v2" ? 2 : 1;
        uint32_t access = load ? check::reads : check::writes, value = kNoValue;
        access |= inst.order;
        if (!load && parts == 1) access |= check::has_value, value = inst.values[kB];
        emit(code, inst, where, bytes_of(type), parts, access, value);
    }

    // atom.WHERE.WHAT.TYPE
    void atomic(std::vector<Inst>& code, const Inst& inst) {
        std::string_view name = inst.name;
        next_part(name);
        const std::string_view where = next_part(name), what = next_part(name);
        const uint32_t access = check::writes | check::strong |
                                (what == "exch" ? check::takes : check::reads) |
                                (inst.order & (check::acquires | check::releases)) |
                                (what == "exch" || what == "cas" ? uint32_t(check::passes) : 0u) |
                                (what == "cas" ? uint32_t(check::compares) : 0u);
        const uint32_t bytes = bytes_of(name);
        emit(code, inst, where, std::min(bytes, 8u), bytes > 8 ? 2 : 1, access, kNoValue);
    }

    Body& body_;
    Image& image_;
};

}  // namespace

void add_checks(Body& body, Image& image) {
    Instrumenter(body, image).run();
}

}  // namespace softgpu::lower
