#include "memory.h"

#include <sys/mman.h>

#include <vector>

#include "driver.h"
#include "pool.h"

namespace softgpu::driver {

Memory::Memory(uint64_t total_bytes, Scheduler& scheduler)
    : scheduler_(scheduler), space_(DeviceMemory::create(total_bytes)) {
    require(space_ != nullptr, CUDA_ERROR_OUT_OF_MEMORY);
}

uint64_t Memory::add(const Context& context, Block block) {
    const std::lock_guard lock(mutex_);
    block.context = context.id;
    block.context_handle = context.handle;
    block.id = next_id_++;
    const uint64_t base = block.base;
    blocks_[base] = std::move(block);
    return base;
}

uint64_t Memory::allocate(Context& context, uint64_t bytes, Place place, std::shared_ptr<Pool> pool) {
    require(bytes > 0);
    if (bytes > space_->total_bytes() || (pool && !pool->take(bytes))) refuse(CUDA_ERROR_OUT_OF_MEMORY);
    uint64_t base = space_->allocate(bytes);
    if (base == 0 && !Scheduler::in_callback()) {
        scheduler_.drain(context.group);
        base = space_->allocate(bytes);
    }
    if (base == 0) {
        if (pool) pool->give_back(bytes);
        refuse(CUDA_ERROR_OUT_OF_MEMORY);
    }
    return add(context, {.base = base, .bytes = bytes, .place = place, .pool = std::move(pool)});
}

void* Memory::allocate_pinned(Context& context, uint64_t bytes, unsigned flags) {
    require(bytes > 0);
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(memory != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
    if (!space_->map_host(memory, bytes)) {
        munmap(memory, bytes);
        refuse(CUDA_ERROR_OUT_OF_MEMORY);
    }
    add(context,
        {.base = reinterpret_cast<uint64_t>(memory), .bytes = bytes, .place = Place::pinned, .flags = flags});
    return memory;
}

void Memory::register_host(Context& context, void* memory, uint64_t bytes, unsigned flags) {
    require(memory != nullptr && bytes > 0);
    const auto base = reinterpret_cast<uint64_t>(memory);
    require(!find(base), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    require(space_->map_host(memory, bytes));
    add(context, {.base = base, .bytes = bytes, .place = Place::registered, .flags = flags});
}

Block Memory::take(uint64_t base, bool (*fits)(const Block&)) {
    const std::lock_guard lock(mutex_);
    auto it = blocks_.find(base);
    require(it != blocks_.end() && fits(it->second));
    Block block = std::move(it->second);
    blocks_.erase(it);
    return block;
}

Block Memory::take_device(uint64_t base) {
    return take(base, [](const Block& block) { return block.on_device(); });
}

Block Memory::take_host(uint64_t base, Place place) {
    if (place == Place::pinned)
        return take(base, [](const Block& block) { return block.place == Place::pinned; });
    return take(base, [](const Block& block) { return block.place == Place::registered; });
}

void Memory::release(const Block& block) {
    if (block.on_device()) {
        // Its addresses stay mapped, so a kernel that still uses them finds a fault and does no harm.
        space_->free(block.base);
        if (block.pool) block.pool->give_back(block.bytes);
        return;
    }
    // A kernel that has looked the memory up may use it until it ends; a later one no longer finds it.
    scheduler_.drain_all();
    void* memory = reinterpret_cast<void*>(block.base);
    space_->unmap_host(memory);
    scheduler_.drain_all();
    if (block.place == Place::pinned) munmap(memory, block.bytes);
}

std::optional<Block> Memory::find(uint64_t address) const {
    const std::lock_guard lock(mutex_);
    auto after = blocks_.upper_bound(address);
    if (after == blocks_.begin()) return std::nullopt;
    const Block& block = std::prev(after)->second;
    if (address - block.base >= block.bytes) return std::nullopt;
    return block;
}

bool Memory::is_pinned(const void* memory, uint64_t bytes) const {
    const auto block = find(reinterpret_cast<uint64_t>(memory));
    return block && bytes <= block->bytes - (reinterpret_cast<uint64_t>(memory) - block->base);
}

void Memory::release_context(const Context& context) {
    std::vector<Block> gone;
    {
        const std::lock_guard lock(mutex_);
        for (auto it = blocks_.begin(); it != blocks_.end();) {
            if (it->second.context == context.id) {
                gone.push_back(std::move(it->second));
                it = blocks_.erase(it);
            } else {
                ++it;
            }
        }
    }
    for (const Block& block : gone) release(block);
}

std::byte* Memory::checked(uint64_t address, uint64_t bytes) const {
    std::byte* memory = space_->host_pointer(address, bytes);
    require(memory != nullptr);
    return memory;
}

}  // namespace softgpu::driver
