// mma.sync of tf32, 8- and 4-bit integers, bits and f64, and wmma. Op::imm points to the slots of d, a, b and
// c. Products and sums are exact where the sums are integers; of floats they are summed in double and rounded
// once.
#include "exec/lanes/floats.h"

namespace softgpu::SOFTGPU_ISA {
namespace {

// ---- how elements lie in registers, and what multiplies them

template <int width, bool is_signed>
struct Integers {
    static constexpr int bits = width;
    using Value = s64;
    static SOFTGPU_INLINE s64 at(Warp* warp, u32 offset, u32 lane, int part) {
        const u32 raw = slot<u32>(warp, offset)[lane] >> (part * width) & ((1u << width) - 1);
        return is_signed ? s64(s32(raw << (32 - width)) >> (32 - width)) : s64(raw);
    }
};
struct Tf32 {
    static constexpr int bits = 32;
    using Value = f64;
    // The low 13 bits do not take part.
    static SOFTGPU_INLINE f64 at(Warp* warp, u32 offset, u32 lane, int) {
        return bits_as<f32>(slot<u32>(warp, offset)[lane] & ~0x1fffu);
    }
};
struct Doubles {
    static constexpr int bits = 32;
    using Value = f64;
    static SOFTGPU_INLINE f64 at(Warp* warp, u32 offset, u32 lane, int) {
        return slot<f64>(warp, offset)[lane];
    }
};
template <class T>
struct Halves {
    static constexpr int bits = 16;
    using Value = f64;
    static SOFTGPU_INLINE f64 at(Warp* warp, u32 offset, u32 lane, int part) {
        return widen(T{u16(slot<u32>(warp, offset)[lane] >> (16 * part))});
    }
};

struct Times {
    template <class T>
    static SOFTGPU_INLINE T join(T a, T b) {
        return a * b;
    }
};
struct Differ {
    static SOFTGPU_INLINE s64 join(s64 a, s64 b) { return a ^ b; }
};
struct Both {
    static SOFTGPU_INLINE s64 join(s64 a, s64 b) { return a & b; }
};

// ---- sums

enum class Sum { s32_wraps, s32_clamps, f32_sum, f16_sum, f64_sum };

// Element `number` of a lane's part of c.
template <Sum sum, class V>
SOFTGPU_INLINE V addend(Warp* warp, const u32* slots, u32 lane, int number) {
    if constexpr (sum == Sum::f16_sum)
        return widen(f16{u16(slot<u32>(warp, slots[number / 2])[lane] >> (16 * (number % 2)))});
    else if constexpr (sum == Sum::f32_sum)
        return slot<f32>(warp, slots[number])[lane];
    else if constexpr (sum == Sum::f64_sum)
        return slot<f64>(warp, slots[number])[lane];
    else
        return slot<s32>(warp, slots[number])[lane];
}
template <Sum sum, class V>
SOFTGPU_INLINE void store(Warp* warp, const u32* slots, u32 lane, int number, V value) {
    if constexpr (sum == Sum::f16_sum) {
        u32& word = slot<u32>(warp, slots[number / 2])[lane];
        const u32 half = to_half(value).bits;
        word = number % 2 == 0 ? (word & 0xffff0000u) | half : (word & 0xffff) | half << 16;
    } else if constexpr (sum == Sum::f32_sum) {
        slot<f32>(warp, slots[number])[lane] = one_nan(f32(value));
    } else if constexpr (sum == Sum::f64_sum) {
        slot<f64>(warp, slots[number])[lane] = value;
    } else {
        const V clamped = value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : value;
        slot<s32>(warp, slots[number])[lane] = s32(u32(u64(sum == Sum::s32_clamps ? clamped : value)));
    }
}
template <Sum sum>
constexpr int kPerRegister = sum == Sum::f16_sum ? 2 : 1;

template <int rows, int depth, int columns, class J, class V>
SOFTGPU_INLINE void multiply(const V (&a)[rows][depth], const V (&b)[depth][columns],
                             V (&product)[rows][columns]) {
    for (int row = 0; row < rows; ++row) {
        for (int k = 0; k < depth; ++k) {
            for (int column = 0; column < columns; ++column)
                product[row][column] += J::join(a[row][k], b[k][column]);
        }
    }
}

// ---- mma.sync: PTX says where each element lies. A lane belongs to row (of b: column) lane / 4; registers
// hold elements side by side, four lanes make a row of them, and every second register of a is eight rows
// below.

template <class A, class B, Sum sum, int rows, int depth, class J = Times>
const Op* mma(const Op* op, Warp* warp) {
    using V = typename A::Value;
    constexpr int columns = 8, packed = 32 / A::bits, below = rows / 8;
    constexpr int d_slots = rows * columns / 32 / kPerRegister<sum>;
    constexpr int a_slots = rows * depth / 32 / packed, b_slots = depth * columns / 32 / packed;
    const u32* slots = reinterpret_cast<const u32*>(op->imm);
    const u32 *a = slots + d_slots, *b = a + a_slots, *c = b + b_slots;
    V left[rows][depth], right[depth][columns], product[rows][columns] = {};
    for (u32 lane = 0; lane < kLanes; ++lane) {
        const int group = int(lane / 4), place = int(lane % 4) * packed;
        for (int i = 0; i < a_slots * packed; ++i) {
            const int reg = i / packed, part = i % packed;
            left[group + reg % below * 8][place + part + reg / below * 4 * packed] =
                A::at(warp, a[reg], lane, part);
        }
        for (int i = 0; i < b_slots * packed; ++i) {
            const int reg = i / packed, part = i % packed;
            right[place + part + reg * 4 * packed][group] = B::at(warp, b[reg], lane, part);
        }
    }
    multiply<rows, depth, columns, J>(left, right, product);
    for (u32 lane = 0; lane < kLanes; ++lane) {
        if (!(warp->mask & kBit[lane])) continue;
        for (int i = 0; i < rows * columns / 32; ++i) {
            const V value = product[int(lane / 4) + i / 2 * 8][int(lane % 4) * 2 + i % 2];
            store<sum, V>(warp, slots, lane, i, value + addend<sum, V>(warp, c, lane, i));
        }
    }
    return op + 1;
}

// ---- wmma: where elements lie is ours to choose. A fragment's elements are counted row by row, and each
// lane has as many in a row as it has room for. CUDA's fragments of f16 factors have room for each element
// twice: the second half of the registers repeats the first.

// Registers are read as whole vectors first, and written so last; in between lie the elements in order.
template <class E, int rows, int columns, class V>
SOFTGPU_INLINE void read_fragment(Warp* warp, const u32* slots, V (&matrix)[rows][columns]) {
    constexpr int packed = 32 / E::bits, each = rows * columns / int(kLanes);
    V lanes[each][kLanes];
    for (int i = 0; i < each; ++i) {
        SOFTGPU_VECTORISE
        for (u32 lane = 0; lane < kLanes; ++lane)
            lanes[i][lane] = E::at(warp, slots[i / packed], lane, i % packed);
    }
    V* flat = &matrix[0][0];
    for (u32 lane = 0; lane < kLanes; ++lane) {
        for (int i = 0; i < each; ++i) flat[int(lane) * each + i] = lanes[i][lane];
    }
}

template <class E, Sum in, Sum out, int m, int n, int a_room, int b_room>
const Op* wmma(const Op* op, Warp* warp) {
    using V = typename E::Value;
    constexpr int depth = 16, each = m * n / int(kLanes);
    const u32* slots = reinterpret_cast<const u32*>(op->imm);
    const u32 *a = slots + each / kPerRegister<out>, *b = a + a_room, *c = b + b_room;
    V left[m][depth], right[depth][n], product[m][n] = {}, sums[each][kLanes];
    read_fragment<E>(warp, a, left);
    read_fragment<E>(warp, b, right);
    multiply<m, depth, n, Times>(left, right, product);
    const V* flat = &product[0][0];
    for (u32 lane = 0; lane < kLanes; ++lane) {
        for (int i = 0; i < each; ++i) sums[i][lane] = flat[int(lane) * each + i];
    }
    for (int i = 0; i < each; ++i) {
        SOFTGPU_VECTORISE
        for (u32 lane = 0; lane < kLanes; ++lane) sums[i][lane] += addend<in, V>(warp, c, lane, i);
    }
    for (int i = 0; i < each; ++i) {
        if (SOFTGPU_LIKELY(warp->mask == kAllLanes)) {
            SOFTGPU_VECTORISE
            for (u32 lane = 0; lane < kLanes; ++lane) store<out, V>(warp, slots, lane, i, sums[i][lane]);
            continue;
        }
        for (u32 left_over = warp->mask; left_over != 0; left_over &= left_over - 1) {
            const u32 lane = u32(__builtin_ctz(left_over));
            store<out, V>(warp, slots, lane, i, sums[i][lane]);
        }
    }
    return op + 1;
}

// Copies a matrix between memory and the lanes' elements. Lines are rows, or columns where the layout is by
// columns; they lie `stride` elements apart, from the address in a; the stride is in b.
template <int bytes, int rows, int columns, bool by_columns, class Move>
const Op* each_element(const Op* op, Warp* warp, const char* action, Move move) {
    constexpr int length = by_columns ? rows : columns, each = rows * columns / int(kLanes);
    const u64 base = slot<u64>(warp, op->a)[__builtin_ctz(warp->mask)];
    const u32 stride = op->b == kNoSlot ? u32(length) : slot<u32>(warp, op->b)[__builtin_ctz(warp->mask)];
    u64 addresses[kLanes];
    for (int i = 0; i < each; ++i) {
        for (u32 lane = 0; lane < kLanes; ++lane) {
            const int number = int(lane) * each + i, row = number / columns, column = number % columns;
            const u64 line = u64(by_columns ? column : row), place = u64(by_columns ? row : column);
            addresses[lane] = base + (line * stride + place) * bytes;
        }
        if (!resolve_lanes(op, warp, addresses, bytes, action)) return nullptr;
        for (u32 left = warp->mask; left != 0; left &= left - 1) {
            const u32 lane = u32(__builtin_ctz(left));
            move(lane, i, warp->pointers[lane]);
        }
    }
    return op + 1;
}

// `registers` of the fragment; with twice as many as the elements need, the second half repeats the first.
template <int bytes, int rows, int columns, bool by_columns, int registers>
const Op* wmma_load(const Op* op, Warp* warp) {
    const u32* slots = reinterpret_cast<const u32*>(op->imm);
    constexpr int packed = 4 / bytes, needed = rows * columns / int(kLanes) / packed;
    return each_element<bytes, rows, columns, by_columns>(
        op, warp, "read", [&](u32 lane, int i, const std::byte* from) {
            u32 value = 0;
            __builtin_memcpy(&value, from, bytes);
            for (int reg = i / packed; reg < registers; reg += needed) {
                u32& word = slot<u32>(warp, slots[reg])[lane];
                word = i % packed == 0 ? value : word | value << (8 * bytes * (i % packed));
            }
        });
}
template <int bytes, int rows, int columns, bool by_columns>
const Op* wmma_store(const Op* op, Warp* warp) {
    const u32* slots = reinterpret_cast<const u32*>(op->imm);
    constexpr int packed = 4 / bytes;
    return each_element<bytes, rows, columns, by_columns>(
        op, warp, "write", [&](u32 lane, int i, std::byte* to) {
            const u32 value = slot<u32>(warp, slots[i / packed])[lane] >> (8 * bytes * (i % packed));
            __builtin_memcpy(to, &value, bytes);
        });
}

const Op* transpose(const Op* op, Warp* warp) {
    const u32* a = slot<u32>(warp, op->a);
    u16 matrix[8][8];
    for (u32 lane = 0; lane < kLanes; ++lane) {
        matrix[lane / 4][lane % 4 * 2] = u16(a[lane]);
        matrix[lane / 4][lane % 4 * 2 + 1] = u16(a[lane] >> 16);
    }
    u32* to = result<u32>(op, warp);
    for (u32 lane = 0; lane < kLanes; ++lane) {
        const u32 row = lane / 4, column = lane % 4 * 2;
        to[lane] = matrix[column][row] | u32(matrix[column + 1][row]) << 16;
    }
    finish<u32>(op, warp);
    return op + 1;
}

using U8 = Integers<8, false>;
using S8 = Integers<8, true>;
using U4 = Integers<4, false>;
using S4 = Integers<4, true>;
using Bit = Integers<1, false>;

#define INTEGERS_OF(SHAPE, ROWS, DEPTH, A, AN, B, BN)                         \
    {"mma." SHAPE ".s32." AN "." BN, mma<A, B, Sum::s32_wraps, ROWS, DEPTH>}, \
        {"mma." SHAPE ".satfinite.s32." AN "." BN, mma<A, B, Sum::s32_clamps, ROWS, DEPTH>},
#define INTEGER_SHAPE(SHAPE, ROWS, DEPTH, U, UN, S, SN) \
    INTEGERS_OF(SHAPE, ROWS, DEPTH, U, UN, U, UN)       \
    INTEGERS_OF(SHAPE, ROWS, DEPTH, U, UN, S, SN)       \
    INTEGERS_OF(SHAPE, ROWS, DEPTH, S, SN, U, UN) INTEGERS_OF(SHAPE, ROWS, DEPTH, S, SN, S, SN)
#define BITS(SHAPE, ROWS, DEPTH)                                                         \
    {"mma." SHAPE ".xor.s32.b1.b1", mma<Bit, Bit, Sum::s32_wraps, ROWS, DEPTH, Differ>}, \
        {"mma." SHAPE ".and.s32.b1.b1", mma<Bit, Bit, Sum::s32_wraps, ROWS, DEPTH, Both>},

#define WMMA(SHAPE, M, N, AI, BI, AB, BB)                                                                    \
    {"wmma." SHAPE ".f16.f16", wmma<Halves<f16>, Sum::f16_sum, Sum::f16_sum, M, N, 8, 8>},                   \
        {"wmma." SHAPE ".f16.f32", wmma<Halves<f16>, Sum::f32_sum, Sum::f16_sum, M, N, 8, 8>},               \
        {"wmma." SHAPE ".f32.f16", wmma<Halves<f16>, Sum::f16_sum, Sum::f32_sum, M, N, 8, 8>},               \
        {"wmma." SHAPE ".f32.f32", wmma<Halves<f16>, Sum::f32_sum, Sum::f32_sum, M, N, 8, 8>},               \
        {"wmma." SHAPE ".f32.bf16.bf16.f32", wmma<Halves<bf16>, Sum::f32_sum, Sum::f32_sum, M, N, AB, BB>},  \
        {"wmma." SHAPE ".s32.u8.u8.s32", wmma<U8, Sum::s32_wraps, Sum::s32_wraps, M, N, AI, BI>},            \
        {"wmma." SHAPE ".s32.s8.s8.s32", wmma<S8, Sum::s32_wraps, Sum::s32_wraps, M, N, AI, BI>},            \
        {"wmma." SHAPE ".satfinite.s32.u8.u8.s32", wmma<U8, Sum::s32_wraps, Sum::s32_clamps, M, N, AI, BI>}, \
        {"wmma." SHAPE ".satfinite.s32.s8.s8.s32", wmma<S8, Sum::s32_wraps, Sum::s32_clamps, M, N, AI, BI>}, \
        WMMA_LAYOUT(SHAPE, "row", false, M, N, AI, BI, AB, BB)                                               \
            WMMA_LAYOUT(SHAPE, "col", true, M, N, AI, BI, AB, BB)
#define WMMA_LAYOUT(SHAPE, LAYOUT, BY, M, N, AI, BI, AB, BB)                    \
    {"wmma.load.a." LAYOUT "." SHAPE ".f16", wmma_load<2, M, 16, BY, 8>},       \
        {"wmma.load.b." LAYOUT "." SHAPE ".f16", wmma_load<2, 16, N, BY, 8>},   \
        {"wmma.load.a." LAYOUT "." SHAPE ".bf16", wmma_load<2, M, 16, BY, AB>}, \
        {"wmma.load.b." LAYOUT "." SHAPE ".bf16", wmma_load<2, 16, N, BY, BB>}, \
        {"wmma.load.a." LAYOUT "." SHAPE ".b8", wmma_load<1, M, 16, BY, AI>},   \
        {"wmma.load.b." LAYOUT "." SHAPE ".b8", wmma_load<1, 16, N, BY, BI>},   \
        {"wmma.load.c." LAYOUT "." SHAPE ".f16", wmma_load<2, M, N, BY, 4>},    \
        {"wmma.load.c." LAYOUT "." SHAPE ".b32", wmma_load<4, M, N, BY, 8>},    \
        {"wmma.store.d." LAYOUT "." SHAPE ".f16", wmma_store<2, M, N, BY>},     \
        {"wmma.store.d." LAYOUT "." SHAPE ".b32", wmma_store<4, M, N, BY>},

const HandlerEntry kEntries[] = {
    {"mma.m16n8k4.f32.tf32.tf32", mma<Tf32, Tf32, Sum::f32_sum, 16, 4>},
    {"mma.m16n8k8.f32.tf32.tf32", mma<Tf32, Tf32, Sum::f32_sum, 16, 8>},
    {"mma.m8n8k4.f64.f64.f64", mma<Doubles, Doubles, Sum::f64_sum, 8, 4>},
    {"mma.m16n8k4.f64.f64.f64", mma<Doubles, Doubles, Sum::f64_sum, 16, 4>},
    {"mma.m16n8k8.f64.f64.f64", mma<Doubles, Doubles, Sum::f64_sum, 16, 8>},
    {"mma.m16n8k16.f64.f64.f64", mma<Doubles, Doubles, Sum::f64_sum, 16, 16>},
    INTEGER_SHAPE("m8n8k16", 8, 16, U8, "u8", S8, "s8") INTEGER_SHAPE("m16n8k16", 16, 16, U8, "u8", S8, "s8")
        INTEGER_SHAPE("m16n8k32", 16, 32, U8, "u8", S8, "s8") INTEGER_SHAPE(
            "m8n8k32", 8, 32, U4, "u4", S4, "s4") INTEGER_SHAPE("m16n8k32", 16, 32, U4, "u4", S4, "s4")
            INTEGER_SHAPE("m16n8k64", 16, 64, U4, "u4", S4, "s4") BITS("m8n8k128", 8, 128)
                BITS("m16n8k128", 16, 128) BITS("m16n8k256", 16, 256)
    // Registers of a and b: of 8-bit integers, then of bf16.
    WMMA("m16n16k16", 16, 16, 2, 2, 4, 4) WMMA("m8n32k16", 8, 32, 1, 4, 2, 8)
        WMMA("m32n8k16", 32, 8, 4, 1, 8, 2){"movmatrix", transpose},
};

}  // namespace

extern const HandlerTable kTensorHandlers;
const HandlerTable kTensorHandlers{kEntries, sizeof kEntries / sizeof kEntries[0]};

}  // namespace softgpu::SOFTGPU_ISA
