// Loads and stores. A vector's parts are in d, b, c, e for a load and in b, c, e, d for a store.
#include "exec/lanes/address.h"

namespace softgpu::SOFTGPU_ISA {
namespace {

SOFTGPU_INLINE u32 loaded(const Op* op, int part) { return part == 0 ? op->d : part == 1 ? op->b : part == 2 ? op->c : op->e; }
SOFTGPU_INLINE u32 stored(const Op* op, int part) { return part == 0 ? op->b : part == 1 ? op->c : part == 2 ? op->e : op->d; }

template <class M>
SOFTGPU_INLINE Held<M> read(const std::byte* from) {
    M value;
    __builtin_memcpy(&value, from, sizeof value);
    return Held<M>(value);
}
template <class M>
SOFTGPU_INLINE void write(std::byte* to, Held<M> held) {
    const M value = static_cast<M>(held);
    __builtin_memcpy(to, &value, sizeof value);
}

template <class M, int parts, Where where>
const Op* load(const Op* op, Warp* warp) {
    constexpr u32 bytes = sizeof(M) * parts;
    const Place place = locate<where, bytes>(op, warp, "read");
    if (SOFTGPU_UNLIKELY(place.shape == Shape::fault)) return nullptr;
    using Bits = std::conditional_t<sizeof(Held<M>) == 8, u64, u32>;
    for (int part = 0; part < parts; ++part) {
        Held<M>* to = slot<M>(warp, loaded(op, part));
        const u32 skip = u32(part) * sizeof(M);
        if (place.shape == Shape::scattered) {
            if (warp->mask == kAllLanes) {
#pragma GCC ivdep
                for (u32 i = 0; i < kLanes; ++i) to[i] = read<M>(place.pointers[i] + skip);
            } else {
                for (u32 left = warp->mask; left != 0; left &= left - 1) {
                    const u32 i = u32(__builtin_ctz(left));
                    to[i] = read<M>(place.pointers[i] + skip);
                }
            }
            continue;
        }
        Held<M>* out = warp->partial ? reinterpret_cast<Held<M>*>(warp->scratch) : to;
        if (place.shape == Shape::row) {
#pragma GCC ivdep
            for (u32 i = 0; i < kLanes; ++i) out[i] = read<M>(place.base + i * bytes + skip);
        } else {
            const Held<M> value = read<M>(place.base + skip);
#pragma GCC ivdep
            for (u32 i = 0; i < kLanes; ++i) out[i] = value;
        }
        if (warp->partial) blend<Bits>(reinterpret_cast<Bits*>(to), reinterpret_cast<Bits*>(out), warp->mask);
    }
    return op + 1;
}

template <class M, int parts, Where where>
const Op* store(const Op* op, Warp* warp) {
    constexpr u32 bytes = sizeof(M) * parts;
    const Place place = locate<where, bytes>(op, warp, "write");
    if (SOFTGPU_UNLIKELY(place.shape == Shape::fault)) return nullptr;
    for (int part = 0; part < parts; ++part) {
        const Held<M>* from = slot<M>(warp, stored(op, part));
        const u32 skip = u32(part) * sizeof(M);
        if (place.shape == Shape::row) {
#pragma GCC ivdep
            for (u32 i = 0; i < kLanes; ++i) write<M>(place.base + i * bytes + skip, from[i]);
        } else if (place.shape == Shape::one) {
            write<M>(place.base + skip, from[31 - __builtin_clz(warp->mask)]);  // one lane's write stays
        } else if (warp->mask == kAllLanes) {
            for (u32 i = 0; i < kLanes; ++i) write<M>(place.pointers[i] + skip, from[i]);
        } else {
            for (u32 left = warp->mask; left != 0; left &= left - 1) {
                const u32 i = u32(__builtin_ctz(left));
                write<M>(place.pointers[i] + skip, from[i]);
            }
        }
    }
    return op + 1;
}

#define WIDTHS(SPACE, WHERE, T, N)                                                                           \
    {"ld." SPACE "." N, load<T, 1, WHERE>}, {"ld." SPACE "." N ".v2", load<T, 2, WHERE>},                    \
    {"ld." SPACE "." N ".v4", load<T, 4, WHERE>},
#define STORES(SPACE, WHERE, T, N)                                                                           \
    {"st." SPACE "." N, store<T, 1, WHERE>}, {"st." SPACE "." N ".v2", store<T, 2, WHERE>},                  \
    {"st." SPACE "." N ".v4", store<T, 4, WHERE>},
#define SPACE(NAME, WHERE)                                                                                   \
    WIDTHS(NAME, WHERE, u8, "u8") WIDTHS(NAME, WHERE, s8, "s8") WIDTHS(NAME, WHERE, u16, "u16")              \
    WIDTHS(NAME, WHERE, s16, "s16") WIDTHS(NAME, WHERE, u32, "b32") WIDTHS(NAME, WHERE, u64, "b64")          \
    STORES(NAME, WHERE, u8, "b8") STORES(NAME, WHERE, u16, "b16") STORES(NAME, WHERE, u32, "b32")            \
    STORES(NAME, WHERE, u64, "b64")

const HandlerEntry kEntries[] = {
    SPACE("global", Where::global) SPACE("shared32", Where::shared32) SPACE("shared64", Where::shared64)
    SPACE("local", Where::local) SPACE("generic", Where::generic)
};

}  // namespace

extern const HandlerTable kMemoryHandlers;
const HandlerTable kMemoryHandlers{kEntries, sizeof kEntries / sizeof kEntries[0]};

}  // namespace softgpu::SOFTGPU_ISA
