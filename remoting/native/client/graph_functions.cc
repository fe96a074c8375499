// Functions of the program in a forwarded graph: what they find in its memory, and what copies behind them
// read.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "call.h"
#include "graph_replay.h"
#include "host_calls.h"

namespace client {
namespace {

[[noreturn]] void refuse_beside() {
    gk_unsupported(
        "a graph that copies to host memory beside a function, and from the same memory behind it, "
        "forwarded,");
    graphs::refuse(CUDA_ERROR_NOT_SUPPORTED);
}

bool overlap(const wire::Box& one, const wire::Box& other) {
    return one.address < other.address + wire::span(other) && other.address < one.address + wire::span(one);
}

// The steps that `step` waits for, and those that wait for it.
struct Reach {
    std::vector<bool> before, behind;
    Reach(std::span<const graphs::Step> steps, uint32_t step) : before(steps.size()), behind(steps.size()) {
        behind[step] = before[step] = true;
        for (uint32_t i = step + 1; i < steps.size(); ++i) {
            const auto& after = steps[i].after;
            behind[i] = std::any_of(after.begin(), after.end(), [&](uint32_t one) { return behind[one]; });
        }
        for (uint32_t i = step + 1; i-- > 0;) {
            if (!before[i]) continue;
            for (const uint32_t one : steps[i].after) before[one] = true;
        }
        behind[step] = before[step] = false;
    }
};

// What a function finds where a copy before it has written. If it changes that, the image must have it too:
// the program gets the image's bytes when the launch has ended.
struct Seen {
    wire::Box box;
    uint64_t offset;
    std::vector<std::byte> bytes;

    void bring_to_program(Call& call, uint64_t graph) {
        bring(call, graph, wire::kOpGraphLook, box, offset, false);
        bytes.resize(wire::span(box));
        std::memcpy(bytes.data(), reinterpret_cast<const void*>(box.address), bytes.size());
    }
    void give_if_changed(Call& call, uint64_t graph) {
        if (std::memcmp(bytes.data(), reinterpret_cast<const void*>(box.address), bytes.size()) != 0)
            give(call, graph, box, offset);
        bytes = {};
    }
};

}  // namespace

// A function of a launch sees what the copies before it in the graph have written, and the copies behind it
// read what it has written.
void ForwardedGraph::find_what_functions_see(std::span<const graphs::Step> steps) {
    for (uint32_t i = 0; i < steps.size(); ++i) {
        Work& work = steps_[i];
        if (work.kind != wire::StepKind::host) continue;
        calls_.push_back(i);
        const Reach reach(steps, i);
        // In the order of steps: the later one writes over the earlier one.
        for (const uint32_t copy : host_copies_) {
            const wire::GraphCopy& of = steps_[copy].copy;
            if (of.to_image && reach.before[copy]) work.shows.push_back(copy);
            if (of.from_image && reach.behind[copy]) work.gives.push_back(copy);
            if (of.to_image && !reach.before[copy] && !reach.behind[copy]) work.beside.push_back(copy);
        }
    }
    check_functions();
}

// A copy beside a function, to memory whose bytes the function gives, may run while they are on their way,
// and would be undone: such a graph is refused.
void ForwardedGraph::check_functions() const {
    for (const uint32_t function : calls_) {
        const Work& work = steps_[function];
        for (const uint32_t beside : work.beside) {
            const bool undone = std::any_of(work.gives.begin(), work.gives.end(), [&](uint32_t given) {
                return overlap(steps_[given].copy.from, steps_[beside].copy.to);
            });
            if (undone) refuse_beside();
        }
    }
}

// Launches under way go on with the function that they had.
void ForwardedGraph::renew_ticket(uint32_t step) {
    Work& work = steps_[step];
    HostFunction function{.function = work.call.fn, .data = work.call.data};
    const auto seen = std::make_shared<std::vector<Seen>>();
    for (const uint32_t copy : work.shows) {
        const wire::Box& to = steps_[copy].copy.to;
        seen->push_back({to, layout_.offset_of(to.address), {}});
    }
    std::vector<std::pair<wire::Box, uint64_t>> given;
    for (const uint32_t copy : work.gives) {
        const wire::Box& from = steps_[copy].copy.from;
        given.emplace_back(from, layout_.offset_of(from.address));
    }
    if (!seen->empty()) {
        function.before = [graph = handle_, seen](Call& call) {
            for (Seen& one : *seen) one.bring_to_program(call, graph);
        };
    }
    if (!seen->empty() || !given.empty()) {
        function.after = [graph = handle_, seen, given = std::move(given)](Call& call) {
            for (Seen& one : *seen) one.give_if_changed(call, graph);
            for (const auto& [from, offset] : given) give(call, graph, from, offset);
        };
    }
    const uint64_t ticket = HostCalls::get().keep(function);
    graphs::require(ticket != 0, CUDA_ERROR_OPERATING_SYSTEM);
    HostCalls::get().release(std::exchange(work.ticket, ticket));
}

void ForwardedGraph::release_tickets() {
    for (const uint32_t step : calls_) HostCalls::get().release(steps_[step].ticket);
}

}  // namespace client
