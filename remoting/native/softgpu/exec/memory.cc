// DeviceMemory: one reserved range of addresses, handed out first fit from a cursor that only moves forward
// until the range is used up. Freed ranges go back to the kernel and wait in `holes` until the cursor wraps.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <shared_mutex>

#include "engine.h"
#include "exec/ranges.h"
#include "exec/variables.h"

namespace softgpu {
namespace {

constexpr uint64_t kGranule = 512;
constexpr uint64_t kPage = 4096;
// Nobody's addresses behind each allocation: one step past the end of an array is found, and is not the first
// element of the next.
constexpr uint64_t kGap = kGranule;
constexpr uint64_t kMaxAlign = 2u << 20;
// Where device addresses start when nothing is in the way: far from where Linux puts programs and libraries,
// so that in a forwarded process they do not look like its own memory.
constexpr uint64_t kBaseHint = 0x2000'0000'0000;
// The range is this many times the memory, at least kMinRange, so that a freed address stays unused for long.
constexpr uint64_t kRangeFactor = 4;
constexpr uint64_t kMinRange = 1ull << 32;

constexpr uint64_t round_up(uint64_t value, uint64_t to) {
    return (value + to - 1) / to * to;
}

// Each device's range follows the one before, so that all of them lie there.
std::byte* reserve(uint64_t bytes) {
    static std::atomic<uint64_t> next{kBaseHint};
    void* hint = reinterpret_cast<void*>(next.load());
#ifdef __SANITIZE_THREAD__
    hint = nullptr;  // thread sanitizer accepts mappings in its own ranges only
#endif
    void* range =
        mmap(hint, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) return nullptr;
    if (range == hint) next.store(round_up(next.load() + bytes, kMaxAlign));
    return static_cast<std::byte*>(range);
}

// Kernels walk over large allocations. Only what is whole inside one gets huge pages, so none takes more of
// the host's memory than it counts for. A few are enough: each may split the host's list of ranges, which is
// limited.
constexpr uint64_t kLarge = 4u << 20, kHugePage = 2u << 20, kMostLarge = 4096;
void ask_for_huge_pages(uint64_t base, uint64_t bytes) {
    const uint64_t first = round_up(base, kHugePage), last = (base + bytes) / kHugePage * kHugePage;
    if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
}

}  // namespace

struct DeviceMemory::State {
    struct Entry {
        uint64_t bytes;
        uint64_t reserved;  // granules that count as used, 0 for host memory; the gap is behind them
        bool host;          // mapped with map_host
        Owner owner;        // who frees it
    };
    mutable std::shared_mutex mutex;
    std::map<uint64_t, Entry> live;  // by base
    Ranges unused;                   // of the device's range
    std::byte* range = nullptr;
    uint64_t range_bytes = 0;
    uint64_t total = 0;
    uint64_t used = 0;
    uint64_t taken = 0;  // without an address
    uint64_t cursor = 0;
    std::atomic<uint64_t> generation{1};

    ~State() {
        if (range != nullptr) munmap(range, range_bytes);
    }

    static Allocation as_allocation(const std::pair<const uint64_t, Entry>& entry) {
        return {entry.first, entry.second.bytes, entry.second.host};
    }

    const std::pair<const uint64_t, Entry>* holder(uint64_t address) const {
        auto after = live.upper_bound(address);
        if (after == live.begin()) return nullptr;
        const auto& candidate = *std::prev(after);
        return address - candidate.first < candidate.second.bytes ? &candidate : nullptr;
    }

    // Of what is no longer live, whole pages go back to the host: also the first and the last, where nothing
    // else lives in them. What is left of shared pages is cleared, so that the next user finds zeros.
    void discard(uint64_t base, uint64_t bytes) {
        const auto after = live.lower_bound(base);
        const uint64_t floor = base / kPage * kPage, ceiling = round_up(base + bytes, kPage);
        const bool shares_first =
            after != live.begin() && std::prev(after)->first + std::prev(after)->second.reserved > floor;
        const bool shares_last = after != live.end() && after->first < ceiling;
        const uint64_t first = shares_first ? round_up(base, kPage) : floor;
        const uint64_t last = shares_last ? (base + bytes) / kPage * kPage : ceiling;
        if (first >= last) {
            std::memset(reinterpret_cast<void*>(base), 0, bytes);
            return;
        }
        if (base < first) std::memset(reinterpret_cast<void*>(base), 0, first - base);
        if (last < base + bytes) std::memset(reinterpret_cast<void*>(last), 0, base + bytes - last);
        if (madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED) != 0) {
            std::memset(reinterpret_cast<void*>(first), 0, last - first);
        }
    }
};

DeviceMemory::DeviceMemory(std::unique_ptr<State> state) : state_(std::move(state)) {}
DeviceMemory::~DeviceMemory() = default;

std::unique_ptr<DeviceMemory> DeviceMemory::create(uint64_t total_bytes) noexcept try {
    auto state = std::make_unique<State>();
    state->total = total_bytes / kGranule * kGranule;
    if (state->total == 0 || state->total > (1ull << 44)) return nullptr;
    // Granules with a gap each, and what the largest alignment costs.
    const uint64_t smallest = round_up(2 * state->total, kMaxAlign) + kMaxAlign;
    uint64_t wanted = std::max(state->total * kRangeFactor, kMinRange);
    while ((state->range = reserve(wanted)) == nullptr) {
        if (wanted == smallest) return nullptr;
        wanted = std::max(wanted / 2, smallest);
    }
    state->range_bytes = wanted;
    const uint64_t base = reinterpret_cast<uint64_t>(state->range);
    // The first and last granules stay unused: an access that runs over an end meets no other device's
    // memory.
    state->cursor = base + kGranule;
    state->unused.give(state->cursor, wanted - 2 * kGranule);
    return std::unique_ptr<DeviceMemory>(new DeviceMemory(std::move(state)));
} catch (const std::bad_alloc&) {
    return nullptr;
}

uint64_t DeviceMemory::allocate(uint64_t bytes, uint64_t align) noexcept {
    return allocate(bytes, align, Owner::host);
}

uint64_t DeviceMemory::allocate_by_kernel(uint64_t bytes, uint64_t align) noexcept {
    return allocate(bytes, align, Owner::kernel);
}

uint64_t DeviceMemory::allocate(uint64_t bytes, uint64_t align, Owner owner) noexcept try {
    State& state = *state_;
    if (bytes == 0 || align == 0 || (align & (align - 1)) != 0 || align > kMaxAlign) return 0;
    const std::unique_lock lock(state.mutex);
    // What is taken is not handed out.
    const uint64_t left = state.total - state.used - state.taken;
    if (bytes > left) return 0;
    // What begins a page has its pages to itself.
    const uint64_t reserved = round_up(bytes, align >= kPage ? kPage : kGranule);
    if (reserved > left) return 0;
    align = std::max(align, kGranule);
    auto found = state.unused.take(state.cursor, reserved + kGap, align);
    if (!found) found = state.unused.take(0, reserved + kGap, align);
    if (!found) return 0;
    const uint64_t base = *found;
    state.live.emplace(base, State::Entry{bytes, reserved, false, owner});
    if (reserved >= std::max(kLarge, state.total / kMostLarge)) ask_for_huge_pages(base, reserved);
    state.used += reserved;
    state.cursor = base + reserved + kGap;
    state.generation.fetch_add(1, std::memory_order_release);
    return base;
} catch (const std::bad_alloc&) {
    return 0;
}

bool DeviceMemory::free(uint64_t base) noexcept {
    return free(base, Owner::host);
}

bool DeviceMemory::free_by_kernel(uint64_t base) noexcept {
    return free(base, Owner::kernel);
}

bool DeviceMemory::free(uint64_t base, Owner owner) noexcept try {
    State& state = *state_;
    const std::unique_lock lock(state.mutex);
    auto it = state.live.find(base);
    if (it == state.live.end() || it->second.host || it->second.owner != owner) return false;
    const uint64_t reserved = it->second.reserved;
    state.live.erase(it);
    state.used -= reserved;
    state.generation.fetch_add(1, std::memory_order_release);
    state.discard(base, reserved);
    state.unused.give(base, reserved + kGap);
    return true;
} catch (const std::bad_alloc&) {
    return true;  // freed; only its addresses are lost
}

bool DeviceMemory::take(uint64_t bytes) noexcept {
    State& state = *state_;
    const std::unique_lock lock(state.mutex);
    if (bytes > state.total - state.used - state.taken) return false;
    state.taken += bytes;
    return true;
}

void DeviceMemory::give_back(uint64_t bytes) noexcept {
    const std::unique_lock lock(state_->mutex);
    state_->taken -= bytes;
}

bool DeviceMemory::map_host(void* memory, uint64_t bytes) noexcept try {
    State& state = *state_;
    const uint64_t base = reinterpret_cast<uint64_t>(memory);
    if (base == 0 || bytes == 0 || bytes > UINT64_MAX - base || base + bytes > Windows::shared) return false;
    const std::unique_lock lock(state.mutex);
    const uint64_t range = reinterpret_cast<uint64_t>(state.range);
    if (base < range + state.range_bytes && base + bytes > range) return false;
    auto next = state.live.lower_bound(base);
    if (next != state.live.end() && next->first < base + bytes) return false;
    if (state.holder(base) != nullptr) return false;
    state.live.emplace(base, State::Entry{bytes, 0, true, Owner::host});
    state.generation.fetch_add(1, std::memory_order_release);
    return true;
} catch (const std::bad_alloc&) {
    return false;
}

bool DeviceMemory::unmap_host(void* memory) noexcept {
    State& state = *state_;
    const std::unique_lock lock(state.mutex);
    auto it = state.live.find(reinterpret_cast<uint64_t>(memory));
    if (it == state.live.end() || !it->second.host) return false;
    state.live.erase(it);
    state.generation.fetch_add(1, std::memory_order_release);
    return true;
}

std::optional<Allocation> DeviceMemory::find(uint64_t address) const noexcept {
    const std::shared_lock lock(state_->mutex);
    const auto* entry = state_->holder(address);
    if (entry == nullptr) return std::nullopt;
    return State::as_allocation(*entry);
}

std::optional<Allocation> DeviceMemory::nearest(uint64_t address) const noexcept {
    const std::shared_lock lock(state_->mutex);
    std::optional<Allocation> closest;
    uint64_t distance = UINT64_MAX;
    const auto consider = [&](const auto& entry) {
        const uint64_t end = entry.first + entry.second.bytes;
        const uint64_t away = address < entry.first ? entry.first - address
                              : address < end       ? 0
                                                    : address - end;
        const bool counts = away <= kGap || !is_variable(entry.first);
        if (!counts || away >= distance) return counts;
        closest = State::as_allocation(entry);
        distance = away;
        return true;
    };
    // Outwards to both sides, each until one counts; it is looked for after a fault only.
    const auto above = state_->live.upper_bound(address);
    for (auto it = above; it != state_->live.begin();) {
        if (consider(*--it)) break;
    }
    for (auto it = above; it != state_->live.end(); ++it) {
        if (consider(*it)) break;
    }
    return closest;
}

std::byte* DeviceMemory::host_pointer(uint64_t address, uint64_t bytes) const noexcept {
    const std::shared_lock lock(state_->mutex);
    const auto* entry = state_->holder(address);
    if (entry == nullptr || bytes > entry->second.bytes - (address - entry->first)) return nullptr;
    return reinterpret_cast<std::byte*>(address);
}

bool DeviceMemory::read(void* to, uint64_t from, uint64_t bytes) const noexcept {
    if (bytes == 0) return true;
    const std::byte* source = host_pointer(from, bytes);
    if (source == nullptr) return false;
    std::memcpy(to, source, bytes);
    return true;
}

bool DeviceMemory::write(uint64_t to, const void* from, uint64_t bytes) const noexcept {
    if (bytes == 0) return true;
    std::byte* target = host_pointer(to, bytes);
    if (target == nullptr) return false;
    std::memcpy(target, from, bytes);
    return true;
}

uint64_t DeviceMemory::total_bytes() const noexcept {
    return state_->total;
}

uint64_t DeviceMemory::used_bytes() const noexcept {
    const std::shared_lock lock(state_->mutex);
    return state_->used;
}

uint64_t DeviceMemory::generation() const noexcept {
    return state_->generation.load(std::memory_order_acquire);
}

}  // namespace softgpu
