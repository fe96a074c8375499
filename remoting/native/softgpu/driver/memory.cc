#include "memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <string>
#include <vector>

#include "driver.h"
#include "exec/check/budget.h"
#include "exec/check/unwritten.h"
#include "pool.h"
#include "session.h"

namespace softgpu::driver {
namespace {

// Managed memory has its pages to itself, so that a forwarded program can have them too.
constexpr uint64_t kManagedAlign = 4096;

// Pinned memory with a page behind it that nobody may touch: what runs over its end meets no other's.
constexpr uint64_t kPage = 4096;
uint64_t with_guard(uint64_t bytes) {
    return (bytes + kPage - 1) / kPage * kPage + kPage;
}

void* map_pinned(uint64_t bytes) {
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS;
    if (bytes > UINT64_MAX - 2 * kPage) refuse(gk_no_pinned_memory(bytes));
    void* memory = mmap(nullptr, with_guard(bytes), PROT_NONE, kFlags, -1, 0);
    if (memory == MAP_FAILED) refuse(gk_no_pinned_memory(bytes));
    if (mprotect(memory, with_guard(bytes) - kPage, PROT_READ | PROT_WRITE) == 0) return memory;
    munmap(memory, with_guard(bytes));
    refuse(gk_no_pinned_memory(bytes));
}

void tell_of_no_room(uint64_t bytes, const std::string& why) {
    const std::string mib = std::to_string((bytes + (1 << 20) - 1) >> 20);
    current_session()->tell(kGkTextFault,
                            "an allocation of " + mib + " MiB finds no room while " + why + "\n");
}

void tell_of_calls(uint64_t bytes) {
    tell_of_no_room(
        bytes,
        "library calls of other programs work in what is left of the slice; it may when they are done");
}

void tell_of_values(uint64_t bytes) {
    tell_of_no_room(
        bytes,
        "a stream waits for a value in memory (cuStreamWaitValue); what is freed behind that comes "
        "back when the value is there");
}

// For a value that a stream waits for, before an allocation is refused.
constexpr std::chrono::seconds kPatience{1};

}  // namespace

Memory::Memory(std::span<const DeviceConfig> devices, Scheduler& scheduler)
    : scheduler_(scheduler), addresses_(scheduler) {
    uint64_t total = 0;
    for (const DeviceConfig& device : devices) {
        spaces_.push_back(DeviceMemory::create(device.memory_bytes));
        require(spaces_.back() != nullptr, CUDA_ERROR_OUT_OF_MEMORY);
        accounts_.emplace_back(*spaces_.back());
        total += device.memory_bytes;
    }
    check::Budget::get().set_device_bytes(total);
}

std::optional<Allocation> Memory::allocation_at(uint64_t address) const {
    for (const auto& space : spaces_) {
        if (const auto allocation = space->find(address)) return allocation;
    }
    return std::nullopt;
}

int Memory::device_at(uint64_t address) const {
    if (const auto mapping = addresses_.find(address)) return mapping->physical->device;
    const auto in = [address](const auto& space) { return space->find(address).has_value(); };
    const auto found = std::find_if(spaces_.begin(), spaces_.end(), in);
    return found == spaces_.end() ? 0 : static_cast<int>(found - spaces_.begin());
}

bool Memory::map_host(void* memory, uint64_t bytes) {
    for (size_t i = 0; i < spaces_.size(); ++i) {
        if (spaces_[i]->map_host(memory, bytes)) continue;
        while (i-- > 0) spaces_[i]->unmap_host(memory);
        return false;
    }
    return true;
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

bool Memory::find_room(int device, const std::function<bool()>& again) {
    std::chrono::nanoseconds patience = kPatience;
    return find_room(device, again, patience);
}

bool Memory::find_room(int device, const std::function<bool()>& again, std::chrono::nanoseconds& patience) {
    if (again()) return true;
    if (Scheduler::in_callback()) return false;  // which must not wait
    if (call_budget_.wait_for_own(account(device), current_session().get(), again)) return true;
    return wait_for_frees(device, again, patience);
}

void Memory::freed_later(int device, CompletionRef end, std::shared_ptr<Queue> queue) {
    const std::lock_guard lock(frees_mutex_);
    if (frees_.size() >= frees_full_) {
        std::erase_if(frees_, [](const LaterFree& free) { return free.end->done(); });
        frees_full_ = std::max(kFreesLeast, 2 * frees_.size());
    }
    frees_.push_back({current_session().get(), device, std::move(end), std::move(queue)});
}

// Those of others need not end.
bool Memory::wait_for_frees(int device, const std::function<bool()>& again,
                            std::chrono::nanoseconds& patience) {
    std::vector<LaterFree> own;
    {
        const std::lock_guard lock(frees_mutex_);
        std::copy_if(frees_.begin(), frees_.end(), std::back_inserter(own), [&](const LaterFree& free) {
            return free.session == current_session().get() && free.device == device && !free.end->done();
        });
    }
    return std::any_of(own.begin(), own.end(), [&](const LaterFree& free) {
        return scheduler_.wait_unless_for_value(free.end, free.queue, patience) && again();
    });
}

uint64_t Memory::place_at(int device, uint64_t bytes, uint64_t align) {
    DeviceMemory& memory = space(device);
    uint64_t base = 0;
    find_room(device, [&] { return (base = memory.allocate(bytes, align)) != 0; });
    return base;
}

// 0 where there is none, also when the context's work has ended.
uint64_t Memory::place_after_work(Context& context, int device, uint64_t bytes, uint64_t align) {
    DeviceMemory& memory = space(device);
    uint64_t base = 0;
    std::chrono::nanoseconds patience = kPatience;
    find_room(device, [&] { return (base = memory.allocate(bytes, align)) != 0; }, patience);
    // Work of others need not end, and what their calls have is theirs until then.
    const bool is_worked_in = bytes <= memory.total_bytes() - memory.used_bytes();
    bool is_behind_value = false;
    if (base == 0 && !is_worked_in && !Scheduler::in_callback()) {
        is_behind_value = !scheduler_.drain_unless_for_value(context.group, patience);
        base = memory.allocate(bytes, align);
    }
    if (base == 0 && is_worked_in) tell_of_calls(bytes);
    if (base == 0 && is_behind_value) tell_of_values(bytes);
    return base;
}

uint64_t Memory::place_or_refuse(Context& context, uint64_t bytes) {
    const int device = context.device;
    require(bytes <= space(device).total_bytes(), CUDA_ERROR_OUT_OF_MEMORY);
    const uint64_t base = place_after_work(context, device, bytes, kAlign);
    require(base != 0, CUDA_ERROR_OUT_OF_MEMORY);
    return base;
}

uint64_t Memory::allocate(Context& context, uint64_t bytes, Place place, std::shared_ptr<Pool> pool) {
    require(bytes > 0);
    const int device = pool ? pool->device : context.device;
    DeviceMemory& memory = space(device);
    if (bytes > memory.total_bytes() || (pool && !pool->take(bytes))) refuse(CUDA_ERROR_OUT_OF_MEMORY);
    const uint64_t align = place == Place::managed ? kManagedAlign : kAlign;
    const uint64_t base = place_after_work(context, device, bytes, align);
    if (base == 0) {
        if (pool) pool->give_back(bytes);
        refuse(CUDA_ERROR_OUT_OF_MEMORY);
    }
    const bool looked_at = current_session()->checks.load(std::memory_order_relaxed) & kGkCheckInit;
    if (looked_at && place != Place::managed) check::Unwritten::get().allocated(base, bytes);
    return add(context,
               {.base = base, .bytes = bytes, .place = place, .pool = std::move(pool), .device = device});
}

bool Memory::use_file(int descriptor, uint64_t bytes) {
    bool first = false;
    std::call_once(file_given_, [&] {
        file_ = std::make_unique<SliceFile>(descriptor, bytes);
        file_in_use_.store(file_.get(), std::memory_order_release);
        first = true;
    });
    return first;
}

uint64_t Memory::allocate_in_file(Context& context, uint64_t bytes, uint64_t& place) {
    SliceFile* const file = file_in_use_.load(std::memory_order_acquire);
    require(file && bytes > 0, CUDA_ERROR_OUT_OF_MEMORY);
    DeviceMemory& memory = space(context.device);
    const uint64_t base = place_at(context.device, bytes, SliceFile::kPage);  // its pages are its own
    require(base != 0, CUDA_ERROR_OUT_OF_MEMORY);
    const auto in_file = file->lay(base, bytes);
    if (!in_file) {
        memory.free(base);
        refuse(CUDA_ERROR_OUT_OF_MEMORY);
    }
    place = *in_file;
    return add(
        context,
        {.base = base, .bytes = bytes, .place = Place::device, .device = context.device, .in_file = in_file});
}

uint64_t Memory::file_bytes() const {
    const SliceFile* const file = file_in_use_.load(std::memory_order_acquire);
    return file ? file->taken() : 0;
}

void Memory::sweep_file() {
    if (SliceFile* const file = file_in_use_.load(std::memory_order_acquire)) file->sweep();
}

void* Memory::allocate_pinned(Context& context, uint64_t bytes, unsigned flags) {
    require(bytes > 0);
    void* memory = map_pinned(bytes);
    if (!map_host(memory, bytes)) {
        munmap(memory, with_guard(bytes));
        refuse(CUDA_ERROR_OUT_OF_MEMORY);
    }
    add(context, {.base = reinterpret_cast<uint64_t>(memory),
                  .bytes = bytes,
                  .place = Place::pinned,
                  .flags = flags,
                  .device = context.device});
    return memory;
}

void Memory::register_host(Context& context, void* memory, uint64_t bytes, unsigned flags) {
    require(memory != nullptr && bytes > 0);
    const auto base = reinterpret_cast<uint64_t>(memory);
    require(!find(base), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    require(map_host(memory, bytes));
    add(context,
        {.base = base, .bytes = bytes, .place = Place::registered, .flags = flags, .device = context.device});
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
        check::Unwritten::get().freed(block.base);
        // Its addresses stay mapped, so a kernel that still uses them finds a fault and does no harm.
        const bool own = !block.in_file || file_->lift(block.base, block.bytes, *block.in_file);
        if (own) space(block.device).free(block.base);
        if (block.pool) block.pool->give_back(block.bytes);
        return;
    }
    // A kernel that has looked the memory up may use it until it ends; a later one no longer finds it.
    scheduler_.drain_all();
    void* memory = reinterpret_cast<void*>(block.base);
    for (const auto& space : spaces_) space->unmap_host(memory);
    scheduler_.drain_all();
    if (block.place == Place::pinned) munmap(memory, with_guard(block.bytes));
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
    for (const auto& space : spaces_) {
        if (std::byte* memory = space->host_pointer(address, bytes)) return memory;
    }
    require(addresses_.accessible(address, bytes));
    return reinterpret_cast<std::byte*>(address);
}

}  // namespace softgpu::driver
