// Writes the few x86-64 instructions that machine code for lanes is made of: AVX-512 on whole vectors, masks,
// and what addresses and calls need. A memory operand is a register and 32 bits of displacement, always.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

namespace softgpu::machine_code {

enum Gpr : uint8_t { rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15 };

struct Memory {
    Gpr base;
    int32_t displacement = 0;
    bool broadcast = false;  // one element for all
};

// A vector register, or memory, as an instruction's last source.
struct Source {
    bool in_memory = false;
    uint8_t vector = 0;
    Memory memory{rax};
    Source(uint8_t number) : vector(number) {}
    Source(Memory place) : in_memory(true), memory(place) {}
};

// An instruction's prefix, map, width and number, as the manual writes them.
struct Form {
    uint8_t prefix;  // 0 none, 1 66, 2 F3, 3 F2
    uint8_t map;     // 1 0F, 2 0F38, 3 0F3A
    bool wide;       // W
    uint8_t opcode;
};

enum class Condition : uint8_t { below = 2, not_below = 3, equal = 4, not_equal = 5, above = 7 };

class Assembler {
  public:
    size_t at() const { return bytes_.size(); }
    const std::vector<uint8_t>& bytes() const { return bytes_; }

    // EVEX: `reg` is what the manual puts in ModRM.reg, `second` in vvvv.
    void vector(Form form, uint8_t reg, uint8_t second, Source last, uint8_t mask = 0, uint8_t length = 2) {
        const bool memory = last.in_memory;
        const uint8_t rm = memory ? uint8_t(last.memory.base) : last.vector;
        byte(0x62);
        byte(uint8_t((~reg >> 3 & 1) << 7 | (memory ? 1 : ~rm >> 4 & 1) << 6 | (~rm >> 3 & 1) << 5 |
                     (~reg >> 4 & 1) << 4 | form.map));
        byte(uint8_t(form.wide << 7 | (~second & 15) << 3 | 4 | form.prefix));
        byte(uint8_t(length << 5 | (memory && last.memory.broadcast) << 4 | (~second >> 4 & 1) << 3 | mask));
        byte(form.opcode);
        if (memory)
            operand(reg & 7, last.memory);
        else
            byte(uint8_t(0xc0 | (reg & 7) << 3 | (rm & 7)));
    }
    void vector(Form form, uint8_t reg, uint8_t second, Source last, uint8_t mask, uint8_t length,
                uint8_t immediate) {
        vector(form, reg, second, last, mask, length);
        byte(immediate);
    }
    // VEX, of masks in registers.
    void masks(Form form, bool length, uint8_t reg, uint8_t second, uint8_t rm) {
        vex(form, length, second);
        byte(uint8_t(0xc0 | reg << 3 | rm));
    }
    void mask_memory(Form form, uint8_t reg, Memory memory) {
        vex(form, false, 0, memory.base >= r8);
        operand(reg, memory);
    }

    void load(Gpr to, Memory from) { wide(0x8b, to, from); }
    void load32(Gpr to, Memory from) { narrow(0x8b, to, from); }
    void store(Memory to, Gpr from) { wide(0x89, from, to); }
    void store32(Memory to, Gpr from) { narrow(0x89, from, to); }
    void both32(Gpr to, Memory from) { narrow(0x23, to, from); }
    void either32(Gpr to, Memory from) { narrow(0x0b, to, from); }
    void differ32(Gpr to, Memory from) { narrow(0x33, to, from); }
    void immediate(uint8_t value) { byte(value); }
    void store32(Memory to, uint32_t value) {
        rex(false, rax, to.base, true);
        byte(0xc7), operand(0, to), word(value);
    }
    void address(Gpr to, Memory of) { wide(0x8d, to, of); }
    void add(Gpr to, Memory from) { wide(0x03, to, from); }
    void subtract(Gpr to, Memory from) { wide(0x2b, to, from); }
    void compare(Gpr a, Memory b) { wide(0x3b, a, b); }
    void compare32(Memory a, uint32_t value) {
        rex(false, rax, a.base, true);
        byte(0x81), operand(7, a), word(value);
    }
    void compare8(Memory a, uint8_t value) {
        rex(false, rax, a.base, true);
        byte(0x80), operand(7, a), byte(value);
    }
    // a + 8 b
    void address(Gpr to, Gpr a, Gpr b) {
        byte(uint8_t(0x48 | (to >> 3) << 2 | (b >> 3) << 1 | (a >> 3)));
        byte(0x8d), byte(uint8_t((to & 7) << 3 | 4)), byte(uint8_t(3 << 6 | (b & 7) << 3 | (a & 7)));
    }
    void clear_upper() { byte(0xc5), byte(0xf8), byte(0x77); }
    void move(Gpr to, Gpr from) { registers(0x89, from, to); }
    void subtract(Gpr to, Gpr from) { registers(0x29, from, to); }
    void either(Gpr to, Gpr from) { registers(0x09, from, to); }
    void test(Gpr a, Gpr b) { registers(0x85, b, a); }
    void compare(Gpr a, int32_t value) { immediate(7, a, value); }
    void add(Gpr a, int32_t value) { immediate(0, a, value); }
    void test(Gpr a, int32_t value) {
        rex(true, rax, a);
        byte(0xf7), byte(uint8_t(0xc0 | (a & 7))), word(uint32_t(value));
    }
    void invert32(Gpr a) { byte(0xf7), byte(uint8_t(0xd0 | (a & 7))); }
    void compare32(Gpr a, int8_t value) { byte(0x83), byte(uint8_t(0xf8 | (a & 7))), byte(uint8_t(value)); }
    void set(Gpr to, uint64_t value) {
        byte(uint8_t(0x48 | (to >> 3))), byte(uint8_t(0xb8 | (to & 7)));
        for (int i = 0; i < 8; ++i) byte(uint8_t(value >> (8 * i)));
    }
    void clear(Gpr a) {
        if (a >= r8) byte(0x45);
        byte(0x31), byte(uint8_t(0xc0 | (a & 7) << 3 | (a & 7)));
    }
    void push(Gpr a) { push_or_pop(0x50, a); }
    void pop(Gpr a) { push_or_pop(0x58, a); }
    void call(Gpr a) { byte(0xff), byte(uint8_t(0xd0 | a)); }
    void jump(Gpr a) { byte(0xff), byte(uint8_t(0xe0 | a)); }
    void leave() { byte(0xc3); }

    // A jump whose target is not known yet; returns where to write it.
    size_t jump_if(Condition condition) {
        byte(0x0f), byte(uint8_t(0x80 | uint8_t(condition))), word(0);
        return at() - 4;
    }
    size_t jump() {
        byte(0xe9), word(0);
        return at() - 4;
    }
    void land(size_t jump, size_t target) {
        const int32_t distance = int32_t(target - (jump + 4));
        std::memcpy(&bytes_[jump], &distance, 4);
    }

  private:
    void byte(uint8_t value) { bytes_.push_back(value); }
    void word(uint32_t value) {
        for (int i = 0; i < 4; ++i) byte(uint8_t(value >> (8 * i)));
    }
    void operand(uint8_t reg, Memory memory) {
        byte(uint8_t(0x80 | (reg & 7) << 3 | (memory.base & 7)));
        if ((memory.base & 7) == rsp) byte(0x24);
        word(uint32_t(memory.displacement));
    }
    void rex(bool wide, Gpr reg, Gpr rm, bool optional = false) {
        const uint8_t bits = uint8_t(wide << 3 | (reg >> 3) << 2 | (rm >> 3));
        if (bits != 0 || !optional) byte(uint8_t(0x40 | bits));
    }
    void wide(uint8_t opcode, Gpr reg, Memory memory) {
        rex(true, reg, memory.base);
        byte(opcode), operand(reg, memory);
    }
    void narrow(uint8_t opcode, Gpr reg, Memory memory) {
        rex(false, reg, memory.base, true);
        byte(opcode), operand(reg, memory);
    }
    void registers(uint8_t opcode, Gpr reg, Gpr rm) {
        rex(true, reg, rm);
        byte(opcode), byte(uint8_t(0xc0 | (reg & 7) << 3 | (rm & 7)));
    }
    void immediate(uint8_t extension, Gpr a, int32_t value) {
        rex(true, rax, a);
        byte(0x81), byte(uint8_t(0xc0 | extension << 3 | (a & 7))), word(uint32_t(value));
    }
    void push_or_pop(uint8_t opcode, Gpr a) {
        if (a >= r8) byte(0x41);
        byte(uint8_t(opcode | (a & 7)));
    }
    void vex(Form form, bool length, uint8_t second, bool high_base = false) {
        byte(0xc4), byte(uint8_t(0xc0 | !high_base << 5 | form.map));
        byte(uint8_t(form.wide << 7 | (~second & 15) << 3 | length << 2 | form.prefix)), byte(form.opcode);
    }

    std::vector<uint8_t> bytes_;
};

}  // namespace softgpu::machine_code
