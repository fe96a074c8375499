// Linked, typed, decoded PTX: what Program holds and launches execute. Immutable after link.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine.h"
#include "exec/op_array.h"

namespace softgpu {

enum class Special : uint8_t {
    tid_x,
    tid_y,
    tid_z,
    ntid_x,
    ntid_y,
    ntid_z,
    ctaid_x,
    ctaid_y,
    ctaid_z,
    nctaid_x,
    nctaid_y,
    nctaid_z,
    laneid,
    warpid,
    nwarpid,
    smid,
    nsmid,
    gridid,
    lanemask_eq,
    lanemask_le,
    lanemask_lt,
    lanemask_ge,
    lanemask_gt,
    dynamic_smem_size,
    total_smem_size,
    grid_workspace_low,  // %envreg2 and %envreg1: where the blocks of a cooperative launch meet
    grid_workspace_high,
    zero,
    one,
};

// How a slot that is never written gets its value when a frame is made.
struct SlotInit {
    enum class Kind : uint8_t {
        immediate,  // value
        param,      // value: bytes at `index` of the kernel's parameters, sign-extended if `is_signed`
        global,     // address of global `index` plus value
        shared,     // offset of shared variable `index` in the kernel's shared memory plus value
        local,      // offset of the frame's local memory plus value
        special,    // index: Special
        computed,   // by the kernel's prologue
    };
    Kind kind = Kind::immediate;
    bool wide = false;
    bool is_signed = false;
    uint8_t bytes = 0;
    uint32_t index = 0;
    uint64_t value = 0;
    uint32_t slot = kNoSlot;
};

// Where an argument or a return value is, in its function's frame.
struct Place {
    uint32_t bytes = 0;
    bool local = false;  // in local memory, else a slot
    uint32_t offset = 0;
};

// What a call of the CUDA runtime's functions for kernels does. From parameter_buffer on they are those of
// the device runtime (exec/device_runtime.cc).
enum class Builtin : uint8_t {
    none,
    print,
    assertion,
    allocate,
    release,
    parameter_buffer,
    parameter_buffer_of_kernel,
    launch_kernel,
    launch_buffer,
    make_stream,
    end_stream,
    make_event,
    end_event,
    record_event,
    wait_for_event,
    take_error,
    look_at_error,
    device_allocate,
    device_release,
    copy,
    copy_rows,
    fill,
    fill_rows,
    device,
    device_count,
    device_attribute,
    device_limit,
};

struct CallSite {
    uint32_t callee = UINT32_MAX;  // index of a function, or none: through the pointer in `pointer`
    uint32_t pointer = kNoSlot;
    Builtin builtin = Builtin::none;
    std::string undefined;  // the name of a function that no input defines
    std::vector<Place> arguments, returns;
};

// Instructions from this line of the PTX on come from a line of a file in Image::source_files.
struct SourceLine {
    uint32_t ptx_line = 0, file = 0, line = 0;
};

struct Function {
    std::string name;
    std::string input;    // the PTX text's name
    std::string refusal;  // why it has no code but an op that says so; empty for nearly all
    bool kernel = false;
    uint32_t prologue = 0;        // ops from here to `first` run when a host thread joins a launch
    uint32_t first = 0, end = 0;  // ops
    uint32_t slot_bytes = 0;
    uint32_t local_bytes = 0;
    std::vector<SlotInit> constants;  // all but ctaid
    std::vector<SlotInit> block_constants;
    std::vector<Place> params, returns;
    std::vector<uint32_t> calls;           // functions called
    std::vector<uint32_t> launches;        // kernels named, which it may launch
    std::vector<uint32_t> shared_used;     // shared variables named
    bool calls_unknown = false;            // through a pointer
    uint32_t registers = 0;                // 32-bit registers live at once, an estimate
    std::vector<SourceLine> source_lines;  // in order; empty where the PTX has no .loc
};

struct SharedVariable {
    std::string name;
    uint64_t bytes = 0;
    uint32_t align = 1;
    bool dynamic = false;
};

struct GlobalRelocation {
    enum class Kind : uint8_t { global, function, shared };
    Kind kind = Kind::global;
    uint64_t offset = 0;
    uint32_t index = 0;
    int64_t addend = 0;
};

struct GlobalData {
    std::vector<uint8_t> initial;
    std::vector<GlobalRelocation> relocations;
};

struct Kernel {
    uint32_t function = 0;
    std::vector<uint32_t> shared_offsets;  // by shared variable; kNoSlot where the kernel has none
    uint32_t local_bytes = 0;              // a thread's, all frames whose depth is known
    bool unbounded = false;                // there may be more: it recurses, or calls through pointers
    uint32_t dynamic_align = 16;
};

struct Image {
    OpArray ops;
    std::vector<Function> functions;
    std::vector<std::unique_ptr<CallSite>> calls;                     // Op::imm points to one
    std::vector<std::unique_ptr<std::vector<const Op*>>> tables;      // brx.idx; Op::imm points to one
    std::vector<std::unique_ptr<std::vector<uint32_t>>> slot_tables;  // of instructions with many operands
    std::vector<SharedVariable> shared;
    std::vector<GlobalInfo> globals;
    std::vector<GlobalData> global_data;
    std::vector<KernelInfo> kernel_infos;
    std::vector<Kernel> kernels;
    std::vector<RefusedKernel> refused;

    std::vector<std::string> source_files;

    // Has the instructions of the teaching mode; its shared and its device memory are looked at in units of
    // so many bytes.
    bool checked = false;
    uint32_t check_unit = 4, check_device_unit = 4;

    const Function* function_of(const Op* op) const;
    // "lesson.cu:12", empty where the PTX does not say.
    std::string source_of(const Op* op) const;
};

}  // namespace softgpu
