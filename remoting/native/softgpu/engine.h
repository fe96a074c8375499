// The software GPU's engine, as the driver layer sees it: PTX text in, kernels run over bounds-checked
// memory.
//
// Nothing here throws past the interface and nothing a PTX text, a parameter or a pointer holds can end the
// process: a bad text is an error string, a bad access is a LaunchResult. All functions are thread-safe
// unless they say otherwise.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace softgpu {

namespace texture {
class Objects;  // exec/texture/objects.h
}

// What one block may use; a text or launch beyond it is refused. Those of compute capability 7.5, where it
// has one.
struct Limits {
    static constexpr uint32_t threads_per_block = 1024;
    static constexpr uint32_t shared_bytes =
        64 * 1024;  // static plus dynamic; above 48 KiB the driver asks for opt-in
    static constexpr uint32_t local_bytes = 512 * 1024;  // a thread's, calls included
    static constexpr uint32_t constant_bytes = 64 * 1024;
    static constexpr uint32_t param_bytes = 32764;  // 4096 before PTX 8.1
    static constexpr uint32_t call_depth = 256;     // unless a launch has a larger stack
    static constexpr uint32_t stack_bytes =
        64 * 1024;  // a thread's, for calls of a depth that is not known; the same
    static constexpr size_t text_bytes = 64u << 20;  // of one link, all inputs together
};

// Generic addresses of the windows that are not device memory. No host or device allocation can lie here:
// they are not canonical addresses on x86-64, with four or five levels of page tables.
struct Windows {
    static constexpr uint64_t shared = 0x0100'0000'0000'0000;
    static constexpr uint64_t local = 0x0200'0000'0000'0000;
    static constexpr uint64_t param = 0x0300'0000'0000'0000;
    static constexpr uint64_t function = 0x0400'0000'0000'0000;
    static constexpr uint64_t size = 0x0100'0000'0000'0000;
};

struct ParamInfo {
    uint32_t offset = 0;
    uint32_t bytes = 0;
    uint32_t align = 1;
};

struct KernelInfo {
    std::string name;
    std::vector<ParamInfo> params;
    uint32_t param_bytes = 0;  // end of the last parameter
    uint32_t static_shared_bytes = 0;
    uint32_t local_bytes = 0;     // a thread's, of the kernel and the deepest call that is known
    uint32_t constant_bytes = 0;  // the module's
    uint32_t registers = 0;       // an estimate, 1..255, as cuFuncGetAttribute reports
    uint32_t max_threads = Limits::threads_per_block;  // .maxntid or .reqntid
    std::array<uint32_t, 3> required_block{0, 0, 0};   // .reqntid, zero when absent
    uint32_t ptx_version = 0;                          // 85 for 8.5
    uint32_t target = 0;                               // 75 for sm_75
};

// A kernel that cannot run, of a program with others that can.
struct RefusedKernel {
    std::string name;
    std::string why;  // "ptxas name, line 12; error   : unknown instruction foo.s32 (column 5)"
};

struct GlobalInfo {
    std::string name;
    uint64_t bytes = 0;
    uint64_t align = 1;
    bool constant = false;  // .const
    bool visible = false;   // .visible, .weak or .common: what cuModuleGetGlobal may find
    bool opaque = false;    // .texref, .samplerref or .surfref: holds the number of an object
};

struct PtxInput {
    std::string_view name;  // for messages
    std::string_view text;  // a trailing NUL is allowed
};

struct Image;  // typed instructions; the engine's own

class Program;
struct LinkResult {
    std::shared_ptr<const Program> program;  // null on failure
    std::string error;                       // "ptxas name, line 12; error   : unknown instruction foo.s32"
};

struct LinkOptions {
    bool allow_undefined = false;  // leave .extern symbols open: only then may a launch that needs one fail
};

// Immutable, linked PTX; shared by every context that loads it. A kernel with what the engine does not know,
// or that may call a function with it, is refused alone; a link of which no kernel is left fails.
class Program {
  public:
    static LinkResult link(std::span<const PtxInput> inputs, const LinkOptions& options = {}) noexcept;
    explicit Program(std::unique_ptr<const Image> image);
    ~Program();

    std::span<const KernelInfo> kernels() const;  // in order of the text, without those that are refused
    std::span<const RefusedKernel> refused() const;
    std::span<const GlobalInfo> globals() const;
    std::optional<uint32_t> find_kernel(std::string_view name) const;
    const Image& image() const { return *image_; }

  private:
    std::unique_ptr<const Image> image_;
};

struct Allocation {
    uint64_t base = 0;
    uint64_t bytes = 0;  // as asked, not rounded
    bool host = false;   // memory of the process that was mapped with map_host
};

// The address space of one device. A device address is the address in this process, so a checked address can
// be used as it is. Backing pages appear on first touch and go back when an allocation is freed; the range
// stays mapped, so a stale address can never be a fault of the process.
class DeviceMemory {
  public:
    // Null when the address range cannot be reserved.
    static std::unique_ptr<DeviceMemory> create(uint64_t total_bytes) noexcept;
    ~DeviceMemory();
    DeviceMemory(const DeviceMemory&) = delete;
    DeviceMemory& operator=(const DeviceMemory&) = delete;

    // 0 when less than `bytes` is left, when bytes is 0 or align is not a power of two up to 2 MiB. Zeroed.
    uint64_t allocate(uint64_t bytes, uint64_t align = 256) noexcept;
    // False when `base` is not the start of a live allocation. The address is not handed out again until the
    // rest of the (several times larger) range has been.
    bool free(uint64_t base) noexcept;
    // As kernels allocate and free: what has another owner, who frees it, no kernel frees.
    uint64_t allocate_by_kernel(uint64_t bytes, uint64_t align) noexcept;
    bool free_by_kernel(uint64_t base) noexcept;
    // Memory of the process, without an address: what works for the device takes it of what is not allocated.
    // False when less than `bytes` is left.
    bool take(uint64_t bytes) noexcept;
    void give_back(uint64_t bytes) noexcept;
    // Makes host memory accessible to kernels under its own address (pinned and managed memory). The caller
    // unmaps before the memory goes away and after the launches that may use it have ended. Does not count as
    // used.
    bool map_host(void* memory, uint64_t bytes) noexcept;
    bool unmap_host(void* memory) noexcept;

    std::optional<Allocation> find(uint64_t address) const noexcept;     // the one that holds it
    std::optional<Allocation> nearest(uint64_t address) const noexcept;  // that, or the closest; for messages

    // The host's view of [address, address + bytes), null unless all of it lies in one allocation.
    std::byte* host_pointer(uint64_t address, uint64_t bytes) const noexcept;
    bool read(void* to, uint64_t from, uint64_t bytes) const noexcept;
    bool write(uint64_t to, const void* from, uint64_t bytes) const noexcept;

    uint64_t total_bytes() const noexcept;
    uint64_t used_bytes() const noexcept;  // with each allocation rounded up to its 512-byte granule
    uint64_t generation() const noexcept;  // grows with every change of the table

  private:
    struct State;
    enum class Owner : uint8_t { host, kernel };
    uint64_t allocate(uint64_t bytes, uint64_t align, Owner owner) noexcept;
    bool free(uint64_t base, Owner owner) noexcept;
    explicit DeviceMemory(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

struct GlobalPlace {
    uint64_t address = 0;
    uint64_t bytes = 0;
};

class LoadedModule;
struct LoadResult {
    std::unique_ptr<LoadedModule> module;  // null on failure
    std::string error;                     // out of memory is the only one
};

// A program with its globals placed in a device's memory. Frees them when destroyed; must not outlive
// `memory`.
class LoadedModule {
  public:
    static LoadResult load(std::shared_ptr<const Program> program, DeviceMemory& memory) noexcept;
    ~LoadedModule();
    LoadedModule(const LoadedModule&) = delete;
    LoadedModule& operator=(const LoadedModule&) = delete;

    const Program& program() const { return *program_; }
    DeviceMemory& memory() const { return *memory_; }
    std::optional<GlobalPlace> find_global(std::string_view name) const;  // visible ones
    uint64_t global_address(uint32_t index) const { return places_[index]; }

  private:
    LoadedModule(std::shared_ptr<const Program> program, DeviceMemory& memory);
    std::shared_ptr<const Program> program_;
    DeviceMemory* memory_;
    std::vector<uint64_t> places_;  // by index in program().globals()
};

// Host threads that blocks are spread over. One pool serves any number of concurrent launches; the thread
// that calls run() works too. With 1 thread, everything runs in the caller.
class ThreadPool {
  public:
    explicit ThreadPool(unsigned threads = 0);  // 0: one a core
    ~ThreadPool();
    unsigned threads() const;
    // Calls task() on the caller and on up to `helpers` idle threads; returns when all have returned.
    void run(unsigned helpers, const std::function<void()>& task);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

struct Dim3 {
    uint32_t x = 1, y = 1, z = 1;
};

enum class Status {
    ok,
    invalid_launch,       // grid, block, shared or parameters out of bounds; nothing ran
    illegal_address,      // CUDA_ERROR_ILLEGAL_ADDRESS
    misaligned_address,   // CUDA_ERROR_MISALIGNED_ADDRESS
    illegal_instruction,  // CUDA_ERROR_ILLEGAL_INSTRUCTION
    invalid_pc,           // CUDA_ERROR_INVALID_PC: a call through a pointer that is no function
    stack_overflow,       // CUDA_ERROR_HARDWARE_STACK_ERROR: calls too deep
    assertion,            // CUDA_ERROR_ASSERT
    trap,                 // CUDA_ERROR_LAUNCH_FAILED (715/719)
    deadlock,             // threads wait for each other for ever; CUDA would hang. CUDA_ERROR_LAUNCH_TIMEOUT
    out_of_memory,        // of the host, for the launch's own state
    cancelled,
    interrupted,
};

struct LaunchResult {
    Status status = Status::ok;
    // One line for the log: kernel, block, thread, address, nearest allocation, PTX line. Empty when ok.
    std::string detail;
};

// What kernels may ask of their device, and how far they may go in launching kernels.
struct DeviceRuntime {
    int device = 0, devices = 1;
    uint32_t pending_launches = 2048;  // made by kernels, and not begun
    std::function<std::optional<int>(int attribute)> attribute = {};
    std::function<std::optional<size_t>(int limit)> limit = {};
    std::function<uint32_t(uint32_t kernel)> most_dynamic_shared = {};  // none: what a block can have
};

struct Launch {
    const LoadedModule* module = nullptr;
    uint32_t kernel = 0;  // index in program().kernels()
    Dim3 grid, block;
    uint32_t dynamic_shared_bytes = 0;
    // What the program has set for a thread's calls of a depth that is not known (recursion): they may be
    // deeper, and have this much local memory if it is more than Limits::stack_bytes.
    uint64_t stack_bytes = 0;
    // All blocks run at the same time, so that they may wait for each other; the caller bounds their number.
    bool cooperative = false;
    std::span<const std::byte> params;          // packed as KernelInfo::params says; at least param_bytes
    const texture::Objects* objects = nullptr;  // textures and surfaces that the kernel may use
    ThreadPool* pool = nullptr;                 // null: in the calling thread
    const std::atomic<bool>* cancel = nullptr;  // looked at now and then; set it to end the launch
    // An interrupt: the launch ends when this is no longer `interrupts_before`.
    const std::atomic<uint64_t>* interrupts = nullptr;
    uint64_t interrupts_before = 0;
    // Device printf, and what assert prints; a whole call at a time, any thread.
    std::function<void(std::string_view)> print = {}, complain = {};
    DeviceRuntime device_runtime = {};
};

// Runs the launch to its end, and what its kernels launch. Launches may run at the same time, also of one
// module.
LaunchResult run(const Launch& launch) noexcept;

// "x86-64-v4", "x86-64-v3", "x86-64-v2" or "generic": the executor that this machine runs.
std::string_view executor_name() noexcept;

}  // namespace softgpu
