// What client and worker say to each other on a lane, after the Hello.
//
// Frames. The client sends a FrameHeader and `length` bytes. Calls that have no answer (launches, copies in,
// memsets, frees, records, waits of streams for events, creations of handles) are *posted*: nobody waits for
// them and nothing comes back; the session keeps the first error of a posted call and returns it with the
// next call that is *asked*. An asked call gets a ReplyHeader and `length` bytes. A thread has one asked call
// under way, or several looks into memory, which are answered in turn: replies need no number.
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

#include "box.h"

namespace wire {

// Grows when the layouts below, or those of box.h, graph_wire.h and libraries/call.h, change
// (tests/forwarding/test_protocol.py); what calls.txt makes is covered by kCallsDigest (calls_wire.h).
inline constexpr uint32_t kProtocolVersion = 6;

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
// Notices in one reply, and a notice's text.
inline constexpr uint32_t kMaxNotices = 256 * 1024;
inline constexpr uint32_t kMaxNoticeText = 64 * 1024;

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
    uint32_t length;  // and the two bits below
    int32_t status;   // a CUresult
};
static_assert(sizeof(ReplyHeader) == 8);
// Bits of `length`. Notices wait for the session: the client takes them before its call returns, so that what
// a kernel has printed is with the program when a call that waited for the kernel returns.
inline constexpr uint32_t kNoticesWait = 1u << 31;
// The context goes on although `status` is one that ends contexts: the kernel was interrupted.
inline constexpr uint32_t kContextGoesOn = 1u << 30;
inline constexpr uint32_t kReplyLength = kContextGoesOn - 1;

// Calls whose marshalling is written by hand. Those of calls.txt follow from kFirstGenerated on.
enum Opcode : uint16_t {
    kOpInvalid = 0,
    kOpLaunch = 1,         // posted: LaunchHead, attributes, parameters
    kOpCopyIn = 2,         // posted: CopyHead, bytes
    kOpCopyOut = 3,        // asked: CopyHead; one reply a chunk
    kOpAllocate = 4,       // asked: AllocateHead; Allocated
    kOpLoadLibrary = 5,    // asked: LoadHead, options, [image]; LoadReply
    kOpUploadImage = 6,    // posted: digest, offset, total, bytes
    kOpUnloadLibrary = 7,  // posted: u64 library
    kOpGetGlobal = 8,      // asked: u64 library, name; u64 address, u64 bytes
    kOpLink = 9,         // asked: LinkHead, options, inputs (all uploaded as images); LinkReply, logs, image
    kOpMemoryInfo = 10,  // asked: u64 free, u64 total
    kOpWaitForDevice = 11,   // asked: nothing; all of it has run, and what is to be told of it is not
    kOpSetAttribute = 12,    // posted: FunctionAttribute
    kOpCopyBoxIn = 13,       // posted: BoxHead of one piece (box.h), its bytes without gaps
    kOpCopyBoxOut = 14,      // asked: BoxHead; one reply a piece, its bytes without gaps
    kOpCopyBox = 15,         // posted: BoxCopy
    kOpCreatePool = 16,      // asked: PoolHead
    kOpSetPoolAccess = 17,   // asked: AccessHead
    kOpCreateMemory = 18,    // asked: CreateMemoryHead
    kOpSetAccess = 19,       // asked: AccessHead
    kOpHostCall = 20,        // posted: HostCall
    kOpNextHostCall = 21,    // asked, in no order: u64, the ticket that is done, or 0; HostCallReply
    kOpEndContext = 22,      // posted: handles and addresses that a context of the client owned
    kOpContextEvent = 23,    // posted: ContextEvent
    kOpResetLibraries = 24,  // posted: u64 libraries, which are loaded anew under the same handles
    kOpStreamMemory = 25,    // posted: StreamMemoryHead, StreamMemoryOp * count
    kOpMemoryLook = 26,      // asked, in no order: MemoryLook, [bytes]; [bytes]
    kOpWaitInStream = 27,    // asked: u64 stream; all has run that an operation of it would come after
    kOpLibraryCall = 28,     // posted: u64 stream, a call of a maths library (libraries/call.h)
    kOpLibraryLook = 29,     // asked: LibraryLook; GkEnd, or NOT_SUPPORTED where nothing computes its calls.
                             // LibraryLook, a call of cublasLtMatmul; u64 bytes of workspace (kGkAsk)
    kOpGraphPart = 30,       // posted; these: graph_wire.h
    kOpGraphMake = 31,       // asked
    kOpGraphSet = 32,        // posted
    kOpGraphEnable = 33,     // posted
    kOpGraphInput = 34,      // posted
    kOpGraphRun = 35,        // posted
    kOpGraphOutput = 36,     // asked
    kOpGraphEnd = 37,        // posted
    kOpGraphLook = 38,       // asked, in no order
    kOpTakeNotices = 40,     // asked, out of order: nothing; (NoticeHead, text)*
    kOpSetChecks = 41,       // asked: ChecksMessage; the software GPU checks the session's kernels
    kOpInterrupt = 42,       // asked, out of order: InterruptMessage; the session's running kernels end
    kOpMakeArray = 43,       // asked: ArrayHead, u64 * levels: handles of a mipmapped array's levels
    kOpEndArray = 44,        // posted: u64 array, or a mipmapped one; levels go with it
    kOpMakeTexture = 45,     // asked: TextureHead; u64, the object's value on the device, for kernels
    kOpEndTexture = 46,      // posted: TextureEnd
    kOpMapHost = 47,         // asked: MapHost; its file came through the passage. cuMemFree takes it back
    kOpCopyBack = 48,        // posted: CopyBack; its stream waits until the client has the bytes
    kOpNextCopyBack = 49,    // asked, in no order: u64, the ticket that is done, or 0; CopyBackReply, then,
                             // where its status is 0, one reply a piece, as to kOpCopyBoxOut
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

// A copy's box on the device.
struct BoxHead {
    Box box;
    uint64_t stream;
};

// A copy to the client's memory that nobody waits for.
struct CopyBack {
    BoxHead from;
    uint64_t ticket;  // the client's name for it; not 0
};
inline constexpr uint32_t kMostCopiesBack = 1024;  // of a session, at one time

struct CopyBackReply {
    uint64_t ticket;
    int32_t status;  // a CUresult: why nothing comes of it
    uint32_t zero;
};

// Both ends are on a device of the lease, each on any.
struct BoxCopy {
    BoxHead to;
    Box from;  // its shape counts for nothing: it is that of `to`
};

// managed: begins in the first page of the answer, and nothing else lies in its pages, since the client maps
// them on the host at the same addresses.
// mappable, and managed_here: in the slice file where that is possible, so that the client can map it
// (docs/design/shared-memory.md).
enum class AllocationKind : uint32_t {
    device = 0,
    pitched = 1,
    stream_ordered = 2,
    managed = 3,
    mappable = 4,
    managed_here = 5
};
inline constexpr uint64_t kManagedPage = 4096;

struct AllocateHead {
    uint32_t kind;     // AllocationKind
    uint32_t element;  // of pitched memory, bytes
    uint64_t bytes;    // a row, for pitched memory
    uint64_t rows;
    uint64_t stream;  // of stream_ordered
    uint64_t pool;    // of stream_ordered: a handle, or a device's number for its default pool
};

struct Allocated {
    uint64_t address;
    uint64_t pitch;  // of pitched memory
    uint64_t place;  // of memory for the client to map: where in the slice file it begins, or kNoPlace
};
inline constexpr uint64_t kNoPlace = UINT64_MAX;
inline constexpr uint64_t kFilePage = 4096;  // places are whole ones

// An array, or with levels a mipmapped one, as cuda/array_shape.h has it.
struct ArrayHead {
    uint64_t array;  // minted by the client
    uint64_t width, height, depth;
    uint32_t format;  // CUarray_format
    uint32_t channels;
    uint32_t flags;
    uint32_t levels;
};
inline constexpr uint32_t kMaxArrayLevels = 20;

// A texture or surface object; what samples and the view are a texture's. cuda/texture_desc.h checks them.
struct TextureHead {
    uint32_t is_surface;
    uint32_t type;    // CUresourcetype
    uint64_t source;  // an array's handle, or an address
    uint32_t format;  // of memory, as all of this and the next line
    uint32_t channels;
    uint64_t width, height, pitch;  // the width of linear memory is in bytes
    uint32_t address_modes[3];
    uint32_t filter;
    uint32_t flags;
    uint32_t anisotropy;
    uint32_t mipmap_filter;
    float mipmap_bias, least_level, greatest_level;
    float border[4];
    uint32_t has_view;
    uint32_t view_format;
    uint64_t view_width, view_height, view_depth;
    uint32_t first_level, last_level, first_layer, last_layer;
};
static_assert(sizeof(TextureHead) == 152);

struct TextureEnd {
    uint64_t value;
    uint32_t is_surface;
    uint32_t zero;
};

// Where clients have their pinned memory, and neither programs nor libraries nor devices lie. What the worker
// maps for one lies there, at the same address.
inline constexpr uint64_t kPinnedFirst = 0x3000'0000'0000, kPinnedEnd = 0x5000'0000'0000;

struct MapHost {
    uint64_t address;
    uint64_t bytes;  // that kernels may reach; the file has the whole pages of them
};

struct PoolHead {
    uint64_t pool;  // minted by the client
    uint64_t max_bytes;
    uint32_t device;
    uint32_t zero;
};
inline constexpr size_t kMaxPools = 4096;  // of a session

struct CreateMemoryHead {
    uint64_t memory;  // minted by the client
    uint64_t bytes;
};

struct AccessHead {
    uint64_t target;  // a pool, or the address of a mapping
    uint64_t bytes;   // of the mapping
    uint32_t device;  // who gets or loses access
    uint32_t flags;   // CUmemAccess_flags
    uint64_t in_use;  // of a mapping: kernels need no more of it from its start; 0: they need all
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
// and ParamRow * param_count, and for each kernel that a software GPU refuses while it runs the others
// RefusedRow, its name and the line that says why.
struct LoadReply {
    uint32_t need_image;  // 1: not loaded, send the image and ask again
    uint32_t kernel_count;
    uint32_t refused_count;
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

inline constexpr uint32_t kMaxRefusalBytes = 4096;

struct RefusedRow {
    uint32_t name_bytes;
    uint32_t why_bytes;  // at most kMaxRefusalBytes
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

struct HostCall {
    uint64_t stream;
    uint64_t ticket;       // the client's name for the function; not 0
    uint32_t with_status;  // 1: for cuStreamAddCallback, which is also called after an error
    uint32_t zero;
};

enum class HostCallNotice : uint32_t {
    call = 0,  // the stream waits for the function
    drop = 1,  // it will not be called: the driver refused it
};

struct HostCallReply {
    uint64_t ticket;
    int32_t status;  // a CUresult
    HostCallNotice what;
};

struct ContextEvent {
    uint64_t event;
    uint32_t wait;  // 0: the event is recorded behind all work of the context; 1: all later work waits for it
    uint32_t zero;
};

struct StreamMemoryHead {
    uint64_t stream;
    uint32_t count;
    uint32_t zero;
};

// A value that the stream writes, or waits for.
struct StreamMemoryOp {
    uint32_t kind;  // CUstreamBatchMemOpType
    uint32_t flags;
    uint64_t address;
    uint64_t value;
};

// Device memory as it is now, or, with `give`, bytes for it. For functions of the program, for which streams
// wait: other calls may wait for those streams, so this one waits for none.
struct MemoryLook {
    uint64_t address;
    uint32_t bytes;  // at most kChunk
    uint32_t give;
};

struct LibraryLook {
    uint32_t library;  // GkLibrary
    uint32_t major;    // of its version
};

struct FunctionAttribute {
    uint64_t library;
    uint32_t kernel;
    uint32_t attribute;
    int32_t value;
    uint32_t zero;
};

enum class NoticeKind : uint32_t {
    output = 0,  // device printf: standard output, as it is
    error = 1,   // assert's words: standard error, as they are
    lines = 2,   // for the person: lines of the log
};

struct NoticeHead {
    uint32_t kind;  // NoticeKind
    uint32_t bytes;
};

struct InterruptMessage {
    uint32_t end_worker;  // 1: where kernels cannot be stopped alone, the worker ends
};

struct ChecksMessage {
    uint32_t checks;  // GkCheck of softgpu/driver/extension.h
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
    uint64_t granularity[2];  // of cuMemCreate: the least, the recommended; 0 when the driver has none
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
    exec = 0x16,
    context = 0x1f,  // of the client alone
    pool = 0x21,
    physical = 0x22,
    array = 0x23,
    mipmapped_array = 0x24
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
