// mma.sync and ldmatrix. Products are exact and summed in double, rounded once.
#include "exec/lanes/floats.h"

namespace softgpu::SOFTGPU_ISA {
namespace {

constexpr int kRows = 16, kColumns = 8;

SOFTGPU_INLINE u16 half_at(Warp* warp, u32 offset, u32 lane, int part) {
    return u16(slot<u32>(warp, offset)[lane] >> (16 * part));
}

// Op::imm points to the slots of d, a, b and c. Where an element of each lies is PTX's table of fragments: a lane
// belongs to row (or column) lane / 4 and to the column pair lane % 4.
template <class T, int depth, bool half_sums>
const Op* multiply(const Op* op, Warp* warp) {
    constexpr int sums = half_sums ? 2 : 4, a_slots = depth == 16 ? 4 : 2, b_slots = depth == 16 ? 2 : 1;
    const u32* slots = reinterpret_cast<const u32*>(op->imm);
    const u32 *d_slots = slots, *a = slots + sums, *b = a + a_slots, *c = b + b_slots;
    f64 left[kRows][depth], right[depth][kColumns];
    for (u32 lane = 0; lane < kLanes; ++lane) {
        const int group = int(lane / 4), pair = int(lane % 4) * 2;
        for (int i = 0; i < a_slots * 2; ++i) {
            const int row = group + (i / 2 % 2) * 8, column = pair + i % 2 + (i / 4) * 8;
            left[row][column] = widen(T{half_at(warp, a[i / 2], lane, i % 2)});
        }
        for (int i = 0; i < b_slots * 2; ++i) {
            right[pair + i % 2 + (i / 2) * 8][group] = widen(T{half_at(warp, b[i / 2], lane, i % 2)});
        }
    }
    f64 product[kRows][kColumns] = {};
    for (int row = 0; row < kRows; ++row) {
        for (int k = 0; k < depth; ++k) {
            for (int column = 0; column < kColumns; ++column) product[row][column] += left[row][k] * right[k][column];
        }
    }
    for (u32 lane = 0; lane < kLanes; ++lane) {
        if (!(warp->mask & kBit[lane])) continue;
        const int group = int(lane / 4), pair = int(lane % 4) * 2;
        for (int i = 0; i < 4; ++i) {
            const f64 sum = product[group + i / 2 * 8][pair + i % 2];
            if constexpr (half_sums) {
                const u16 rounded = to_half(sum + widen(f16{half_at(warp, c[i / 2], lane, i % 2)})).bits;
                u32& word = slot<u32>(warp, d_slots[i / 2])[lane];
                word = i % 2 == 0 ? (word & 0xffff0000u) | rounded : (word & 0xffff) | u32(rounded) << 16;
            } else {
                slot<f32>(warp, d_slots[i])[lane] = one_nan(f32(sum + f64(slot<f32>(warp, c[i])[lane])));
            }
        }
    }
    return op + 1;
}

// Matrix m's rows of 16 bytes are at the addresses in lanes 8m to 8m + 7.
template <u32 count, bool transposed>
const Op* load_matrix(const Op* op, Warp* warp) {
    const u64* a = slot<u64>(warp, op->a);
    u64 addresses[kLanes];
    for (u32 i = 0; i < kLanes; ++i) addresses[i] = a[i] + op->imm;
    const u32 mask = warp->mask;
    warp->mask = count == 4 ? kAllLanes : (1u << (count * 8)) - 1;
    const bool found = resolve_lanes(op, warp, addresses, 16, "read");
    warp->mask = mask;
    if (!found) return nullptr;
    const u32 targets[4] = {op->d, op->b, op->c, op->e};
    for (u32 m = 0; m < count; ++m) {
        u16 matrix[8][8];
        for (u32 row = 0; row < 8; ++row) __builtin_memcpy(matrix[row], warp->pointers[m * 8 + row], 16);
        u32* to = slot<u32>(warp, targets[m]);
        for (u32 lane = 0; lane < kLanes; ++lane) {
            if (!(mask & kBit[lane])) continue;
            const u32 row = lane / 4, column = lane % 4 * 2;
            to[lane] = transposed ? matrix[column][row] | u32(matrix[column + 1][row]) << 16
                                  : matrix[row][column] | u32(matrix[row][column + 1]) << 16;
        }
    }
    return op + 1;
}

const HandlerEntry kEntries[] = {
    {"mma.m16n8k16.f32.f16", multiply<f16, 16, false>},
    {"mma.m16n8k16.f16.f16", multiply<f16, 16, true>},
    {"mma.m16n8k16.f32.bf16", multiply<bf16, 16, false>},
    {"mma.m16n8k8.f32.f16", multiply<f16, 8, false>},
    {"mma.m16n8k8.f16.f16", multiply<f16, 8, true>},
    {"mma.m16n8k8.f32.bf16", multiply<bf16, 8, false>},
    {"ldmatrix.x1", load_matrix<1, false>},
    {"ldmatrix.x2", load_matrix<2, false>},
    {"ldmatrix.x4", load_matrix<4, false>},
    {"ldmatrix.x1.trans", load_matrix<1, true>},
    {"ldmatrix.x2.trans", load_matrix<2, true>},
    {"ldmatrix.x4.trans", load_matrix<4, true>},
};

}  // namespace

extern const HandlerTable kMatrixHandlers;
const HandlerTable kMatrixHandlers{kEntries, sizeof kEntries / sizeof kEntries[0]};

}  // namespace softgpu::SOFTGPU_ISA
