// What the worker keeps of its machine's memory, and how it is bounded.
#include <atomic>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "../../../remoting/native/worker/host_memory.h"
#include "../../../remoting/native/worker/lane_buffer.h"
#include "../../../remoting/native/worker/load_cost.h"
#include "../../../remoting/native/worker/notices.h"
#include "cases.h"
#include "payload.h"

namespace {

CASE(lanes_follow_from_the_limit) {
    worker::HostMemory memory;
    for (const uint64_t mib : {64, 256, 512, 1024, 4096, 1 << 20}) {
        memory.set_limit(mib, 0);
        const uint64_t lanes = memory.most_lanes();
        EXPECT(lanes >= 16 && lanes <= 1024);
        EXPECT(lanes == 16 || lanes * 2 <= mib * 3 / 16 || (lanes <= 64 && lanes * 2 <= mib / 3));
    }
    memory.set_limit(384, 0);
    EXPECT(memory.most_lanes() == 64);
}

CASE(lanes_beyond_their_part_take_from_what_is_looked_at) {
    using Room = worker::HostMemory::Room;
    worker::HostMemory memory;
    memory.set_limit(384, 0);
    const auto goes_on = [] { return true; };
    constexpr uint64_t kLoad = 260ull << 20;
    for (int i = 0; i < 36; ++i) EXPECT(memory.add_lane());
    EXPECT(bool(Room(memory, kLoad, goes_on)));
    for (int i = 36; i < 64; ++i) EXPECT(memory.add_lane());
    EXPECT(!memory.add_lane());
    EXPECT(!Room(memory, kLoad, goes_on));
    for (int i = 36; i < 64; ++i) memory.remove_lane();
    EXPECT(bool(Room(memory, kLoad, goes_on)));
}

CASE(rooms_do_not_fit_beside_each_other_beyond_the_limit) {
    using Room = worker::HostMemory::Room;
    worker::HostMemory memory;
    memory.set_limit(1024, 0);
    constexpr uint64_t kMost = 768ull << 20;
    const auto goes_on = [] { return true; };
    EXPECT(!Room(memory, kMost + 1, goes_on) && !Room(memory, UINT64_MAX, goes_on));
    EXPECT(!Room(memory, UINT64_MAX));
    std::atomic<uint64_t> together{0}, most{0};
    std::vector<std::thread> loads;
    for (uint64_t i = 1; i <= 12; ++i) {
        loads.emplace_back([&, bytes = i * kMost / 16] {
            const Room room(memory, bytes, goes_on);
            EXPECT(bool(room));
            const uint64_t now = together += bytes;
            for (uint64_t before = most; now > before && !most.compare_exchange_weak(before, now);) {
            }
            std::this_thread::yield();
            together -= bytes;
        });
    }
    for (auto& load : loads) load.join();
    EXPECT(most > 0 && most <= kMost);
    const Room first(memory, kMost / 4 * 3, goes_on);
    EXPECT(bool(first) && !Room(memory, kMost / 2));
    EXPECT(!Room(memory, kMost / 2, [] { return false; }));  // its client has gone
    const std::string refusal = Room(memory, kMost / 2).refusal("this", "Do less");
    EXPECT(refusal.find("this may take 384 MiB") == 0 && refusal.find("Do less, end") != std::string::npos);
}

CASE(notices_of_all_sessions_share_a_bound) {
    worker::HostBudget budget(64 << 10);
    uint64_t kept = 0;
    {
        worker::Notices first(budget), second(budget);
        for (int i = 0; i < 10'000; ++i) {
            first.add(wire::NoticeKind::lines, "a");
            second.add(i % 2 ? wire::NoticeKind::output : wire::NoticeKind::error, "b");
        }
        kept = budget.used();
        wire::Writer told;
        first.take(told);
        const std::string text(reinterpret_cast<const char*>(told.bytes().data()), told.size());
        EXPECT(text.find("were left out") != std::string::npos);
        EXPECT(budget.used() < kept);
        second.add(wire::NoticeKind::output, "the newest");
        wire::Writer rest;
        for (bool more = true; more; more = second.waiting()) second.take(rest);
        const std::string all(reinterpret_cast<const char*>(rest.bytes().data()), rest.size());
        EXPECT(all.find("the newest") != std::string::npos);
    }
    EXPECT(kept <= 64 << 10 && kept > 32 << 10 && budget.used() == 0);
}

CASE(a_lane_keeps_what_has_arrived_when_it_gives_back) {
    worker::LaneBuffer buffer;
    EXPECT(bool(buffer) && buffer.room().size() >= sizeof(wire::FrameHeader) + wire::kMaxPayload);
    const auto room = buffer.room();
    for (size_t i = 0; i < room.size(); ++i) room[i] = static_cast<std::byte>(i * 7);
    buffer.grow(room.size());
    buffer.drop(room.size() - 5000);
    EXPECT(buffer.content().size() == 5000 && buffer.resident() == room.size());
    buffer.release();
    EXPECT(buffer.resident() == 5000);
    for (size_t i = 0; i < 5000; ++i)
        EXPECT(buffer.content()[i] == static_cast<std::byte>((room.size() - 5000 + i) * 7));
    EXPECT(buffer.room()[buffer.room().size() - 1] == std::byte{0});
}

uint64_t cost(const std::string& text, bool software = true) {
    return worker::load_cost(std::as_bytes(std::span(text)), software);
}

CASE(costs_of_loads_saturate_and_grow_with_the_text) {
    const std::string text = "add.u32 a, a, 1;";
    EXPECT(cost("") > 0 && worker::load_cost({}, true) > 0 && worker::unpacking_cost({}) == 0);
    EXPECT(cost("{" + std::string(1000, ';')) > 1000 * 1000);
    EXPECT(cost("{ret;}", false) > cost("{ret;}"));
    EXPECT(cost("{" + text + text + "}") > cost("{" + text + "}"));
}

CASE(a_load_costs_its_largest_body_and_what_stays_of_all) {
    std::string lines;
    for (int i = 0; i < 10'000; ++i) lines += "add.u32 a, a, 1;\n";
    const uint64_t none = cost(""), one = cost("{" + lines + "}") - none;
    const uint64_t two = cost("{" + lines + "}{" + lines + "}") - none;
    EXPECT(two > one && two - one < one / 4);
    EXPECT(cost("{" + lines + "{}" + lines + "}") - none > 2 * one - one / 4);  // blocks are of their body
    EXPECT(cost("{" + lines + "/*}{*/" + lines) - none > 2 * one - one / 4);    // and comments nothing
    std::string numbers;
    for (int i = 0; i < 10'000; ++i) numbers += "1,";
    EXPECT(cost("={" + numbers + "}") - none < (cost("{" + numbers + "}") - none) / 8);
    EXPECT(cost(lines) - none > one / 2);                                       // outside, each may be a variable
}

}  // namespace
