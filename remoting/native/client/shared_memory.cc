#include "shared_memory.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "call.h"
#include "calls_wire.h"
#include "session.h"
#include "thread.h"
#include "traffic.h"

namespace client {
namespace {

// What is taken to be changed together with a byte: nothing else, but in memory of which the host has changed
// many places, as one that is filled with numbers: its word, or, where no kernel may run meanwhile, what is
// near.
constexpr uint64_t kByte = 1, kWord = 4, kNear = 64;
constexpr int kManyPlaces = 256;

// The next run of units that differ, from `start` on, of one chunk at most: its bounds; both `bytes` when
// there is none.
std::pair<uint64_t, uint64_t> next_change(const std::byte* now, const std::byte* before, uint64_t start,
                                          uint64_t bytes, uint64_t unit) {
    constexpr uint64_t kBlock = 4096;
    const uint64_t from = start;
    while (start < bytes) {
        const uint64_t block = std::min(kBlock, bytes - start);
        if (std::memcmp(now + start, before + start, block) != 0) break;
        start += block;
    }
    while (start < bytes && now[start] == before[start]) ++start;
    if (start >= bytes) return {bytes, bytes};
    const uint64_t into_unit = reinterpret_cast<uintptr_t>(now + start) % unit;
    start -= std::min(into_unit, start - from);
    uint64_t stop = std::min(bytes, start + unit - reinterpret_cast<uintptr_t>(now + start) % unit);
    const uint64_t end = std::min<uint64_t>(bytes, start + wire::kChunk);
    while (stop < end) {
        const uint64_t next = std::min(unit, end - stop);
        if (std::memcmp(now + stop, before + stop, next) == 0) break;
        stop += next;
    }
    return {start, stop};
}

// Puts what differs of `now` and `before` to the host: not over what the host has changed since `before`. One
// byte after the other, since the host may be changing its neighbours at this moment.
void put_changes(std::byte* host, const std::byte* before, const std::byte* now, uint64_t bytes) {
    for (uint64_t at = 0; at < bytes;) {
        const auto [start, stop] = next_change(now, before, at, bytes, kNear);
        for (at = start; at < stop; ++at) {
            if (now[at] == before[at]) continue;
            const std::atomic_ref<std::byte> byte(host[at]);
            if (byte.load(std::memory_order_relaxed) == before[at])
                byte.store(now[at], std::memory_order_relaxed);
        }
    }
}

}  // namespace

SharedMemory& SharedMemory::get() {
    static auto* shared = new SharedMemory;
    return *shared;
}

void SharedMemory::add(void* host, uint64_t device_address, uint64_t bytes, uint8_t device, Host does) {
    const std::scoped_lock lock(moving_, mutex_);
    regions_.push_back({host, device_address, bytes, device, does == Host::works_beside});
    count_.store(regions_.size(), std::memory_order_release);
}

void SharedMemory::let(void* host, Host does) {
    const std::scoped_lock lock(moving_, mutex_);
    for (Region& region : regions_) {
        if (region.host != host) continue;
        region.host_works_beside = does == Host::works_beside;
        const auto* const now = static_cast<const std::byte*>(host);
        if (region.host_works_beside && region.on_device && region.shown.empty())
            region.shown.assign(now, now + region.bytes);  // what differs of that from now on is the host's
    }
}

void SharedMemory::remove(void* host) {
    const std::scoped_lock lock(moving_, mutex_);
    std::erase_if(regions_, [host](const Region& region) { return region.host == host; });
    count_.store(regions_.size(), std::memory_order_release);
}

CUresult SharedMemory::to_device(Call& call) {
    std::unique_lock moving(moving_);
    if (call.begin_use()) users_.fetch_add(1, std::memory_order_relaxed);
    if (const CUresult late = take_late()) return late;
    for (auto region = regions_.begin(); region != regions_.end();) {
        const bool uses = region->device == call.device();
        const uint64_t first = uses ? first_change(*region) : region->bytes;
        if (first < region->bytes && !call.nothing_before()) {
            moving.unlock();
            if (CUresult error = wait_for_posted(call, region->device_address)) return error;
            moving.lock();
            region = regions_.begin();
            continue;
        }
        if (CUresult error = uses ? send(call, *region, first) : CUDA_SUCCESS) return error;
        ++region;
    }
    return CUDA_SUCCESS;
}

std::vector<SharedMemory::Unsent> SharedMemory::unsent(uint8_t device) {
    std::vector<Unsent> found;
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return found;
    for (Region& region : regions_) {
        if (region.told || region.device != device || !region.on_device || region.shown.empty()) continue;
        const auto* const host = static_cast<const std::byte*>(region.host);
        const uint64_t first = next_change(host, region.shown.data(), 0, region.bytes, kByte).first;
        if (first == region.bytes) continue;
        region.told = true;
        found.push_back({region.host, region.bytes, first});
    }
    return found;
}

// Where that begins which the host has changed, or has: at the end where there is nothing.
uint64_t SharedMemory::first_change(const Region& region) {
    if (!region.on_device) return 0;
    const std::lock_guard lock(mutex_);
    if (region.shown.empty()) return region.bytes;
    const auto* const host = static_cast<const std::byte*>(region.host);
    return next_change(host, region.shown.data(), 0, region.bytes, kByte).first;
}

// What the thread has posted may wait for a function, as a copy may, and the function for
// other threads: no lock is held. Any answer to a look says that there is nothing before it any more.
CUresult SharedMemory::wait_for_posted(Call& call, uint64_t somewhere) {
    std::byte any;
    call.look(somewhere, &any, sizeof any);
    return Session::get().error();
}

CUresult SharedMemory::send(Call& call, Region& region, uint64_t first) {
    if (!region.on_device) return send_all(call, region);
    const std::lock_guard lock(mutex_);
    return hide(call, region, first);
}

// A region of the host goes to the device, in the way that functions change it there: a copy in a stream
// might come after what a function has given since. What the host may change meanwhile is copied, to find
// that by. Where a function has come meanwhile it is sent once more, from a copy. What cannot be sent stays
// the host's.
CUresult SharedMemory::send_all(Call& call, Region& region) {
    const auto* const host = static_cast<const std::byte*>(region.host);
    for (bool copied = region.host_works_beside;; copied = true) {
        std::vector<std::byte> sent;
        uint64_t version = 0;
        {
            const std::lock_guard lock(mutex_);
            forget_ended(region);
            if (copied || !region.seen_by.empty()) sent.assign(host, host + region.bytes);
            version = region.version;
        }
        // Without mutex_: functions go on meanwhile.
        const std::byte* const from = sent.empty() ? host : sent.data();
        if (CUresult error = call.give(region.device_address, from, region.bytes)) return error;
        const std::lock_guard lock(mutex_);
        if (sent.empty() && (!region.seen_by.empty() || region.version != version)) continue;
        region.on_device = true;
        region.shown = std::move(sent);
        // Of functions that have ended meanwhile, too.
        const CUresult result = send_changes(call, region);
        forget_unwatched(region, result);
        return result;
    }
}

// With mutex_ held. Nothing more comes from threads that have ended; what they changed is sent with the rest.
void SharedMemory::forget_ended(Region& region) {
    std::erase_if(region.seen_by, [](uint64_t thread) { return !Thread::lives(thread); });
}

// With mutex_ held. What was shown is of no use when nobody changes the region any more, and all was sent.
void SharedMemory::forget_unwatched(Region& region, CUresult sent) {
    const bool watched = region.host_works_beside || !region.seen_by.empty();
    if (sent == CUDA_SUCCESS && !watched) region.shown = {};
}

CUresult SharedMemory::to_device_for(Call& call, uint64_t device_address) {
    if (!any()) return CUDA_SUCCESS;
    {
        const std::lock_guard lock(mutex_);
        const bool shared = std::any_of(regions_.begin(), regions_.end(), [&](const Region& region) {
            return device_address - region.device_address < region.bytes;
        });
        if (!shared) return CUDA_SUCCESS;
    }
    return to_device(call);
}

// What a call of another thread is about to submit, or a function of the program is using, stays with the
// device.
CUresult SharedMemory::to_host(Call& call) {
    auto theirs = [&](const Region& region) { return region.on_device && region.device == call.device(); };
    {
        const std::lock_guard moving(moving_);
        if (std::none_of(regions_.begin(), regions_.end(), theirs)) return take_late();
    }
    // Without moving_: what is waited for may be a function, and that may wait for a call of another thread.
    // What the program is to be told stays for its own calls.
    const uint64_t posted = Session::get().posted();
    if (CUresult error = call.ask(wire::kOpWaitForDevice, 0, nullptr, 0, nullptr, 0)) return error;
    const std::lock_guard moving(moving_);
    const bool is_used = users_.load(std::memory_order_acquire) != (call.uses_shared() ? 1 : 0);
    const bool at_rest = !is_used && Session::get().posted() == posted;
    for (Region& region : regions_) {
        if (!theirs(region)) continue;
        uint64_t version = 0;
        {
            const std::lock_guard lock(mutex_);
            if (CUresult error = send_changes(call, region)) return error;
            version = region.version;
        }
        std::vector<std::byte> now(region.bytes);
        if (CUresult error = call.look(region.device_address, now.data(), region.bytes)) return error;
        const std::lock_guard lock(mutex_);
        region.seen_by.erase(Thread::current().number);
        // A function may have come and gone: what it changed is not in `now`.
        if (!at_rest || !region.seen_by.empty() || region.version != version) {
            if (CUresult error = show(call, region)) return error;
            continue;
        }
        put(region, now);
        region.on_device = false;
        region.shown = {};
    }
    return take_late();
}

// With mutex_ held. What comes from the device goes only to where the host has what was shown or sent before:
// the rest another thread has changed meanwhile, and it is sent when that is done.
void SharedMemory::put(Region& region, const std::vector<std::byte>& now) {
    auto* const host = static_cast<std::byte*>(region.host);
    if (region.shown.empty()) {
        std::memcpy(host, now.data(), region.bytes);
    } else {
        put_changes(host, region.shown.data(), now.data(), region.bytes);
    }
}

// With mutex_ held; a region that the device has. What could not be sent is still the host's afterwards.
// Where nothing could be fetched the host goes on with what it has, and what it changes of that is known.
CUresult SharedMemory::show(Call& call, Region& region) {
    const CUresult sent = send_changes(call, region);
    std::vector<std::byte> now(region.bytes);
    const CUresult fetched = call.look(region.device_address, now.data(), region.bytes);
    if (fetched == CUDA_SUCCESS) {
        put(region, now);
        region.shown = std::move(now);
    } else if (region.shown.empty()) {
        const auto* const host = static_cast<const std::byte*>(region.host);
        region.shown.assign(host, host + region.bytes);
    }
    region.seen_by.insert(Thread::current().number);
    ++region.version;
    return sent == CUDA_SUCCESS ? fetched : sent;
}

// With mutex_ held. What is sent was copied before: the host may change it meanwhile, and that is sent
// another time. What could not be sent differs from `shown` as before.
CUresult SharedMemory::send_changes(Call& call, Region& region, uint64_t from) {
    forget_ended(region);
    const auto* const host = static_cast<const std::byte*>(region.host);
    std::byte* const shown = region.shown.data();
    std::vector<std::byte> changed;
    int places = 0;
    for (uint64_t at = from; at < region.shown.size(); ++places) {
        const uint64_t coarse = region.host_works_beside ? kWord : kNear;
        const uint64_t unit = places < kManyPlaces ? kByte : coarse;
        const auto [start, stop] = next_change(host, shown, at, region.shown.size(), unit);
        changed.assign(host + start, host + stop);
        if (start < stop) {
            if (CUresult error = call.give(region.device_address + start, changed.data(), changed.size()))
                return error;
        }
        std::copy(changed.begin(), changed.end(), shown + start);
        at = stop;
    }
    return CUDA_SUCCESS;
}

// With mutex_ held. The calling thread has done with what it was shown.
CUresult SharedMemory::hide(Call& call, Region& region, uint64_t from) {
    const CUresult sent = send_changes(call, region, from);
    region.seen_by.erase(Thread::current().number);
    forget_unwatched(region, sent);
    ++region.version;
    return sent;
}

CUresult SharedMemory::show(Call& call) {
    const std::lock_guard lock(mutex_);
    CUresult result = take_late();
    for (Region& region : regions_) {
        if (region.device != call.device() || !region.on_device) continue;
        if (const CUresult error = show(call, region)) result = error;
    }
    return result;
}

// A function uses what the host has, too.
void SharedMemory::show_function(Call& call) {
    const std::lock_guard lock(mutex_);
    for (Region& region : regions_) {
        region.seen_by.insert(Thread::current().number);
        if (!region.on_device) continue;
        call.use_device(region.device);
        if (const CUresult error = show(call, region)) late_.store(error);
    }
}

void SharedMemory::take_changes(Call& call) {
    const std::lock_guard lock(mutex_);
    for (Region& region : regions_) {
        call.use_device(region.device);
        if (const CUresult error = hide(call, region)) late_.store(error);
    }
}

// What a function was not shown, or has not brought, nobody was there to be told of: the next call is that
// uses shared memory, or waits.
CUresult SharedMemory::take_late() {
    return static_cast<CUresult>(late_.exchange(CUDA_SUCCESS));
}

void SharedMemory::forget(uint64_t device_address) {
    const std::scoped_lock lock(moving_, mutex_);
    std::erase_if(regions_, [&](const Region& region) { return region.device_address == device_address; });
    count_.store(regions_.size(), std::memory_order_release);
}

void SharedMemory::forget_life() {
    const std::scoped_lock lock(moving_, mutex_);
    regions_.clear();
    late_.store(CUDA_SUCCESS);
    count_.store(0, std::memory_order_release);
}

}  // namespace client
