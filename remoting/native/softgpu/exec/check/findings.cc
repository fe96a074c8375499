// What a launch that is checked has found, in words.
#include <algorithm>
#include <cstring>
#include <set>

#include "exec/check/check.h"
#include "exec/readable_name.h"

namespace softgpu::check {
namespace {

thread_local const Request* asked = nullptr;

const char* kRemedyBarrier = "put __syncthreads() (numba: cuda.syncthreads()) between the two";
const char* kRemedyWarp = "put __syncwarp() (numba: cuda.syncwarp()) between the two";
const char* kRemedyEither =
    "put __syncthreads() (numba: cuda.syncthreads()) between the two, or __syncwarp() where only one warp "
    "comes";
const char* kRemedyLastBlock =
    "read in a launch of its own, or, where an atomic counter says that the others are done, put "
    "__threadfence() "
    "(numba: cuda.threadfence()) before the counter is changed and after it";
const char* kRemedyAtomic =
    "use an atomic operation (atomicAdd; numba: cuda.atomic.add), or let one thread write";
const char* kRemedyWriters =
    "let one thread write, or put __syncthreads() (numba: cuda.syncthreads()) between the two";
const char* kRemedyBlocks =
    "read in a launch of its own, or write to another array than the one that is read";
const char* kRemedyFence =
    "put __threadfence_block() (numba: cuda.threadfence_block()) after the lock is taken or the flag is "
    "seen, "
    "and before the lock is given back or the flag is set";
const char* kRemedyWait =
    "wait for the copy (cp.async.wait_group, __pipeline_wait_prior), and put __syncthreads() before other "
    "threads read";

// Each kernel's is said once, and not for every launch.
bool first_time(const std::string& line) {
    constexpr size_t kMostLines = 1024;
    static std::mutex mutex;
    static std::set<std::string> said;
    const std::lock_guard lock(mutex);
    return said.size() < kMostLines && said.insert(line).second;
}

// numba makes several parameters of an array, so their numbers say nothing to its users.
bool made_by_numba(const std::string& kernel) {
    return kernel.find("B2v") != std::string::npos;
}

}  // namespace

Scope::Scope(const Request& request) : before_(asked) {
    asked = request.checks != 0 ? &request : nullptr;
}
Scope::~Scope() {
    asked = before_;
}
const Request* current_request() {
    return asked;
}

BlockState& LaunchChecks::block(Warp* warp) {
    Block* block = warp->block;
    thread_local struct {
        uint64_t grid = UINT64_MAX;
        const Block* block = nullptr;
        BlockState* state = nullptr;
    } last;
    BlockState* state = last.state;
    if (last.grid != launch_.grid_id || last.block != block) {
        const std::lock_guard lock(mutex_);
        auto& slot = blocks_[block];
        if (!slot) slot = std::make_unique<BlockState>();
        state = slot.get();
        last = {launch_.grid_id, block, state};
    }
    const Dim3 grid = launch_.launch->grid;
    const uint64_t number = block->x + uint64_t(grid.x) * (block->y + uint64_t(grid.y) * block->z);
    if (state->block != number) begin(*state, block, number);
    return *state;
}

void LaunchChecks::begin(BlockState& state, const Block* block, uint64_t number) {
    if (state.block != UINT64_MAX && state.order.ever_lost()) lost_order_ = true;
    state.block = number;
    state.order.reset(block->warp_count);
    state.waits.fill({});
    const uint32_t unit = launch_.image->check_unit, threads = block->warp_count * kLanes;
    const uint64_t cells = asks(races) ? (block->shared_bytes + unit - 1) / unit : 0;
    const uint64_t bits =
        asks(check::unwritten) ? block->shared_bytes + uint64_t(threads) * block->local_stride : 0;
    state.follows_device = asks(races) && launch_.blocks < UINT32_MAX;
    if (state.follows_device) state.blocks.reset(uint32_t(number), threads);
    if (!state.room.take(cells * sizeof(BlockState::Cell) + bits / 8)) {
        lost_blocks_ = true;
        state.cells.clear();
        state.shared_written.clear();
        state.local_written.clear();
        return;
    }
    state.cells.assign(cells, {});
    if (!asks(check::unwritten)) return;
    state.shared_written.assign(block->shared_bytes, false);
    state.local_written.assign(uint64_t(threads) * block->local_stride, false);
}

std::string LaunchChecks::thread_name(uint32_t thread) const {
    const Dim3 size = launch_.launch->block;
    return "thread (" + std::to_string(thread % size.x) + "," + std::to_string(thread / size.x % size.y) +
           "," + std::to_string(thread / size.x / size.y) + ")";
}

std::string LaunchChecks::block_name(uint64_t number) const {
    const Dim3 size = launch_.launch->grid;
    return "block (" + std::to_string(number % size.x) + "," + std::to_string(number / size.x % size.y) +
           "," + std::to_string(number / size.x / size.y) + ")";
}

std::string LaunchChecks::shared_place(uint64_t offset) const {
    const auto& offsets = launch_.kernel->shared_offsets;
    for (size_t i = 0; i < offsets.size(); ++i) {
        const SharedVariable& variable = launch_.image->shared[i];
        if (offsets[i] == kNoSlot || variable.name.empty() || offset < offsets[i]) continue;
        if (!variable.dynamic && offset >= offsets[i] + variable.bytes) continue;
        return (variable.dynamic ? "dynamic shared " : "shared ") + readable_name(variable.name) +
               " at byte " + std::to_string(offset - offsets[i]);
    }
    return "shared memory at byte " + std::to_string(offset);
}

// The first parameter of the kernel that holds a pointer into the allocation, from 1; 0 for none.
size_t LaunchChecks::parameter_with(const Allocation& allocation) const {
    const auto values = launch_.launch->params;
    for (size_t i = 0; i < launch_.info->params.size(); ++i) {
        const ParamInfo& param = launch_.info->params[i];
        for (uint32_t at = 0; at + 8 <= param.bytes && param.offset + at + 8 <= values.size(); at += 8) {
            uint64_t value = 0;
            std::memcpy(&value, values.data() + param.offset + at, sizeof value);
            if (value - allocation.base < allocation.bytes) return i + 1;
        }
    }
    return 0;
}

std::string LaunchChecks::device_place(uint64_t address) const {
    const Image& image = *launch_.image;
    for (size_t i = 0; i < image.globals.size(); ++i) {
        const uint64_t base = launch_.launch->module->global_address(uint32_t(i));
        if (address - base < image.globals[i].bytes)
            return "device variable " + readable_name(image.globals[i].name) + " at byte " +
                   std::to_string(address - base);
    }
    const auto found = launch_.memory->find(address);
    if (!found) return "device memory";
    std::string name;
    const size_t number = made_by_numba(launch_.info->name) ? 0 : parameter_with(*found);
    if (number != 0) name = " (of parameter " + std::to_string(number) + ")";
    return "device memory" + name + " at byte " + std::to_string(address - found->base) + " of " +
           std::to_string(found->bytes);
}

bool LaunchChecks::first(Kind kind, const Op* a, const Op* b) {
    const std::tuple key{kind, std::min(a, b), std::max(a, b)};
    const auto known = seen_.find(key);
    if (known == seen_.end() && seen_.size() >= kMostSeen) return false;
    return ++seen_[key] == 1;
}

void LaunchChecks::add(Told told) {
    if (told_.size() < kMostTold) told_.push_back(std::move(told));
}

void LaunchChecks::tell(const Race& race, const std::string& place) {
    const bool one_warp = race.other_thread / kLanes == race.warp->index;
    const bool other_block = race.other_block != UINT64_MAX;
    const bool other_writes = race.kind == Kind::write_write || !race.writes;
    const bool possible = race.why == Why::no_fence || race.why == Why::warp_synchronous;
    const char* remedy = race.why == Why::no_fence                      ? kRemedyFence
                         : race.why == Why::not_waited                  ? kRemedyWait
                         : other_block && race.kind == Kind::read_write ? kRemedyBlocks
                         : race.op == race.other || other_block         ? kRemedyAtomic
                         : race.kind == Kind::write_write               ? kRemedyWriters
                         : one_warp                                     ? kRemedyWarp
                                                                        : kRemedyBarrier;
    std::string other = thread_name(race.other_thread);
    if (other_block) other += " of " + block_name(race.other_block);
    add({(possible ? "possible race: " : "race: ") + describe_place(race.warp, race.lane) +
             (race.writes ? " writes " : " reads ") + place + " (" + describe_line(&launch_, race.op) +
             ") that " + other + (other_writes ? " writes" : " reads") + " (" +
             describe_line(&launch_, race.other) + "), and " +
             (race.why == Why::no_fence           ? "only a lock or a flag without a fence orders the two"
              : race.why == Why::warp_synchronous ? "lanes of a warp may go on at different times"
              : race.why == Why::not_waited       ? "nobody waits for the copy"
              : other_block                       ? "blocks of a launch run in any order"
                                                  : "nothing orders the two"),
         remedy, race.kind, race.op, race.other});
}

// What was told of two lanes of a warp happens between warps too, and what was told of one block between
// blocks: then less would not help.
void LaunchChecks::widen(const Race& race) {
    const bool blocks = race.other_block != UINT64_MAX && race.kind == Kind::read_write;
    if (!blocks && race.other_thread / kLanes == race.warp->index) return;
    for (Told& told : told_) {
        const bool same = (told.op == race.op && told.other == race.other) ||
                          (told.op == race.other && told.other == race.op);
        if (!same || told.kind != race.kind) continue;
        if (blocks && (told.remedy == kRemedyWarp || told.remedy == kRemedyBarrier))
            told.remedy = kRemedyBlocks;
        else if (!blocks && told.remedy == kRemedyWarp)
            told.remedy = kRemedyBarrier;
    }
}

// `counts[i] += 1` in several threads: the read and the write of one line race because the writes do.
const char* LaunchChecks::remedy(const Told& told) const {
    const bool fits =
        told.remedy == kRemedyBarrier || told.remedy == kRemedyWarp || told.remedy == kRemedyBlocks;
    if (!fits) return told.remedy;
    for (const Op* writer : {told.op, told.other}) {
        if (told.kind != Kind::read_write || !seen_.contains({Kind::write_write, writer, writer})) continue;
        const Op* reader = writer == told.op ? told.other : told.op;
        const std::string line = launch_.image->source_of(writer);
        if (!line.empty() && line == launch_.image->source_of(reader)) return kRemedyAtomic;
    }
    if (told.remedy == kRemedyBlocks && left_by_blocks_.asked()) return kRemedyLastBlock;
    const bool others = std::any_of(told_.begin(), told_.end(),
                                    [](const Told& other) { return other.remedy == kRemedyBarrier; });
    return told.remedy == kRemedyWarp && others ? kRemedyEither : told.remedy;
}

void LaunchChecks::unwritten(const Warp* warp, const Op* op, uint32_t lane, const std::string& what,
                             const char* remedy) {
    const std::lock_guard lock(mutex_);
    if (!first(Kind::unwritten, op, op)) return;
    add({"uninitialised: " + describe_place(warp, lane) + " reads " + what + ", which holds no value yet (" +
             describe_line(&launch_, op) + ")",
         remedy, Kind::unwritten, op, op});
}

void LaunchChecks::other_place(const Warp* warp, const Op* op, const Op* other, uint32_t thread,
                               uint32_t other_thread) {
    const std::lock_guard lock(mutex_);
    if (!first(Kind::other_place, op, other)) return;
    add({"barrier divergence: " + describe_place(warp, thread % kLanes) + " waits at a barrier (" +
             describe_line(&launch_, op) + ") and " + thread_name(other_thread) +
             " of its block at another one (" + describe_line(&launch_, other) + ")",
         "move the barrier out of the branch, so that all threads of the block come to the same one",
         Kind::other_place, op, other});
}

void LaunchChecks::missing(const Warp* warp, const Op* op, uint32_t come, uint32_t thread) {
    const std::lock_guard lock(mutex_);
    if (!first(Kind::missing, op, op)) return;
    add({"barrier divergence: kernel " + readable_name(launch_.info->name) + ", " +
             block_name(blocks_.at(warp->block)->block) + ": " + std::to_string(come) + " of " +
             std::to_string(launch_.threads) + " threads came to the barrier (" +
             describe_line(&launch_, op) + "), " + thread_name(thread) + " ended before",
         "let no thread return before a barrier: put the condition around the work instead", Kind::missing,
         op, op});
}

void LaunchChecks::absent_source(const Warp* warp, const Op* op, uint32_t lane, uint32_t source) {
    const std::lock_guard lock(mutex_);
    if (!first(Kind::absent_source, op, op)) return;
    add({"shuffle divergence: " + describe_place(warp, lane) + " reads from lane " + std::to_string(source) +
             " of its warp, which is not at this shuffle (" + describe_line(&launch_, op) +
             "): what it gets is undefined, here 0",
         "take the shuffle out of the branch so that the lanes that are read from come too, or do not use "
         "what these "
         "lanes get",
         Kind::absent_source, op, op});
}

std::string LaunchChecks::left_out() const {
    bool lost_order = lost_order_ || left_by_blocks_.lost();
    for (const auto& [block, state] : blocks_) lost_order = lost_order || state->order.ever_lost();
    std::string text;
    auto say = [&](bool true_of_it, const char* what) {
        const std::string line = "kernel " + readable_name(launch_.info->name) + " " + what;
        if (true_of_it && first_time(line)) text += line + "\n";
    };
    say(lost_order, "has more locks and flags than can be followed; races may be missing");
    say(lost_blocks_, "was not looked at in all of its blocks, for lack of memory; use smaller blocks");
    say(device_.full(), "uses more device memory than races are looked for in; take smaller inputs");
    return text;
}

bool LaunchChecks::found_something() {
    const std::lock_guard lock(mutex_);
    return !seen_.empty();
}

void LaunchChecks::report() {
    const std::lock_guard lock(mutex_);
    if (!request_.report) return;
    std::string text;
    for (const Told& told : told_) text += told.text + "; " + remedy(told) + "\n";
    text += left_out();
    uint64_t times = 0;
    for (const auto& [key, count] : seen_) times += count;
    if (!seen_.empty()) {
        text += "kernel " + readable_name(launch_.info->name) + ": " + std::to_string(seen_.size()) +
                (seen_.size() == 1 ? " finding" : " findings") + ", met " + std::to_string(times) +
                (times == 1 ? " time" : " times");
        if (seen_.size() > told_.size()) text += "; the first " + std::to_string(told_.size()) + " are told";
        text += "\n";
    }
    if (!text.empty()) request_.report(text);
}

}  // namespace softgpu::check
