#include <algorithm>
#include <utility>

#include "lower/passes.h"

namespace softgpu::lower {

Graph::Graph(const Body& body) : number_(body.blocks.size(), kNoBlock), predecessors_(body.blocks.size()) {
    number_blocks(body);
    number_tree();
    find_loops();
    order_by_loops();
}

void Graph::number_blocks(const Body& body) {
    std::vector<uint32_t> post, found, parent;  // `parent` by place in `found`
    std::vector<uint8_t> seen(body.blocks.size());
    struct Visit {
        uint32_t block, place;
        std::vector<uint32_t> successors;
        size_t next = 0;
    };
    std::vector<Visit> stack;
    auto visit = [&](uint32_t block) {
        seen[block] = 1;
        Visit entry{block, uint32_t(found.size()), {}};
        parent.push_back(stack.empty() ? 0 : stack.back().place);
        found.push_back(block);
        body.blocks[block].each_successor([&](uint32_t to) { entry.successors.push_back(to); });
        stack.push_back(std::move(entry));
    };
    visit(0);
    while (!stack.empty()) {
        Visit& top = stack.back();
        if (top.next == top.successors.size()) {
            post.push_back(top.block);
            stack.pop_back();
            continue;
        }
        const uint32_t to = top.successors[top.next++];
        if (!seen[to]) visit(to);
    }
    reverse_post_.assign(post.rbegin(), post.rend());
    for (uint32_t place = 0; place < reverse_post_.size(); ++place) number_[reverse_post_[place]] = place;
    for (const uint32_t block : reverse_post_) {
        body.blocks[block].each_successor([&](uint32_t to) { predecessors_[to].push_back(block); });
    }
    find_dominators(found, parent);
}

namespace {

// Lengauer and Tarjan's forest over the numbers of a depth-first search, with paths that get shorter where
// they are walked: linear, but for a logarithm, whatever the graph is.
class Forest {
  public:
    explicit Forest(uint32_t count) : semi(count), ancestor_(count, kNoBlock), label_(count) {
        for (uint32_t i = 0; i < count; ++i) semi[i] = label_[i] = i;
    }
    void link(uint32_t parent, uint32_t child) { ancestor_[child] = parent; }

    // Of the path from below `at`'s root to `at`, who has the smallest semidominator.
    uint32_t least(uint32_t at) {
        if (ancestor_[at] == kNoBlock) return at;
        path_.clear();
        for (uint32_t up = at; ancestor_[ancestor_[up]] != kNoBlock; up = ancestor_[up]) path_.push_back(up);
        for (; !path_.empty(); path_.pop_back()) {
            const uint32_t below = path_.back(), above = ancestor_[below];
            if (semi[label_[above]] < semi[label_[below]]) label_[below] = label_[above];
            ancestor_[below] = ancestor_[above];
        }
        return label_[at];
    }

    std::vector<uint32_t> semi;

  private:
    std::vector<uint32_t> ancestor_, label_, path_;
};

}  // namespace

void Graph::find_dominators(const std::vector<uint32_t>& found, const std::vector<uint32_t>& parent) {
    const auto count = uint32_t(found.size());
    std::vector<uint32_t> number(number_.size(), kNoBlock), dominator(count, 0);  // of the search
    for (uint32_t i = 0; i < count; ++i) number[found[i]] = i;
    Forest forest(count);
    std::vector<std::vector<uint32_t>> waiting(count);  // by semidominator
    for (uint32_t at = count; at-- > 1;) {
        for (const uint32_t block : predecessors_[found[at]])
            forest.semi[at] = std::min(forest.semi[at], forest.semi[forest.least(number[block])]);
        waiting[forest.semi[at]].push_back(at);
        forest.link(parent[at], at);
        for (const uint32_t other : std::exchange(waiting[parent[at]], {})) {
            const uint32_t least = forest.least(other);
            dominator[other] = forest.semi[least] < forest.semi[other] ? least : parent[at];
        }
    }
    for (uint32_t at = 1; at < count; ++at) {
        if (dominator[at] != forest.semi[at]) dominator[at] = dominator[dominator[at]];
    }
    dominator_.assign(count, 0);
    for (uint32_t at = 0; at < count; ++at) dominator_[number_[found[at]]] = number_[found[dominator[at]]];
}

void Graph::number_tree() {
    const size_t count = reverse_post_.size();
    std::vector<std::vector<uint32_t>> children(count);
    for (uint32_t place = 1; place < count; ++place) children[dominator_[place]].push_back(place);
    tree_in_.assign(count, 0), tree_out_.assign(count, 0);
    uint32_t clock = 0;
    std::vector<std::pair<uint32_t, size_t>> stack{{0, 0}};
    tree_in_[0] = clock++;
    while (!stack.empty()) {
        auto& [place, next] = stack.back();
        if (next == children[place].size()) {
            tree_out_[place] = clock++;
            stack.pop_back();
            continue;
        }
        const uint32_t child = children[place][next++];
        tree_in_[child] = clock++;
        stack.emplace_back(child, 0);
    }
}

bool Graph::dominates(uint32_t above, uint32_t below) const {
    const uint32_t a = number_[above], b = number_[below];
    return a != kNoBlock && b != kNoBlock && tree_in_[a] <= tree_in_[b] && tree_out_[b] <= tree_out_[a];
}

// Natural loops, innermost first: a loop found earlier stands for all its blocks by its header.
void Graph::find_loops() {
    const uint32_t count = uint32_t(reverse_post_.size());
    loop_.assign(count, kNoBlock);
    heads_loop_.assign(count, false);
    std::vector<uint32_t> outermost(count);
    for (uint32_t place = 0; place < count; ++place) outermost[place] = place;
    auto find = [&outermost](uint32_t place) {
        while (outermost[place] != place) place = outermost[place] = outermost[outermost[place]];
        return place;
    };
    for (uint32_t header = count; header-- > 0;) {
        std::vector<uint32_t> work;
        auto consider = [&](uint32_t block) {
            if (number_[block] == kNoBlock) return;
            const uint32_t from = find(number_[block]);
            if (from != header && from > header)
                work.push_back(from);  // an entry from before is no natural loop's
        };
        for (const uint32_t block : predecessors_[reverse_post_[header]]) {
            const uint32_t from = number_[block];
            if (from == kNoBlock || !dominates(reverse_post_[header], block)) continue;
            heads_loop_[header] = true;
            consider(block);
        }
        while (!work.empty()) {
            const uint32_t place = work.back();
            work.pop_back();
            if (outermost[place] != place) continue;
            outermost[place] = header;
            loop_[place] = header;
            for (const uint32_t block : predecessors_[reverse_post_[place]]) consider(block);
        }
    }
}

void Graph::order_by_loops() {
    const uint32_t count = uint32_t(reverse_post_.size());
    std::vector<std::vector<uint32_t>> inside(count);  // by header: what is directly in its loop, in order
    std::vector<uint32_t> top;
    for (uint32_t place = 0; place < count; ++place) {
        if (loop_[place] == kNoBlock)
            top.push_back(place);
        else
            inside[loop_[place]].push_back(place);
    }
    std::vector<uint32_t> stack(top.rbegin(), top.rend());
    while (!stack.empty()) {
        const uint32_t place = stack.back();
        stack.pop_back();
        order_.push_back(reverse_post_[place]);
        for (auto it = inside[place].rbegin(); it != inside[place].rend(); ++it) stack.push_back(*it);
    }
}

}  // namespace softgpu::lower
