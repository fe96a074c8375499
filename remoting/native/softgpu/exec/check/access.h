// What an instruction does with memory, as the teaching mode sees it: bits in a check's Op, and in
// lower::Inst.
#pragma once

#include <cstdint>

namespace softgpu::check {

enum Access : uint32_t {
    reads = 1,
    writes = 2,
    strong = 4,     // atomic, volatile or relaxed: does not race with its like
    has_value = 8,  // Op::e is what it writes
    acquires = 16,  // by itself, without a fence after it
    releases = 32,  // by itself, without a fence before it
    passes = 64,    // what locks and flags are made of: exchange, compare and swap, strong loads and stores
    is_volatile = 128,  // and not atomic
    later = 256,        // cp.async: the write is done when its group has been waited for
    compares = 1024,    // compare and swap, which may well be after a plain read that was a guess
    takes = 512,        // what others have left, as a read does, though the value may not count
};

// What a wmma.load or wmma.store moves, in the 64 bits that an Op has for it.
struct Matrix {
    uint32_t bytes = 0;  // of an element
    uint32_t rows = 0, columns = 0;
    bool by_columns = false;
    uint32_t access = 0;

    uint64_t pack() const {
        return bytes | rows << 8 | columns << 16 | uint32_t(by_columns) << 24 | uint64_t{access} << 32;
    }
    static Matrix unpack(uint64_t packed) {
        return {uint32_t(packed & 0xff), uint32_t(packed >> 8 & 0xff), uint32_t(packed >> 16 & 0xff),
                (packed >> 24 & 1) != 0, uint32_t(packed >> 32)};
    }
};

}  // namespace softgpu::check
