#include <algorithm>
#include <map>

#include "exec/handlers.h"
#include "lower/passes.h"

namespace softgpu::lower {
namespace {

constexpr size_t kWorthwhile = 3;  // accesses; a gang looks at the addresses of two as fast

// Of the spaces whose handlers have a form behind a survey.
Code locator(Where where) {
    return where == Where::global     ? "locate.global"_op
           : where == Where::shared32 ? "locate.shared32"_op
                                      : "locate.shared64"_op;
}

// Accesses of one block that may share a survey: same address value, space and size, the constants a multiple
// of the size apart, and nothing between them that changes the address or the lanes that run.
struct Group {
    std::vector<uint32_t> members;  // places in the block's code
    int64_t least = 0, most = 0;    // of the constants
};

class Surveyor {
  public:
    Surveyor(Body& body, Block& block) : body_(body), block_(block) {}

    void run() {
        for (uint32_t at = 0; at < block_.code.size(); ++at) {
            Inst& inst = block_.code[at];
            if (inst.waits || inst.adds) close_all();
            if (inst.access.kept != nullptr && inst.guard == kNoValue) add(at, inst);
            each_def(inst, [this](uint32_t value) { close(value); });
        }
        close_all();
        if (!chosen_.empty()) rewrite();
    }

  private:
    using Key = std::tuple<uint32_t, Where, uint32_t, uint64_t>;

    template <class F>
    static void each_def(const Inst& inst, F f) {
        for (uint8_t field = 0; field < kFields; ++field) {
            if ((inst.defs >> field & 1) && inst.values[field] != kNoValue) f(inst.values[field]);
        }
        for (const uint32_t value : inst.extra_defs) f(value);
    }

    void add(uint32_t at, const Inst& inst) {
        const auto constant = int64_t(inst.imm);
        Group& group =
            open_[{inst.values[kA], inst.access.where, inst.access.bytes, inst.imm % inst.access.bytes}];
        if (group.members.empty()) group.least = group.most = constant;
        group.members.push_back(at);
        group.least = std::min(group.least, constant);
        group.most = std::max(group.most, constant);
    }

    void finish(Group& group) {
        if (group.members.size() >= kWorthwhile && group.most - group.least < INT32_MAX / 2)
            chosen_.push_back(std::move(group));
    }
    void close(uint32_t value) {
        auto it = open_.lower_bound({value, Where::global, 0, 0});
        while (it != open_.end() && std::get<0>(it->first) == value) {
            finish(it->second);
            it = open_.erase(it);
        }
    }
    void close_all() {
        for (auto& [key, group] : open_) finish(group);
        open_.clear();
    }

    void rewrite() {
        std::sort(chosen_.begin(), chosen_.end(),
                  [](const Group& a, const Group& b) { return a.members.front() < b.members.front(); });
        std::vector<std::pair<uint32_t, uint32_t>> busy;  // last use, place in the frame
        std::vector<uint32_t> spare;
        uint32_t made = 0;
        std::multimap<uint32_t, Inst> before;
        for (const Group& group : chosen_) {
            std::erase_if(busy, [&](const auto& entry) {
                if (entry.first >= group.members.front()) return false;
                spare.push_back(entry.second);
                return true;
            });
            uint32_t place = made;
            if (spare.empty())
                ++made;
            else
                place = spare.back(), spare.pop_back();
            busy.emplace_back(group.members.back(), place);
            before.emplace(group.members.front(), locate(group, place));
            for (const uint32_t at : group.members) {
                Inst& inst = block_.code[at];
                inst.fn = inst.access.kept;
                inst.kept = place;
            }
        }
        body_.kept_count = std::max(body_.kept_count, made);
        std::vector<Inst> code;
        code.reserve(block_.code.size() + before.size());
        for (uint32_t at = 0; at < block_.code.size(); ++at) {
            const auto range = before.equal_range(at);
            for (auto it = range.first; it != range.second; ++it) code.push_back(std::move(it->second));
            code.push_back(std::move(block_.code[at]));
        }
        block_.code = std::move(code);
    }

    Inst locate(const Group& group, uint32_t place) const {
        const Inst& first = block_.code[group.members.front()];
        Inst inst;
        inst.fn = find_handler(locator(first.access.where));
        inst.values[kA] = first.values[kA];
        inst.imm = uint64_t(group.least);
        inst.raw_b = first.access.bytes;
        inst.raw_c = uint32_t(group.most - group.least) + first.access.bytes;
        inst.kept = place;
        inst.line = first.line;
        return inst;
    }

    Body& body_;
    Block& block_;
    std::map<Key, Group> open_;
    std::vector<Group> chosen_;
};

}  // namespace

void share_surveys(Body& body, const Graph& graph) {
    for (const uint32_t block : graph.order()) Surveyor(body, body.blocks[block]).run();
}

}  // namespace softgpu::lower
