// What the software GPU takes of this machine's memory to load a PTX text, at most, told from its tokens in
// one pass that keeps nothing.
//
// Its parser reads the heads of functions first, and then one body at a time, of which the ops stay
// (ptx::with_body). So the text costs what its largest body takes while it is read, and what stays of all.
// Braces always nest for that parser, whatever is wrong with a text: where a body ends needs no understanding
// of it.
#pragma once

#include <cstdint>
#include <string_view>

namespace worker {

uint64_t text_cost_on_software(std::string_view text);

}  // namespace worker
