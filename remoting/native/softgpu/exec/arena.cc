#include "exec/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace softgpu {
namespace {

constexpr size_t kIdleBytes = 64u << 20;  // larger ranges go back to the host after a launch

}  // namespace

bool Arena::Range::grow(size_t wanted) {
    if (wanted <= bytes) return true;
    release();
    wanted = (wanted + 65535) / 65536 * 65536;
    void* fresh =
        mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fresh == MAP_FAILED) return false;
    base = static_cast<std::byte*>(fresh);
    bytes = wanted;
    return true;
}

void Arena::Range::release() {
    if (base != nullptr) munmap(base, bytes);
    base = nullptr;
    bytes = 0;
}

Arena::~Arena() {
    finish();
    for (Range* range : {&warps_, &slots_, &shared_, &local_}) range->release();
}

namespace {

// For all 32 lanes, whichever exist: the instructions are pure, so that what the others hold does no harm.
void run_prologue(Warp* warp) {
    const LaunchState* launch = warp->block->launch;
    const Op* const ops = launch->image->ops.data();
    const Op* const end = ops + launch->function->first;
    warp->mask = warp->live = kAllLanes;
    warp->partial = 0;
    for (const Op* op = ops + launch->function->prologue; op < end;) op = op->fn(op, warp);
}

}  // namespace

bool Arena::prepare(LaunchState* launch, uint32_t multiprocessor) {
    const Function* function = launch->function;
    const uint64_t threads = uint64_t(launch->warps) * kLanes;
    // Odd multiples of a cache line keep the warps' same registers out of the same cache sets.
    const size_t stride = (function->slot_bytes + 127) / 128 * 128 + 64;
    const size_t scratch = kLanes * 8;
    if (!warps_.grow(sizeof(Warp) * launch->warps) || !slots_.grow((stride + scratch) * launch->warps) ||
        !shared_.grow(std::max<size_t>(launch->shared_bytes, 64)) ||
        !local_.grow(std::max<size_t>(threads * launch->local_stride, 64))) {
        return false;
    }
    block_.launch = launch;
    block_.multiprocessor = multiprocessor;
    block_.shared = shared_.base;
    block_.shared_bytes = launch->shared_bytes;
    block_.local = local_.base;
    block_.local_stride = launch->local_stride;
    block_.params = launch->launch->params.data();
    block_.param_bytes = launch->info->param_bytes;
    block_.warp_count = launch->warps;
    block_.warps = reinterpret_cast<Warp*>(warps_.base);
    block_.cache_generation = 0;
    block_.sums = &sums_;
    block_.textures = &textures_;
    sums_.forced = 0;
    for (uint32_t w = 0; w < launch->warps; ++w) {
        Warp& warp = block_.warps[w];
        warp = Warp{};
        warp.block = &block_;
        warp.index = w;
        const uint32_t lanes = std::min(launch->threads - w * kLanes, kLanes);
        warp.born = lanes == kLanes ? kAllLanes : (1u << lanes) - 1;
        warp.scratch = slots_.base + w * (stride + scratch);
        warp.root.function = function;
        warp.root.slots = warp.scratch + scratch;
        warp.frame = &warp.root;
        warp.slots = warp.root.slots;
        fill_constants(&warp, &warp.root, function->constants);
        run_prologue(&warp);
    }
    return true;
}

void Arena::start_block(uint64_t number) {
    const LaunchState* launch = block_.launch;
    const Dim3 grid = launch->launch->grid;
    block_.x = uint32_t(number % grid.x);
    block_.y = uint32_t(number / grid.x % grid.y);
    block_.z = uint32_t(number / grid.x / grid.y);
    block_.warps_exited = 0;
    const uint64_t generation = launch->memory->generation();
    if (block_.cache_generation != generation) {
        block_.cache_generation = generation;
        for (CachedRange& range : block_.cache) range = {1, 0, 0};
    }
    block_.barriers_used = 0;
    for (uint32_t w = 0; w < block_.warp_count; ++w) {
        Warp& warp = block_.warps[w];
        warp.live = warp.born;
        warp.carry = 0;
        warp.rotate = false;
        warp.frame_bytes = 0;
        warp.split_count = 0;
        warp.frame = &warp.root;
        warp.slots = warp.root.slots;
    }
    fill_block_constants(&block_, launch->function);
    start_ = &launch->image->ops[launch->function->first];
}

Progress Arena::run() {
    return run_block(&block_, std::exchange(start_, nullptr));
}

void Arena::finish() {
    for (uint32_t w = 0; w < block_.warp_count; ++w) free_frames(&block_.warps[w]);
    block_.warp_count = 0;
    textures_.clear();
    for (Range* range : {&slots_, &local_}) {
        if (range->bytes > kIdleBytes) range->release();
    }
}

}  // namespace softgpu
