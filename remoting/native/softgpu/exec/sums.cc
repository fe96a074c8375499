#include "exec/sums.h"

namespace softgpu {
namespace {

template <class T>
void add(Sums& sums) {
    T* const gathered = reinterpret_cast<T*>(sums.gathered);
    T* const places = reinterpret_cast<T*>(sums.base);
    for (uint64_t i = 0; i < sums.bytes / sizeof(T); ++i) {
        if (gathered[i] == 0) continue;
        __atomic_fetch_add(&places[i], gathered[i], __ATOMIC_SEQ_CST);
        gathered[i] = 0;
    }
}

}  // namespace

void open_sums(Block* block, CachedRange range, uint32_t width) {
    Sums& sums = *block->sums;
    const uint64_t bytes = range.end - range.base;
    if (range.end <= range.base || bytes > kSumsBytes || range.base % 8 != 0 || sums.forced > kMostForced)
        return;
    if (sums.bytes != 0) settle_sums_of(block, sums.base, sums.base + 1);
    for (CachedRange& cached : block->cache) {
        if (cached.base < range.end && range.base < cached.end) cached = {1, 0, 0};
    }
    sums.base = range.base;
    sums.bytes = bytes;
    sums.width = width;
}

void settle_sums(Block* block) {
    Sums& sums = *block->sums;
    if (sums.bytes == 0) return;
    if (sums.width == 8)
        add<uint64_t>(sums);
    else
        add<uint32_t>(sums);
    sums.bytes = 0;
    sums.width = 0;
}

}  // namespace softgpu
