// Loads and stores. A vector's parts are in d, b, c, e for a load and in b, c, e, d for a store.
#include "exec/lanes/address.h"

namespace softgpu::SOFTGPU_ISA {
namespace {

SOFTGPU_INLINE u32 loaded(const Op* op, int part) {
    return part == 0 ? op->d : part == 1 ? op->b : part == 2 ? op->c : op->e;
}
SOFTGPU_INLINE u32 stored(const Op* op, int part) {
    return part == 0 ? op->b : part == 1 ? op->c : part == 2 ? op->e : op->d;
}

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

// Values from `count` places into consecutive lanes. They are put together in registers: what is stored lane
// by lane makes the next instruction, which loads whole vectors, wait until it is in the cache.
#if defined(__SSE4_1__)
template <class M>
SOFTGPU_INLINE __m128i quad(std::byte* const* from, u64 skip) {
    if constexpr (sizeof(Held<M>) == 8) {
        const __m128i low = _mm_cvtsi64_si128(s64(read<M>(from[0] + skip)));
        return _mm_insert_epi64(low, s64(read<M>(from[1] + skip)), 1);
    } else {
        __m128i four = _mm_cvtsi32_si128(s32(read<M>(from[0] + skip)));
        four = _mm_insert_epi32(four, s32(read<M>(from[1] + skip)), 1);
        four = _mm_insert_epi32(four, s32(read<M>(from[2] + skip)), 2);
        return _mm_insert_epi32(four, s32(read<M>(from[3] + skip)), 3);
    }
}
template <class M, u32 count>
SOFTGPU_INLINE void gather(Held<M>* to, std::byte* const* from, u64 skip) {
    constexpr u32 step = 16 / sizeof(Held<M>);  // lanes in 128 bits
#if defined(__AVX512F__)
    for (u32 i = 0; i < count; i += 4 * step) {
        __m512i all = _mm512_castsi128_si512(quad<M>(from + i, skip));
        all = _mm512_inserti32x4(all, quad<M>(from + i + step, skip), 1);
        all = _mm512_inserti32x4(all, quad<M>(from + i + 2 * step, skip), 2);
        _mm512_store_si512(to + i, _mm512_inserti32x4(all, quad<M>(from + i + 3 * step, skip), 3));
    }
#elif defined(__AVX2__)
    for (u32 i = 0; i < count; i += 2 * step) {
        const __m256i low = _mm256_castsi128_si256(quad<M>(from + i, skip));
        _mm256_store_si256(reinterpret_cast<__m256i*>(to + i),
                           _mm256_inserti128_si256(low, quad<M>(from + i + step, skip), 1));
    }
#else
    for (u32 i = 0; i < count; i += step)
        _mm_store_si128(reinterpret_cast<__m128i*>(to + i), quad<M>(from + i, skip));
#endif
}
#else
template <class M, u32 count>
SOFTGPU_INLINE void gather(Held<M>* to, std::byte* const* from, u64 skip) {
    for (u32 i = 0; i < count; ++i) to[i] = read<M>(from[i] + skip);
}
#endif

template <class M>
SOFTGPU_INLINE void fill(Held<M>* to, u32 count, const std::byte* from) {
    const Held<M> value = read<M>(from);
    SOFTGPU_VECTORISE
    for (u32 i = 0; i < count; ++i) to[i] = value;
}
// Elements that lie as in a slot are moved as bytes: of a short loop the compiler makes one move a lane.
template <class M, u32 stride>
constexpr bool kDense = std::is_same_v<M, Held<M>> && stride == sizeof(M);

template <class M, u32 stride, u32 count>
SOFTGPU_INLINE void row(Held<M>* to, const std::byte* from) {
    if (from == nullptr) __builtin_unreachable();  // a row that was surveyed lies in memory
    if constexpr (kDense<M, stride>) {
        __builtin_memcpy(to, from, count * sizeof(M));
    } else {
        SOFTGPU_VECTORISE
        for (u32 i = 0; i < count; ++i) to[i] = read<M>(from + i * stride);
    }
}
template <class M, u32 stride, u32 count>
SOFTGPU_INLINE void write_row(std::byte* to, const Held<M>* from) {
    if (to == nullptr) __builtin_unreachable();  // a row that was surveyed lies in memory
    if constexpr (kDense<M, stride>) {
        __builtin_memcpy(to, from, count * sizeof(M));
    } else {
        SOFTGPU_VECTORISE
        for (u32 i = 0; i < count; ++i) write<M>(to + i * stride, from[i]);
    }
}

template <class M, int parts>
SOFTGPU_INLINE const Op* load_from(const Op* op, Warp* warp, const Place& place) {
    constexpr u32 bytes = sizeof(M) * parts;
    using Bits = std::conditional_t<sizeof(Held<M>) == 8, u64, u32>;
    for (int part = 0; part < parts; ++part) {
        Held<M>* to = slot<M>(warp, loaded(op, part));
        const u32 skip = u32(part) * sizeof(M);
        if (place.shape == Shape::scattered && warp->mask != kAllLanes) {
            for (u32 left = warp->mask; left != 0; left &= left - 1) {
                const u32 i = u32(__builtin_ctz(left));
                to[i] = read<M>(place.pointers[i] + place.delta + skip);
            }
            continue;
        }
        Held<M>* out = SOFTGPU_UNLIKELY(warp->partial) ? reinterpret_cast<Held<M>*>(warp->scratch) : to;
        switch (place.shape) {
            case Shape::row:
                row<M, bytes, kLanes>(out, place.base + skip);
                break;
            case Shape::one:
                fill<M>(out, kLanes, place.base + skip);
                break;
            case Shape::half_rows:
                row<M, bytes, 16>(out, place.base + skip);
                row<M, bytes, 16>(out + 16, place.second + skip);
                break;
            case Shape::half_ones:
                fill<M>(out, 16, place.base + skip);
                fill<M>(out + 16, 16, place.second + skip);
                break;
            case Shape::twice:
                gather<M, 16>(out, place.pointers, place.delta + skip);
                __builtin_memcpy(out + 16, out, 16 * sizeof(Held<M>));
                break;
            default:
                gather<M, kLanes>(out, place.pointers, place.delta + skip);
                break;
        }
        if (SOFTGPU_UNLIKELY(warp->partial)) {
            blend<Bits>(reinterpret_cast<Bits*>(to), reinterpret_cast<Bits*>(out), warp->mask);
        }
    }
    return op + 1;
}

template <class M, int parts>
SOFTGPU_INLINE const Op* store_to(const Op* op, Warp* warp, const Place& place) {
    constexpr u32 bytes = sizeof(M) * parts;
    for (int part = 0; part < parts; ++part) {
        const Held<M>* from = slot<M>(warp, stored(op, part));
        const u32 skip = u32(part) * sizeof(M);
        if (place.shape == Shape::row) {
            write_row<M, bytes, kLanes>(place.base + skip, from);
        } else if (place.shape == Shape::one) {
            write<M>(place.base + skip, from[31 - __builtin_clz(warp->mask)]);  // one lane's write stays
        } else if (place.shape == Shape::half_rows) {
            write_row<M, bytes, 16>(place.base + skip, from);
            write_row<M, bytes, 16>(place.second + skip, from + 16);
        } else {
            for (u32 left = warp->mask; left != 0; left &= left - 1) {
                const u32 i = u32(__builtin_ctz(left));
                write<M>(pointer_of(place, i, bytes) + skip, from[i]);
            }
        }
    }
    return op + 1;
}

// A vector that others may be writing or reading meanwhile (volatile, relaxed and their like) moves in one
// piece, as on a GPU: programs keep a flag in one part of it and what the flag promises in the others. x86-64
// moves 16 aligned bytes in one piece where it has AVX; a compiler that is not held to it may take them
// apart.
template <class M, int parts>
union Whole {
    M part[parts];
    u64 word;
#if defined(__SSE2__)
    __m128i words;
#endif
};
template <class M, int parts>
SOFTGPU_INLINE Whole<M, parts> read_whole(const std::byte* from) {
    Whole<M, parts> all;
    if constexpr (sizeof(M) * parts == 8) {
        all.word = __atomic_load_n(reinterpret_cast<const u64*>(from), __ATOMIC_RELAXED);
    } else {
#if defined(__AVX__)
        asm volatile("vmovdqa %1, %0" : "=x"(all.words) : "m"(*reinterpret_cast<const __m128i*>(from)));
#elif defined(__SSE2__)
        asm volatile("movdqa %1, %0" : "=x"(all.words) : "m"(*reinterpret_cast<const __m128i*>(from)));
#else
        __builtin_memcpy(&all, from, sizeof all);
#endif
    }
    return all;
}
template <class M, int parts>
SOFTGPU_INLINE void write_whole(std::byte* to, const Whole<M, parts>& all) {
    if constexpr (sizeof(M) * parts == 8) {
        __atomic_store_n(reinterpret_cast<u64*>(to), all.word, __ATOMIC_RELAXED);
    } else {
#if defined(__AVX__)
        asm volatile("vmovdqa %1, %0" : "=m"(*reinterpret_cast<__m128i*>(to)) : "x"(all.words));
#elif defined(__SSE2__)
        asm volatile("movdqa %1, %0" : "=m"(*reinterpret_cast<__m128i*>(to)) : "x"(all.words));
#else
        __builtin_memcpy(to, &all, sizeof all);
#endif
    }
}
template <class M, int parts, Where where>
const Op* load_whole(const Op* op, Warp* warp) {
    constexpr u32 bytes = sizeof(M) * parts;
    const Place place = locate<where, bytes>(op, warp, "read");
    if (SOFTGPU_UNLIKELY(place.shape == Shape::fault)) return nullptr;
    for (u32 left = warp->mask; left != 0; left &= left - 1) {
        const u32 i = u32(__builtin_ctz(left));
        const auto all = read_whole<M, parts>(pointer_of(place, i, bytes));
        for (int part = 0; part < parts; ++part) slot<M>(warp, loaded(op, part))[i] = all.part[part];
    }
    return op + 1;
}
template <class M, int parts, Where where>
const Op* store_whole(const Op* op, Warp* warp) {
    constexpr u32 bytes = sizeof(M) * parts;
    const Place place = locate<where, bytes>(op, warp, "write");
    if (SOFTGPU_UNLIKELY(place.shape == Shape::fault)) return nullptr;
    for (u32 left = warp->mask; left != 0; left &= left - 1) {
        const u32 i = u32(__builtin_ctz(left));
        Whole<M, parts> all;
        for (int part = 0; part < parts; ++part) all.part[part] = slot<M>(warp, stored(op, part))[i];
        write_whole<M, parts>(pointer_of(place, i, bytes), all);
    }
    return op + 1;
}

template <class M, int parts, Where where>
__attribute__((noinline)) const Op* load(const Op* op, Warp* warp) {
    const Place place = locate<where, sizeof(M) * parts>(op, warp, "read");
    return SOFTGPU_UNLIKELY(place.shape == Shape::fault) ? nullptr : load_from<M, parts>(op, warp, place);
}
template <class M, int parts, Where where>
const Op* load_kept(const Op* op, Warp* warp) {
    const Place place = moved(op, warp);
    return SOFTGPU_UNLIKELY(place.shape == Shape::fault) ? load<M, parts, where>(op, warp)
                                                         : load_from<M, parts>(op, warp, place);
}
template <class M, int parts, Where where>
__attribute__((noinline)) const Op* store(const Op* op, Warp* warp) {
    const Place place = locate<where, sizeof(M) * parts>(op, warp, "write");
    return SOFTGPU_UNLIKELY(place.shape == Shape::fault) ? nullptr : store_to<M, parts>(op, warp, place);
}
template <class M, int parts, Where where>
const Op* store_kept(const Op* op, Warp* warp) {
    const Place place = moved(op, warp);
    return SOFTGPU_UNLIKELY(place.shape == Shape::fault) ? store<M, parts, where>(op, warp)
                                                         : store_to<M, parts>(op, warp, place);
}

// Starts to fetch what the gang will want here the next time, if it goes on as it came.
SOFTGPU_INLINE void fetch(const std::byte* row, u64 ahead) {
    __builtin_prefetch(row + ahead);
    __builtin_prefetch(row + ahead + 64);
}
template <Where where>
SOFTGPU_INLINE u64 step_ahead(const Op* op, const Gang* gang) {
    const u64 first = slot_of<u64>(gang->slots[0], op->a)[0];
    u64& last = gang->block->cache[op->site % kCacheEntries].last;
    const u64 step = first - last;
    last = first;
    return step;
}
template <Where where>
constexpr bool kFetches = where == Where::global || where == Where::generic;

// Rows, half rows and single places that this instruction has met before are read and written here, all else
// as a warp does it.
template <class M, int parts, Where where>
SOFTGPU_INLINE bool load_halves(const Op* op, Gang* gang, u32 w, u64 ahead) {
    constexpr u32 bytes = sizeof(M) * parts;
    std::byte* const slots = gang->slots[w];
    if (const Halves rows = halves_of<where, bytes, bytes>(op, gang, w);
        SOFTGPU_LIKELY(rows.first != nullptr)) {
        if constexpr (kFetches<where>) fetch(rows.first, ahead);
        for (int part = 0; part < parts; ++part) {
            Held<M>* to = slot_of<M>(slots, loaded(op, part));
            const u32 skip = u32(part) * sizeof(M);
            if (SOFTGPU_LIKELY(rows.second == rows.first + 16 * bytes)) {
                row<M, bytes, kLanes>(to, rows.first + skip);
            } else {
                row<M, bytes, 16>(to, rows.first + skip);
                row<M, bytes, 16>(to + 16, rows.second + skip);
            }
        }
        return true;
    }
    const Halves ones = halves_of<where, bytes, 0>(op, gang, w);
    if (ones.first == nullptr) return false;
    for (int part = 0; part < parts; ++part) {
        Held<M>* to = slot_of<M>(slots, loaded(op, part));
        if (ones.first == ones.second) {
            fill<M>(to, kLanes, ones.first + u32(part) * sizeof(M));
        } else {
            fill<M>(to, 16, ones.first + u32(part) * sizeof(M));
            fill<M>(to + 16, 16, ones.second + u32(part) * sizeof(M));
        }
    }
    return true;
}
template <class M, int parts, Where where>
const Op* gang_load(const Op* op, Gang* gang) {
    u64 ahead = 0;
    if constexpr (kFetches<where>) ahead = step_ahead<where>(op, gang);
    for (u32 w = 0; w < gang->count; ++w) {
        if (SOFTGPU_LIKELY(gang->full) && SOFTGPU_LIKELY((load_halves<M, parts, where>(op, gang, w, ahead))))
            continue;
        if (SOFTGPU_UNLIKELY((load<M, parts, where>(op, gang->warps[w])) == nullptr)) return nullptr;
    }
    return op + 1;
}

template <class M, int parts, Where where>
SOFTGPU_INLINE bool store_halves(const Op* op, Gang* gang, u32 w, u64 ahead) {
    constexpr u32 bytes = sizeof(M) * parts;
    const Halves rows = halves_of<where, bytes, bytes>(op, gang, w);
    if (SOFTGPU_UNLIKELY(rows.first == nullptr)) return false;
    if constexpr (kFetches<where>) fetch(rows.first, ahead);
    for (int part = 0; part < parts; ++part) {
        const Held<M>* from = slot_of<M>(gang->slots[w], stored(op, part));
        const u32 skip = u32(part) * sizeof(M);
        if (SOFTGPU_LIKELY(rows.second == rows.first + 16 * bytes)) {
            write_row<M, bytes, kLanes>(rows.first + skip, from);
        } else {
            write_row<M, bytes, 16>(rows.first + skip, from);
            write_row<M, bytes, 16>(rows.second + skip, from + 16);
        }
    }
    return true;
}
template <class M, int parts, Where where>
const Op* gang_store(const Op* op, Gang* gang) {
    u64 ahead = 0;
    if constexpr (kFetches<where>) ahead = step_ahead<where>(op, gang);
    for (u32 w = 0; w < gang->count; ++w) {
        if (SOFTGPU_LIKELY(gang->full) && SOFTGPU_LIKELY((store_halves<M, parts, where>(op, gang, w, ahead))))
            continue;
        if (SOFTGPU_UNLIKELY((store<M, parts, where>(op, gang->warps[w])) == nullptr)) return nullptr;
    }
    return op + 1;
}
template <class M, int parts, Where where>
constexpr Handlers load_handlers{load<M, parts, where>, where == Where::local
                                                            ? each_in_turn<load<M, parts, where>>
                                                            : gang_load<M, parts, where>};
template <class M, int parts, Where where>
constexpr Handlers store_handlers{store<M, parts, where>, where == Where::local
                                                              ? each_in_turn<store<M, parts, where>>
                                                              : gang_store<M, parts, where>};

// Addresses in a, what is least added to them in imm, the accesses' size in b and the length of all in c.
template <Where where>
const Op* locate_for_others(const Op* op, Warp* warp) {
    Kept* kept = kept_at(op, warp);
    const Place place = survey<where>(op, warp, op->b, op->imm, op->c, kept->pointers);
    kept->shape = place.shape;
    kept->imm = op->imm;
    kept->base = place.base;
    kept->second = place.second;
    return op + 1;
}

#define WIDTH(SPACE, WHERE, T, N, PARTS, TAIL) {"ld." SPACE "." N TAIL, load_handlers<T, PARTS, WHERE>},
#define LOADS(SPACE, WHERE, T, N) \
    WIDTH(SPACE, WHERE, T, N, 1, "") WIDTH(SPACE, WHERE, T, N, 2, ".v2") WIDTH(SPACE, WHERE, T, N, 4, ".v4")
#define STORE(SPACE, WHERE, T, N, PARTS, TAIL) {"st." SPACE "." N TAIL, store_handlers<T, PARTS, WHERE>},
#define STORES(SPACE, WHERE, T, N) \
    STORE(SPACE, WHERE, T, N, 1, "") STORE(SPACE, WHERE, T, N, 2, ".v2") STORE(SPACE, WHERE, T, N, 4, ".v4")
#define SPACE(NAME, WHERE)                                                                            \
    LOADS(NAME, WHERE, u8, "u8")                                                                      \
    LOADS(NAME, WHERE, s8, "s8")                                                                      \
    LOADS(NAME, WHERE, u16, "u16")                                                                    \
    LOADS(NAME, WHERE, s16, "s16") LOADS(NAME, WHERE, u32, "b32") LOADS(NAME, WHERE, u64, "b64")      \
        STORES(NAME, WHERE, u8, "b8") STORES(NAME, WHERE, u16, "b16") STORES(NAME, WHERE, u32, "b32") \
            STORES(NAME, WHERE, u64, "b64")

#define KEPT_WIDTH(SPACE, WHERE, T, N, PARTS, TAIL)                        \
    {"ld." SPACE "." N TAIL ".kept", in_turn<load_kept<T, PARTS, WHERE>>}, \
        {"st." SPACE "." N TAIL ".kept", in_turn<store_kept<T, PARTS, WHERE>>},
#define KEPT_TYPE(SPACE, WHERE, T, N)     \
    KEPT_WIDTH(SPACE, WHERE, T, N, 1, "") \
    KEPT_WIDTH(SPACE, WHERE, T, N, 2, ".v2") KEPT_WIDTH(SPACE, WHERE, T, N, 4, ".v4")
#define KEPT(SPACE, WHERE)              \
    KEPT_TYPE(SPACE, WHERE, u32, "b32") \
    KEPT_TYPE(SPACE, WHERE, u64, "b64"){"locate." SPACE, in_turn<locate_for_others<WHERE>>},

// Of a block's own memory nobody else sees the pieces.
#define WHOLE_TYPE(SPACE, WHERE, T, N, PARTS, TAIL)                          \
    {"ld." SPACE "." N TAIL ".whole", in_turn<load_whole<T, PARTS, WHERE>>}, \
        {"st." SPACE "." N TAIL ".whole", in_turn<store_whole<T, PARTS, WHERE>>},
#define WHOLE(SPACE, WHERE)                        \
    WHOLE_TYPE(SPACE, WHERE, u32, "b32", 2, ".v2") \
    WHOLE_TYPE(SPACE, WHERE, u32, "b32", 4, ".v4") WHOLE_TYPE(SPACE, WHERE, u64, "b64", 2, ".v2")

const HandlerEntry kEntries[] = {
    WHOLE("global", Where::global) WHOLE("generic", Where::generic) SPACE("global", Where::global)
        SPACE("shared32", Where::shared32) SPACE("shared64", Where::shared64) SPACE("local", Where::local)
            SPACE("generic", Where::generic) KEPT("global", Where::global) KEPT("shared32", Where::shared32)
                KEPT("shared64", Where::shared64)};

}  // namespace

extern const HandlerTable kMemoryHandlers;
const HandlerTable kMemoryHandlers{kEntries, sizeof kEntries / sizeof kEntries[0]};

}  // namespace softgpu::SOFTGPU_ISA
