// Gangs: warps of a block that are at one place, each with all the lanes that it has left, and go through the
// program in lockstep. An instruction is then looked up once for all of them, and works on several warps'
// registers with nothing between that waits for anything else.
//
// Lockstep is one of the orders in which warps may run, so a gang needs no rules of its own for what programs
// see. It falls apart into its warps wherever they do not go on together: a branch on which they disagree, a
// lane that goes its own way, a fault. Warps then meet again by the rule by which lanes do (see schedule.h):
// the earliest runs, and only to where others wait. A warp whose lanes have split runs until they are
// together.
#pragma once

#include "exec/op.h"

namespace softgpu {

// Gives the candidates (bit i for warp `first` + i, up to kGangWarps) a turn each, together as far as they go
// together. False when the launch is to stop.
bool run_warps(Block* block, uint32_t first, uint32_t candidates);

// The same for warps that begin, from `count` on: all of them at `start`, in no split yet.
bool start_warps(Block* block, uint32_t first, uint32_t count, const Op* start);

// The gang's warps go through the instruction one after the other, and on together if all come to one place.
const Op* each_warp(const Op* op, Gang* gang);

// Branches, barriers and ends.
const Op* gang_bra(const Op* op, Gang* gang);
const Op* gang_bra_if(const Op* op, Gang* gang);
const Op* gang_join(const Op* op, Gang* gang);
const Op* gang_guard(const Op* op, Gang* gang);
const Op* gang_exit(const Op* op, Gang* gang);
const Op* gang_barrier(const Op* op, Gang* gang);

}  // namespace softgpu
