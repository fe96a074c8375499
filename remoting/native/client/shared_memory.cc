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

CUresult look(Call& call, uint64_t address, std::byte* to, uint64_t bytes) {
    for (uint64_t done = 0; done < bytes;) {
        const auto chunk = static_cast<uint32_t>(std::min<uint64_t>(bytes - done, wire::kChunk));
        const wire::MemoryLook message{address + done, chunk, 0};
        if (CUresult error = call.ask(wire::kOpMemoryLook, 0, &message, sizeof message, to + done, chunk))
            return error;
        Traffic::get().copied(chunk);
        done += chunk;
    }
    return CUDA_SUCCESS;
}

CUresult give(Call& call, uint64_t address, const std::byte* from, uint64_t bytes) {
    for (uint64_t done = 0; done < bytes;) {
        const auto chunk = static_cast<uint32_t>(std::min<uint64_t>(bytes - done, wire::kChunk));
        wire::MemoryLook message{address + done, chunk, 1};
        const iovec parts[2] = {{&message, sizeof message}, {const_cast<std::byte*>(from) + done, chunk}};
        std::span<const std::byte> nothing;
        if (CUresult error = call.ask_parts(wire::kOpMemoryLook, 0, parts, 2, nothing)) return error;
        Traffic::get().copied(chunk);
        done += chunk;
    }
    return CUDA_SUCCESS;
}

// The next run of bytes that differ, from `start` on: its bounds; both `bytes` when there is none.
std::pair<uint64_t, uint64_t> next_change(const std::byte* now, const std::byte* before, uint64_t start,
                                          uint64_t bytes) {
    constexpr uint64_t kBlock = 4096;
    while (start < bytes) {
        const uint64_t block = std::min(kBlock, bytes - start);
        if (std::memcmp(now + start, before + start, block) != 0) break;
        start += block;
    }
    while (start < bytes && now[start] == before[start]) ++start;
    uint64_t stop = start;
    while (stop < bytes && now[stop] != before[stop]) ++stop;
    return {start, stop};
}

// Puts what differs of `now` and `before` to the host, a word at a time: not over what the host has changed
// since `before`, also at this moment.
void put_changes(std::byte* host, const std::byte* before, const std::byte* now, uint64_t bytes) {
    const auto put = [&]<typename Word>(uint64_t at, Word) {
        Word was, is;
        std::memcpy(&was, before + at, sizeof was);
        std::memcpy(&is, now + at, sizeof is);
        if (was == is) return;
        const std::atomic_ref<Word> word(*reinterpret_cast<Word*>(host + at));
        Word found = word.load(), merged;
        do {
            // Byte by byte: the device's where the host has what was there.
            auto* const to = reinterpret_cast<std::byte*>(&merged);
            const auto* const old = reinterpret_cast<const std::byte*>(&found);
            for (size_t i = 0; i < sizeof merged; ++i)
                to[i] = old[i] == before[at + i] ? now[at + i] : old[i];
        } while (!word.compare_exchange_weak(found, merged));
    };
    uint64_t at = 0;
    const auto is_whole = [&] { return reinterpret_cast<uintptr_t>(host + at) % sizeof(uint64_t) == 0; };
    for (; at < bytes && !is_whole(); ++at) put(at, uint8_t{});
    for (; at + sizeof(uint64_t) <= bytes; at += sizeof(uint64_t)) put(at, uint64_t{});
    for (; at < bytes; ++at) put(at, uint8_t{});
}

}  // namespace

SharedMemory& SharedMemory::get() {
    static auto* shared = new SharedMemory;
    return *shared;
}

void SharedMemory::add(void* host, uint64_t device_address, uint64_t bytes, uint8_t device) {
    const std::scoped_lock lock(moving_, mutex_);
    regions_.push_back({host, device_address, bytes, device});
    count_.store(regions_.size(), std::memory_order_release);
}

void SharedMemory::remove(void* host) {
    const std::scoped_lock lock(moving_, mutex_);
    std::erase_if(regions_, [host](const Region& region) { return region.host == host; });
    count_.store(regions_.size(), std::memory_order_release);
}

void SharedMemory::to_device(Call& call) {
    const std::lock_guard moving(moving_);
    if (call.begin_use()) users_.fetch_add(1, std::memory_order_relaxed);
    for (Region& region : regions_) {
        if (region.device != call.device()) continue;
        if (region.on_device) {
            const std::lock_guard lock(mutex_);
            hide(call, region);
            continue;
        }
        // A failure is the session's, and is returned by the call that follows: nothing may go on with what
        // was there before.
        for (bool copied = false; !send(call, region, copied); copied = true) {
            if (Session::get().error() != CUDA_SUCCESS) return;
        }
    }
}

// A region of the host goes to the device, in the way that functions change it there: a copy in a stream
// might come after what a function has given since. A function that is using it will change more: of what is
// sent a copy is kept, to find that by. False when it is to be sent again with a copy, since a function has
// come meanwhile, or cannot be sent.
bool SharedMemory::send(Call& call, Region& region, bool copied) {
    const auto* const host = static_cast<const std::byte*>(region.host);
    std::vector<std::byte> sent;
    uint64_t version = 0;
    {
        const std::lock_guard lock(mutex_);
        forget_ended(region);
        if (copied || !region.seen_by.empty()) sent.assign(host, host + region.bytes);
        version = region.version;
    }
    // Without mutex_: what the thread has posted before may wait for a function, and that for mutex_. Nothing
    // of it is left when the next change is sent.
    const std::byte* const from = sent.empty() ? host : sent.data();
    if (give(call, region.device_address, from, region.bytes) != CUDA_SUCCESS) {
        Session& session = Session::get();
        if (session.error() == CUDA_SUCCESS) session.lose("shared memory could not be brought to the GPU");
        return false;
    }
    const std::lock_guard lock(mutex_);
    if (sent.empty() && (!region.seen_by.empty() || region.version != version)) return false;
    region.on_device = true;
    region.shown = std::move(sent);
    // Of functions that have ended meanwhile, too.
    send_changes(call, region);
    if (region.seen_by.empty()) region.shown = {};
    return true;
}

// With mutex_ held. Nothing more comes from threads that have ended; what they changed is sent with the rest.
void SharedMemory::forget_ended(Region& region) {
    std::erase_if(region.seen_by, [](uint64_t thread) { return !Thread::lives(thread); });
}

void SharedMemory::to_device_for(Call& call, uint64_t device_address) {
    if (!any()) return;
    {
        const std::lock_guard lock(mutex_);
        const bool shared = std::any_of(regions_.begin(), regions_.end(), [&](const Region& region) {
            return device_address - region.device_address < region.bytes;
        });
        if (!shared) return;
    }
    to_device(call);
}

// What a call of another thread is about to submit, or a function of the program is using, stays with the
// device.
CUresult SharedMemory::to_host(Call& call) {
    const std::lock_guard moving(moving_);
    auto theirs = [&](const Region& region) { return region.on_device && region.device == call.device(); };
    if (std::none_of(regions_.begin(), regions_.end(), theirs)) return CUDA_SUCCESS;
    const bool at_rest = users_.load(std::memory_order_acquire) == (call.uses_shared() ? 1 : 0);
    // What the program is to be told stays for its own calls.
    if (CUresult error = call.ask(wire::kOpWaitForDevice, 0, nullptr, 0, nullptr, 0)) return error;
    for (Region& region : regions_) {
        if (!theirs(region)) continue;
        uint64_t version = 0;
        {
            const std::lock_guard lock(mutex_);
            send_changes(call, region);
            version = region.version;
        }
        std::vector<std::byte> now(region.bytes);
        if (CUresult error = look(call, region.device_address, now.data(), region.bytes)) return error;
        const std::lock_guard lock(mutex_);
        region.seen_by.erase(Thread::current().number);
        // A function may have come and gone: what it changed is not in `now`.
        if (!at_rest || !region.seen_by.empty() || region.version != version) {
            show(call, region);
            continue;
        }
        std::memcpy(region.host, now.data(), region.bytes);
        region.on_device = false;
        region.shown = {};
    }
    return CUDA_SUCCESS;
}

// With mutex_ held; a region that the device has. What comes from the device goes only to where the host has
// what was shown before: the rest another thread has changed meanwhile, and it is sent when that is done.
void SharedMemory::show(Call& call, Region& region) {
    auto* host = static_cast<std::byte*>(region.host);
    std::vector<std::byte> now(region.bytes);
    send_changes(call, region);
    if (look(call, region.device_address, now.data(), region.bytes) != CUDA_SUCCESS) return;
    if (region.shown.empty()) {
        std::memcpy(host, now.data(), region.bytes);
    } else {
        put_changes(host, region.shown.data(), now.data(), region.bytes);
    }
    region.shown = std::move(now);
    region.seen_by.insert(Thread::current().number);
    ++region.version;
}

// With mutex_ held. What is sent was copied before: the host may change it meanwhile, and that is sent
// another time.
void SharedMemory::send_changes(Call& call, Region& region) {
    forget_ended(region);
    const auto* host = static_cast<const std::byte*>(region.host);
    std::byte* const shown = region.shown.data();
    for (uint64_t at = 0; at < region.shown.size();) {
        const auto [start, stop] = next_change(host, shown, at, region.shown.size());
        std::memcpy(shown + start, host + start, stop - start);
        if (start < stop && give(call, region.device_address + start, shown + start, stop - start)) return;
        at = stop;
    }
}

// With mutex_ held. The calling thread has done with what it was shown.
void SharedMemory::hide(Call& call, Region& region) {
    send_changes(call, region);
    region.seen_by.erase(Thread::current().number);
    if (region.seen_by.empty()) region.shown = {};
    ++region.version;
}

// A function uses what the host has, too.
void SharedMemory::show(Call& call, bool everywhere) {
    const std::lock_guard lock(mutex_);
    for (Region& region : regions_) {
        if (!everywhere && region.device != call.device()) continue;
        if (everywhere) region.seen_by.insert(Thread::current().number);
        if (!region.on_device) continue;
        call.use_device(region.device);
        show(call, region);
    }
}

void SharedMemory::take_changes(Call& call) {
    const std::lock_guard lock(mutex_);
    for (Region& region : regions_) {
        call.use_device(region.device);
        hide(call, region);
    }
}

void SharedMemory::forget(uint64_t device_address) {
    const std::scoped_lock lock(moving_, mutex_);
    std::erase_if(regions_, [&](const Region& region) { return region.device_address == device_address; });
    count_.store(regions_.size(), std::memory_order_release);
}

void SharedMemory::forget_life() {
    const std::scoped_lock lock(moving_, mutex_);
    regions_.clear();
    count_.store(0, std::memory_order_release);
}

}  // namespace client
