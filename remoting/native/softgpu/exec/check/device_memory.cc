#include "exec/check/device_memory.h"

#include <algorithm>
#include <new>

#include "exec/check/access.h"

namespace softgpu::check {
namespace {

KnownBlocksPtr join(const KnownBlocksPtr& a, const KnownBlocksPtr& b) {
    if (!b || a == b) return a;
    if (!a) return b;
    auto made = std::make_shared<KnownBlocks>();
    made->reserve(a->size() + b->size());
    auto one = a->begin(), other = b->begin();
    while (one != a->end() || other != b->end()) {
        if (other == b->end() || (one != a->end() && one->first < other->first)) {
            made->push_back(*one++);
        } else if (one == a->end() || other->first < one->first) {
            made->push_back(*other++);
        } else {
            made->emplace_back(one->first, std::max(one->second, other->second));
            ++one, ++other;
        }
    }
    return made;
}

bool has(const KnownBlocksPtr& known, uint32_t block, uint32_t time) {
    if (!known) return false;
    const auto found = std::lower_bound(known->begin(), known->end(), std::pair{block, uint32_t{0}});
    return found != known->end() && found->first == block && found->second >= time;
}

}  // namespace

void BlockKnowledge::reset(uint32_t number, uint32_t threads) {
    number_ = number;
    time_ = 1;
    before_barrier_ = 0;
    known_ = heard_ = nullptr;
    fences_.assign(threads, 0);
    pending_.assign(threads, nullptr);
    looks_.assign(threads, {});
}

bool BlockKnowledge::knows(uint32_t block, uint32_t time) const {
    return has(known_, block, time);
}

bool BlockKnowledge::has_heard(uint32_t block, uint32_t time) const {
    return has(heard_, block, time);
}

void BlockKnowledge::settle(uint32_t thread) {
    const Look look = std::exchange(looks_[thread], {});
    if (look.at) look.at->hear(*this, look.address, thread, look.access);
}

void BlockKnowledge::fence(uint32_t thread) {
    settle(thread);
    if (pending_[thread]) known_ = join(known_, std::exchange(pending_[thread], nullptr));
    fences_[thread] = time_++;
}

void BlockKnowledge::barrier(uint32_t first_thread, uint32_t lanes) {
    for (; lanes != 0; lanes &= lanes - 1) {
        const uint32_t thread = first_thread + uint32_t(__builtin_ctz(lanes));
        settle(thread);
        if (pending_[thread]) known_ = join(known_, std::exchange(pending_[thread], nullptr));
        before_barrier_ = std::max(before_barrier_, fences_[thread]);
    }
}

void LeftByBlocks::read(BlockKnowledge& block, uint64_t address, uint32_t thread, uint32_t access) {
    if (!asked()) asked_.store(true, std::memory_order_relaxed);
    hear(block, address, thread, access);
    block.looks_[thread] = {this, address, access};
}

void LeftByBlocks::hear(BlockKnowledge& block, uint64_t address, uint32_t thread, uint32_t access) {
    if (!any_.load(std::memory_order_acquire)) return;
    KnownBlocksPtr left, said;
    {
        const std::lock_guard lock(mutex_);
        if (const auto found = left_.find(address); found != left_.end()) left = found->second;
        if (const auto found = said_.find(address); found != said_.end()) said = found->second;
    }
    KnownBlocksPtr& into = access & acquires ? block.known_ : block.pending_[thread];
    into = join(into, left);
    if (access & passes) block.heard_ = join(block.heard_, said);
}

void LeftByBlocks::wrote(BlockKnowledge& block, uint64_t address, uint32_t thread, uint32_t access) {
    if (lost()) return;
    const uint32_t now = access & (releases | passes) ? block.time_++ : 0;
    const uint32_t time = access & releases ? now : std::max(block.fences_[thread], block.before_barrier_);
    const std::lock_guard lock(mutex_);
    if (time != 0) leave(left_, address, block.known_, block.number_, time);
    if (access & passes) leave(said_, address, block.heard_, block.number_, now);
}

void LeftByBlocks::leave(Left& left, uint64_t address, const KnownBlocksPtr& known, uint32_t block,
                         uint32_t time) {
    if (left.size() >= kMostAddresses && !left.contains(address)) return lost_.store(true);
    KnownBlocksPtr& here = left[address];
    entries_ -= here ? here->size() : 0;
    here = join(join(here, known), std::make_shared<const KnownBlocks>(1, std::pair{block, time}));
    entries_ += here->size();
    if (entries_ > kMostEntries) lost_.store(true);
    any_.store(true, std::memory_order_release);
}

DeviceAccesses::Page* DeviceAccesses::page(uint64_t number) {
    const std::lock_guard lock(mutex_);
    const auto found = pages_.find(number);
    if (found != pages_.end()) return found->second.get();
    Room room;
    if (!room.take(sizeof(Page))) {
        full_.store(true, std::memory_order_relaxed);
        return nullptr;
    }
    auto& page = pages_[number] = std::make_unique<Page>();
    page->room = std::move(room);
    return page.get();
}

}  // namespace softgpu::check
