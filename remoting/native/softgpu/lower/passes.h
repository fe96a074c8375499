// What happens to a function's blocks between selection and ops. Each pass leaves the program's meaning as it
// is.
#pragma once

#include "lower/ir.h"

namespace softgpu::lower {

// The control-flow graph: order, dominators, and which loop each block is in.
class Graph {
  public:
    explicit Graph(const Body& body);

    // Blocks that can be reached, so that a block comes after those that lead to it, and a loop's blocks stay
    // together. A warp whose lanes have diverged always runs the lanes that are earliest in this order, so
    // lanes meet again before code that they share, and after a loop only when all have left it.
    const std::vector<uint32_t>& order() const { return order_; }
    bool reachable(uint32_t block) const { return number_[block] != kNoBlock; }
    bool dominates(uint32_t above, uint32_t below) const;
    const std::vector<uint32_t>& predecessors(uint32_t block) const { return predecessors_[block]; }

  private:
    void number_blocks(const Body& body);
    // `found`: blocks in the order of a depth-first search; `parent`: the place there of where each was found
    // from.
    void find_dominators(const std::vector<uint32_t>& found, const std::vector<uint32_t>& parent);
    void number_tree();
    void find_loops();
    void order_by_loops();

    std::vector<uint32_t> reverse_post_;  // blocks
    std::vector<uint32_t> number_;        // block to its place in reverse_post_
    std::vector<std::vector<uint32_t>> predecessors_;
    std::vector<uint32_t> dominator_;           // by place in reverse_post_
    std::vector<uint32_t> tree_in_, tree_out_;  // of the dominator tree, by place
    std::vector<uint32_t> loop_;                // by place: header (a place) of the innermost loop around it
    std::vector<bool> heads_loop_;              // by place
    std::vector<uint32_t> order_;
};

// Removes copies whose result can be read from their source everywhere.
void remove_copies(Body& body, const Graph& graph);

// Moves what a kernel computes from its parameters and the threads' places in their block alone to its
// prologue.
void hoist_to_prologue(Body& body, const Graph& graph);

// Branches around a few instructions become guards of those, and blocks that follow each other one.
void guard_short_branches(Body& body, const Graph& graph);

// Puts pairs of integer instructions of which the second alone reads the first's result into one.
void fuse(Body& body, const Graph& graph);

// Puts one `locate` before accesses of a block that use the same address with different constants added.
void share_surveys(Body& body, const Graph& graph);

// Gives values their slots; values that never live at the same time share one. Returns the frame's bytes and
// sets `registers` to the 32-bit registers that live at once at most.
uint32_t assign_slots(Body& body, const Graph& graph, uint32_t& registers);

// Appends the function's ops to the image.
void assemble(Body& body, Image& image, Function& function);

}  // namespace softgpu::lower
