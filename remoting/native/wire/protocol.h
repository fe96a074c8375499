// What client and worker say to each other on a lane, after the Hello.
//
// Frames. The client sends a FrameHeader and `length` bytes. Calls that have no answer (launches, copies in,
// memsets, frees, records, waits of streams for events, creations of handles) are *posted*: nobody waits for
// them and nothing comes back; the session keeps the first error of a posted call and returns it with the
// next call that is *asked*. An asked call gets a ReplyHeader and `length` bytes. A thread has at most one
// asked call under way, so replies need no number.
//
// Order: why posting is right. CUDA programs may rely on this: when call X has returned before call Y began,
// in whatever threads, X is submitted before Y. A lane is a stream of bytes that the worker handles strictly
// in order, so within a thread this holds. Across threads the frame's `order` sees to it:
//   - A session counts its posted calls. Each takes the next number n when its function is entered and
//   carries
//     it as `order`. The worker runs it when `executed` of the session is n-1, and then sets `executed` to n.
//   - An asked call takes no number; it carries the count at its entry, and runs when `executed` has reached
//   it.
// Let X return before Y begins. If X is posted, it has number x. Y, posted or asked, was entered later, so
// its order is greater than x (posted) or at least x (asked), and it runs after X was executed. If X is
// asked, it was executed before it returned. No deadlock: consider the unexecuted posted call with the lowest
// number n. All before it in its lane are executed: posted ones have lower numbers, and an asked one had
// returned to the same thread. So its lane's worker thread is reading for it, and the bytes come, because the
// client sends a lane's buffer after a bounded time whatever the thread does next (client/flusher.h). An
// asked call waits for posted calls only, never for another asked call: a long synchronize in one thread does
// not hold up the others. A number that is lost with its lane would stop the session; so a lane that breaks
// ends its session, and a client that invents numbers hurts itself.
//
// Handles are minted by the client, and checked by the worker against the session's own tables. Device
// addresses are the only values of the server that a client sees; every copy and memset is checked against
// the allocations of the lease. Pointers inside kernel parameters cannot be checked here: the GPU's page
// tables (or the software GPU) do that.
//
// Sizes. A frame's payload is at most kMaxPayload, checked before anything is allocated. Copies of any size
// are cut into chunks.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace wire {

// Grows when the layouts below change; what calls.txt makes is covered by kCallsDigest (calls_wire.h).
inline constexpr uint32_t kProtocolVersion = 1;

// A chunk stays in a core's cache between the socket and the driver.
inline constexpr uint32_t kChunk = 256 * 1024;
// The largest payload: an image or a link is cut into pieces of this size too.
inline constexpr uint32_t kMaxPayload = 1024 * 1024;
// An image (or one input of a link) that a client may load.
inline constexpr uint64_t kMaxImage = 512ull * 1024 * 1024;
// Images up to this size ride on the load; larger ones are named first and sent when the worker lacks them.
inline constexpr uint64_t kInlineImage = 32 * 1024;
// What CUDA allows for all parameters of a kernel since 12.1.
inline constexpr uint32_t kMaxParamBytes = 32764;
inline constexpr uint32_t kMaxLaunchAttributes = 32;
inline constexpr uint32_t kMaxNameBytes = 64 * 1024;
inline constexpr uint32_t kMaxJitOptions = 64;
inline constexpr uint32_t kMaxLogBytes = 64 * 1024;
inline constexpr uint32_t kMaxDevices = 16;
inline constexpr uint32_t kMaxReply = 64 * 1024 * 1024;

struct FrameHeader {
    uint32_t length;  // of the payload
    uint16_t opcode;
    uint8_t device;  // ordinal of the current context's device
    uint8_t flags;
    uint64_t order;
};
static_assert(sizeof(FrameHeader) == 16);

// Work on the thread's own default stream: the _ptds form of a call that names no stream.
inline constexpr uint8_t kPerThreadStream = 1;
// A copy in whose caller may use the data from any stream as soon as the call has returned.
inline constexpr uint8_t kWholeCopy = 2;

struct ReplyHeader {
    uint32_t length;
    int32_t status;  // a CUresult
};
static_assert(sizeof(ReplyHeader) == 8);

// Calls whose marshalling is written by hand. Those of calls.txt follow from kFirstGenerated on.
enum Opcode : uint16_t {
    kOpInvalid = 0,
    kOpLaunch = 1,         // posted: LaunchHead, attributes, parameters
    kOpCopyIn = 2,         // posted: CopyHead, bytes
    kOpCopyOut = 3,        // asked: CopyHead; one reply a chunk
    kOpAllocate = 4,       // asked: AllocateHead; u64 address, u64 pitch
    kOpLoadLibrary = 5,    // asked: LoadHead, options, [image]; LoadReply
    kOpUploadImage = 6,    // posted: digest, offset, total, bytes
    kOpUnloadLibrary = 7,  // posted: u64 library
    kOpGetGlobal = 8,      // asked: u64 library, name; u64 address, u64 bytes
    kOpLink = 9,          // asked: LinkHead, options, inputs (all uploaded as images); LinkReply, logs, image
    kOpMemoryInfo = 10,   // asked: u64 free, u64 total
    kOpResetDevice = 11,  // posted: frees what the session has on the device
    kOpSetAttribute = 12,  // posted: FunctionAttribute
    kFirstGenerated = 64,
};

struct LaunchHead {
    uint64_t library;
    uint64_t stream;
    uint32_t kernel;  // index in the library's table
    uint32_t grid[3];
    uint32_t block[3];
    uint32_t shared_bytes;
    uint32_t attribute_count;
    uint32_t param_bytes;
};
static_assert(sizeof(LaunchHead) == 56);

// A CUlaunchAttribute without its padding.
struct LaunchAttribute {
    uint32_t id;
    uint32_t zero;
    uint8_t value[64];
};
static_assert(sizeof(LaunchAttribute) == 72);

struct CopyHead {
    uint64_t address;
    uint64_t bytes;
    uint64_t stream;
};

enum class AllocationKind : uint32_t { device = 0, pitched = 1, stream_ordered = 2 };

struct AllocateHead {
    uint32_t kind;     // AllocationKind
    uint32_t element;  // of pitched memory, bytes
    uint64_t bytes;    // a row, for pitched memory
    uint64_t rows;
    uint64_t stream;  // of stream_ordered
};

struct Digest {
    uint8_t bytes[32];
    bool operator==(const Digest&) const = default;
    auto operator<=>(const Digest&) const = default;
};

struct LoadHead {
    uint64_t library;  // minted by the client
    Digest digest;
    uint64_t image_bytes;
    uint32_t inline_image;  // 1: the image follows the options
    uint32_t option_count;
    uint32_t info_log_bytes;
    uint32_t error_log_bytes;
};

struct JitOption {
    uint32_t option;
    uint32_t zero;
    uint64_t value;
};

// The reply to a load, whatever its status, is: LoadReply, the logs, then for each kernel KernelRow, its name
// and ParamRow * param_count.
struct LoadReply {
    uint32_t need_image;  // 1: not loaded, send the image and ask again
    uint32_t kernel_count;
    uint32_t info_log_bytes;
    uint32_t error_log_bytes;
};

inline constexpr uint32_t kFunctionAttributes = 18;

struct KernelRow {
    uint32_t name_bytes;
    uint32_t param_count;
    int32_t
        attributes[kFunctionAttributes];  // by CUfunction_attribute; INT32_MIN: the driver does not know it
};

struct ParamRow {
    uint32_t offset;
    uint32_t bytes;
};

struct UploadHead {
    Digest digest;
    uint64_t offset;
    uint64_t total;
};

struct GlobalHead {
    uint64_t library;
    uint32_t name_bytes;
    uint32_t managed;
};

struct LinkHead {
    uint32_t input_count;
    uint32_t option_count;
    uint32_t info_log_bytes;
    uint32_t error_log_bytes;
};

struct LinkInput {
    Digest digest;
    uint64_t bytes;
    uint32_t type;  // CUjitInputType
    uint32_t name_bytes;
};

struct LinkReply {
    uint64_t image_bytes;
    uint32_t info_log_bytes;
    uint32_t error_log_bytes;
};

struct FunctionAttribute {
    uint64_t library;
    uint32_t kernel;
    uint32_t attribute;
    int32_t value;
    uint32_t zero;
};

// The worker's first bytes on a lane: a ReplyHeader and this, then DeviceSnapshot * device_count. A status
// that is not 0 means that this lane is refused; the payload is then the text for the user.
struct Welcome {
    uint32_t protocol_version;
    uint32_t calls_digest;
    uint32_t driver_version;
    uint32_t device_count;
};

inline constexpr uint32_t kDeviceAttributes = 192;
inline constexpr uint32_t kDeviceLimits = 16;

struct DeviceSnapshot {
    char name[256];
    uint8_t uuid[16];
    char pci_bus_id[32];
    uint64_t total_bytes;  // of the slice
    int32_t attributes[kDeviceAttributes];
    int32_t attribute_status[kDeviceAttributes];  // a CUresult each
    uint64_t limits[kDeviceLimits];
    int32_t limit_status[kDeviceLimits];
    int32_t least_priority;
    int32_t greatest_priority;
};

// Handles: the kind in the top byte, a generation, and an index that both sides use to look it up. Values
// below kFirstHandle are CUDA's special streams.
enum class HandleKind : uint8_t {
    stream = 0x11,
    event = 0x12,
    library = 0x13,
    kernel = 0x14,
    graph = 0x15,
    exec = 0x16
};
inline constexpr uint64_t kFirstHandle = 16;
inline constexpr uint32_t kMaxHandles = 1u << 20;  // of a kind, in a session, at one time

constexpr uint64_t make_handle(HandleKind kind, uint32_t generation, uint32_t index) {
    return static_cast<uint64_t>(kind) << 56 | static_cast<uint64_t>(generation & 0xffffff) << 32 | index;
}
constexpr HandleKind handle_kind(uint64_t handle) {
    return static_cast<HandleKind>(handle >> 56);
}
constexpr uint32_t handle_index(uint64_t handle) {
    return static_cast<uint32_t>(handle);
}

}  // namespace wire
