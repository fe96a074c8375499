#include "slice_room.h"

#include <algorithm>
#include <string>
#include <thread>

#include "worker.h"

namespace worker {

using Clock = std::chrono::steady_clock;

void SliceRoom::look() {
    worker_.ending_frees.look();
    for (const auto& pool : worker_.pools.all()) pool->look();
    worker_.pools.drop_unused();
}

bool SliceRoom::take_after_trim(uint8_t device, uint64_t charge) {
    worker_.ending_frees.look();
    for (const auto& pool : worker_.pools.all()) {
        if (pool->device == device) pool->trim();
    }
    worker_.pools.drop_unused();
    return worker_.memory.reserve(device, charge);
}

bool SliceRoom::waits_for_program() {
    const auto sessions = worker_.all_sessions();
    return std::any_of(sessions.begin(), sessions.end(),
                       [](const auto& session) { return session->host_calls->waits(); });
}

bool SliceRoom::another_ends(const Session& session) {
    const auto sessions = worker_.all_sessions();
    return std::any_of(sessions.begin(), sessions.end(),
                       [&](const auto& other) { return other.get() != &session && other->abandoned(); });
}

bool SliceRoom::take(Session& session, uint8_t device, uint64_t charge) {
    MemoryLedger& memory = worker_.memory;
    if (memory.reserve(device, charge)) return true;
    look();
    if (memory.reserve(device, charge) || take_after_trim(device, charge)) return true;
    constexpr std::chrono::microseconds kFirst{50}, kLongest{5000};
    auto pause = kFirst;
    auto moved = Clock::now();  // of a stream that does not wait for the program
    const auto began = moved;
    for (;;) {
        const uint64_t waiting = worker_.ending_frees.bytes(device);
        const bool in_streams = waiting > 0 && charge <= memory.left(device) + waiting;
        const auto now = Clock::now();
        const bool in_a_session = now - began < kPatienceWithSession && another_ends(session);
        if (charge > memory.limit(device) || !(in_streams || in_a_session)) return false;
        if (!waits_for_program()) moved = now;
        const bool too_long = now - moved > kPatienceWithProgram || now - began > kPatience;
        if ((in_streams && !in_a_session && too_long) || session.ended()) {
            session.notices.add(wire::NoticeKind::lines,
                                "this slice has no room for " + std::to_string((charge + 1048575) >> 20) +
                                    " MiB more: " + std::to_string(waiting >> 20) +
                                    " MiB of it were freed in streams that have not come to the free; "
                                    "synchronize these streams before you allocate");
            return false;
        }
        std::this_thread::sleep_for(pause);
        pause = std::min(pause * 2, kLongest);
        if (take_after_trim(device, charge)) return true;
    }
}

void SliceRoom::watch() {
    constexpr std::chrono::milliseconds kEvery{500};
    for (;;) {
        std::this_thread::sleep_for(kEvery);
        if (worker_.poisoned.load() != 0 || !changed_.exchange(false)) continue;
        look();
        bool more = false;
        for (uint8_t device = 0; device < worker_.devices.size(); ++device)
            more |= worker_.ending_frees.bytes(device) > 0;
        if (more) note();
    }
}

}  // namespace worker
