// A launch: its checks, and the threads that take blocks until none is left.
#include "exec/launch.h"

#include <algorithm>
#include <new>
#include <optional>

#include "exec/arena.h"
#include "exec/check/check.h"
#include "exec/device_launches.h"
#include "exec/readable_name.h"
#include "exec/schedule.h"

namespace softgpu {

std::string refuse_shape(const KernelInfo& info, Dim3 grid, Dim3 block, uint32_t dynamic_shared_bytes) {
    if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7fffffffu || grid.y > 65535 ||
        grid.z > 65535) {
        return "a grid of " + std::to_string(grid.x) + " x " + std::to_string(grid.y) + " x " +
               std::to_string(grid.z) +
               " blocks; up to 2147483647 x 65535 x 65535 are possible, and none may be zero";
    }
    const uint64_t threads = uint64_t(block.x) * block.y * block.z;
    if (block.x == 0 || block.y == 0 || block.z == 0 || block.x > 1024 || block.y > 1024 || block.z > 64 ||
        threads > info.max_threads) {
        return "a block of " + std::to_string(block.x) + " x " + std::to_string(block.y) + " x " +
               std::to_string(block.z) + " threads; this kernel can have up to " +
               std::to_string(info.max_threads);
    }
    const auto& required = info.required_block;
    if (required[0] != 0 && (block.x != required[0] || block.y != required[1] || block.z != required[2])) {
        return "the kernel requires blocks of " + std::to_string(required[0]) + " x " +
               std::to_string(required[1]) + " x " + std::to_string(required[2]) + " threads";
    }
    if (uint64_t(info.static_shared_bytes) + dynamic_shared_bytes > Limits::shared_bytes) {
        return std::to_string(info.static_shared_bytes) + " + " + std::to_string(dynamic_shared_bytes) +
               " bytes of shared memory; a block can have " + std::to_string(Limits::shared_bytes);
    }
    return {};
}

namespace {

// Blocks that spin for others need them to run too: after this many turns without an end a thread takes
// another block beside those it has.
constexpr uint32_t kTurnsAlone = 64;
constexpr size_t kResidentBlocks = 16;

std::atomic<uint64_t> next_grid_id{1};

// Local memory of a thread, and how deep its calls may be. CUDA gives a thread 1 KiB for recursion unless the
// program sets a limit; here it has more, and what the program has set if that is more still.
void size_stack(LaunchState& state, const Launch& launch) {
    constexpr uint64_t kLeastFrame = 16;  // what a call takes of a GPU's stack at least
    uint64_t local = state.kernel->local_bytes;
    if (state.kernel->unbounded) {
        const uint64_t wanted = std::min<uint64_t>(launch.stack_bytes, Limits::local_bytes);
        state.stack_bytes = std::max<uint64_t>(wanted, Limits::stack_bytes);
        state.call_depth = std::max(Limits::call_depth, uint32_t(wanted / kLeastFrame));
        local = std::min<uint64_t>(local + state.stack_bytes, Limits::local_bytes);
    }
    // An odd number of 16-byte units apart, so that lanes do not share cache sets.
    state.local_stride = local == 0 ? 0 : (local / 16 | 1) * 16;
    if (state.local_stride < local) state.local_stride += 32;
}

std::string describe_deadlock(const Block* block) {
    for (uint32_t w = 0; w < block->warp_count; ++w) {
        const Warp& warp = block->warps[w];
        if (warp.split_count == 0) continue;
        const Split& split = warp.splits[0];
        const unsigned lane = unsigned(__builtin_ctz(split.mask));
        const std::string where = split.wait == Wait::barrier
                                      ? "a barrier that other threads of the block never reach"
                                      : "lanes of its warp that never come";
        return describe_place(&warp, lane) + ": waits for ever at " + where + "; " +
               describe_line(block->launch, split.pc);
    }
    return "deadlock";
}

// What one host thread does for a launch.
class Worker {
  public:
    explicit Worker(LaunchState* launch)
        : launch_(launch), number_(launch->workers.fetch_add(1, std::memory_order_relaxed)) {}

    void run() {
        thread_local Arena first;
        if (!take(first)) return;
        for (uint32_t turns = 0; !resident_.empty();) {
            bool ended = false;
            for (size_t i = 0; i < resident_.size(); ++i) {
                switch (resident_[i]->run()) {
                    case Progress::yielded:
                        break;
                    case Progress::finished:
                        ended = true;
                        if (!restart(i)) --i;
                        break;
                    case Progress::stuck:
                        fail_launch(launch_, Status::deadlock, describe_deadlock(resident_[i]->block()));
                        return finish();
                    case Progress::stopped:
                        return finish();
                }
            }
            turns = ended ? 0 : turns + 1;
            if (wants_another(turns)) {
                turns = 0;
                extra_.push_back(std::make_unique<Arena>());
                take(*extra_.back());
            }
        }
        finish();
    }

  private:
    bool wants_another(uint32_t turns) const {
        if (taken_ == taken_end_ && launch_->next_block.load(std::memory_order_relaxed) >= launch_->blocks)
            return false;
        return launch_->launch->cooperative || (turns > kTurnsAlone && resident_.size() < kResidentBlocks);
    }
    bool next(uint64_t& number) {
        if (launch_->stop.load(std::memory_order_relaxed)) return false;
        if (taken_ == taken_end_ && !take_more()) return false;
        number = taken_++;
        return true;
    }
    // Several at a time while many are left: taking waits until all that was written before is in the cache.
    bool take_more() {
        const uint64_t next = launch_->next_block.load(std::memory_order_relaxed);
        if (next >= launch_->blocks) return false;
        const uint64_t share = (launch_->blocks - next) / (8 * uint64_t{launch_->helpers});
        const uint64_t count =
            launch_->launch->cooperative ? 1 : std::clamp<uint64_t>(share, 1, kResidentBlocks);
        taken_ = launch_->next_block.fetch_add(count, std::memory_order_relaxed);
        taken_end_ = std::min(taken_ + count, launch_->blocks);
        if (taken_ < taken_end_) return true;
        taken_ = taken_end_;
        return false;
    }
    bool take(Arena& arena) {
        uint64_t number = 0;
        if (!next(number)) return false;
        if (!arena.prepare(launch_, number_)) {
            fail_launch(launch_, Status::out_of_memory,
                        "the host has no memory for kernel " + readable_name(launch_->info->name));
            return false;
        }
        arena.start_block(number);
        resident_.push_back(&arena);
        return true;
    }
    // The arena's next block; without one it leaves.
    bool restart(size_t at) {
        uint64_t number = 0;
        if (next(number)) {
            resident_[at]->start_block(number);
            return true;
        }
        resident_[at]->finish();
        resident_.erase(resident_.begin() + long(at));
        return false;
    }
    void finish() {
        for (Arena* arena : resident_) arena->finish();
        resident_.clear();
    }

    LaunchState* launch_;
    const uint32_t number_;
    uint64_t taken_ = 0, taken_end_ = 0;  // blocks that are this thread's and not begun
    std::vector<Arena*> resident_;
    std::vector<std::unique_ptr<Arena>> extra_;
};

// The workspace of a cooperative launch, within kernels' reach while it runs.
class Workspace {
  public:
    Workspace(LaunchState& state, bool wanted)
        : memory_(state.memory),
          at_(wanted && memory_->map_host(state.workspace, sizeof state.workspace) ? state.workspace
                                                                                   : nullptr) {}
    ~Workspace() {
        if (at_ != nullptr) memory_->unmap_host(at_);
    }
    bool there() const { return at_ != nullptr; }

  private:
    DeviceMemory* memory_;
    void* at_;
};

std::string check(const Launch& launch, const KernelInfo& info) {
    std::string why = refuse_shape(info, launch.grid, launch.block, launch.dynamic_shared_bytes);
    if (why.empty() && launch.params.size() < info.param_bytes) {
        why = std::to_string(launch.params.size()) + " bytes of parameters where the kernel has " +
              std::to_string(info.param_bytes);
    }
    return why;
}

LaunchResult run_grid(const Launch& launch, DeviceLaunches& children) {
    LaunchState state;
    state.children = &children;
    const LoadedModule& module = *launch.module;
    const Image& image = module.program().image();
    if (launch.kernel >= image.kernels.size()) return {Status::invalid_launch, "no such kernel"};
    state.launch = &launch;
    state.image = &image;
    state.kernel = &image.kernels[launch.kernel];
    state.info = &image.kernel_infos[launch.kernel];
    state.function = &image.functions[state.kernel->function];
    state.memory = &module.memory();
    const std::string refusal = check(launch, *state.info);
    if (!refusal.empty())
        return {Status::invalid_launch, "kernel " + readable_name(state.info->name) + ": " + refusal};
    state.blocks = uint64_t(launch.grid.x) * launch.grid.y * launch.grid.z;
    state.threads = launch.block.x * launch.block.y * launch.block.z;
    state.warps = (state.threads + kLanes - 1) / kLanes;
    state.grid_id = next_grid_id.fetch_add(1, std::memory_order_relaxed);
    const uint64_t fixed = state.info->static_shared_bytes;
    const uint64_t align = state.kernel->dynamic_align;
    state.shared_bytes = uint32_t(launch.dynamic_shared_bytes == 0
                                      ? fixed
                                      : (fixed + align - 1) / align * align + launch.dynamic_shared_bytes);
    // Compilers read whole vectors of what they know to be aligned, beyond its end: no GPU shares out less.
    constexpr uint32_t kVector = 16;
    state.shared_bytes = (state.shared_bytes + kVector - 1) / kVector * kVector;
    size_stack(state, launch);
    const check::Request nothing;
    const check::Request* const request = check::current_request();
    std::optional<check::LaunchChecks> checks;
    if (image.checked) state.checks = &checks.emplace(state, request != nullptr ? *request : nothing);
    const Workspace workspace(state, launch.cooperative);
    if (launch.cooperative && !workspace.there())
        return {Status::out_of_memory,
                "the host has no memory for kernel " + readable_name(state.info->name)};
    const unsigned pool = launch.pool == nullptr ? 1 : launch.pool->threads();
    state.helpers = pool;
    auto task = [&state] {
        try {
            Worker(&state).run();
        } catch (const std::bad_alloc&) {
            fail_launch(&state, Status::out_of_memory,
                        "the host has no memory for kernel " + readable_name(state.info->name));
        }
    };
    if (launch.pool != nullptr) {
        launch.pool->run(unsigned(std::min<uint64_t>(state.blocks - 1, pool - 1)), task);
    } else {
        task();
    }
    if (checks && (!checks->found_something() || children.first_findings_of(launch.kernel))) checks->report();
    return std::move(state.result);
}

// What a kernel has launched. Its parameters are read once, now.
LaunchResult run_work(const Launch& root, const DeviceWork& work, DeviceLaunches& children) {
    DeviceMemory& memory = root.module->memory();
    if (work.kind != DeviceWork::Kind::kernel) return run_memory_work(memory, work);
    std::vector<std::byte> params(work.param_bytes);
    const bool there = params.empty() || memory.read(params.data(), work.params, params.size());
    children.drop(work);
    if (!there) return {Status::illegal_address, "the parameters of a launch were freed before it began"};
    Launch launch = root;
    launch.kernel = work.kernel;
    launch.grid = work.grid;
    launch.block = work.block;
    launch.dynamic_shared_bytes = work.dynamic_shared_bytes;
    launch.cooperative = false;
    launch.params = params;
    return run_grid(launch, children);
}

LaunchResult run_all(const Launch& root) {
    DeviceLaunches children(root);
    LaunchResult result = run_grid(root, children);
    const auto infos = root.module->program().kernels();
    while (result.status == Status::ok) {
        children.grid_ended();
        const auto work = children.next();
        if (!work) break;
        const KernelInfo& launcher = infos[work->launcher];
        // Grids may be too short to look for it themselves.
        result = asked_to_stop(root, launcher);
        if (result.status != Status::ok) break;
        result = run_work(root, *work, children);
        if (result.status != Status::ok && !result.detail.empty())
            result.detail += "; launched by kernel " + readable_name(launcher.name);
    }
    return result;
}

}  // namespace

LaunchResult run(const Launch& launch) noexcept try {
    return run_all(launch);
} catch (const std::bad_alloc&) {
    return {Status::out_of_memory, {}};
}

}  // namespace softgpu
