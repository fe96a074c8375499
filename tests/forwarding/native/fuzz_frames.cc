// libFuzzer: what a client sends on a lane. The first byte says which: any bytes, or frames that are whole
// and in order and lie in what they say (hostile_frames.h). Neither a crash nor a hang may come of it.
//
// FUZZ_DRIVER names the driver: the recording one, or the software GPU's, which has graphs and pools besides.
#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "blake2b.h"
#include "hostile_frames.h"
#include "lane.h"
#include "options.h"

namespace {

constexpr uint64_t kStream = wire::make_handle(wire::HandleKind::stream, 1, 1);
constexpr uint64_t kEvent = wire::make_handle(wire::HandleKind::event, 1, 1);
constexpr uint64_t kLibrary = wire::make_handle(wire::HandleKind::library, 1, 1);

// Loaded before the lies begin, under kLibrary: either driver takes one of them.
constexpr std::string_view kFirst[] = {
    "entry store 8 4\n",
    ".version 8.0\n.target sm_75\n.address_size 64\n"
    ".visible .global .align 4 .u32 counter = 7;\n"
    ".visible .global .align 8 .b8 table[4096];\n"
    ".global .align 1 .b8 words[4] = {104, 105, 10, 0};\n"
    ".extern .func (.param .b32 result) vprintf(.param .b64 format, .param .b64 values);\n"
    ".visible .entry store(.param .u64 to, .param .u32 value) {\n"
    ".reg .u64 %a; .reg .u32 %v; ld.param.u64 %a, [to]; ld.param.u32 %v, [value];\n"
    "st.global.u32 [%a], %v; ret; }\n"
    ".visible .entry spin(.param .u64 rounds) {\n"
    ".reg .u64 %n; .reg .pred %p; ld.param.u64 %n, [rounds];\n"
    "again: setp.eq.u64 %p, %n, 0; @%p bra done; sub.u64 %n, %n, 1; bra again; done: ret; }\n"
    ".visible .entry count() {\n"
    ".reg .u64 %a; .reg .u32 %v; .shared .align 4 .u32 sum; mov.u64 %a, counter;\n"
    "atom.shared.add.u32 %v, [sum], 1; bar.sync 0; atom.global.add.u32 %v, [%a], 1; ret; }\n"
    ".visible .entry print() {\n"
    ".reg .u64 %a; .reg .u32 %r; mov.u64 %a, words; cvta.global.u64 %a, %a;\n"
    "{ .param .b64 format; .param .b64 values; .param .b32 result; st.param.b64 [format], %a;\n"
    "st.param.b64 [values], 0; call (result), vprintf, (format, values); ld.param.b32 %r, [result]; } ret; "
    "}\n"};

// What else is loaded, uploaded and linked: two that belong together, one that is broken, one that is none.
constexpr std::string_view kPrograms[] = {
    kFirst[0],
    kFirst[1],
    ".version 8.0\n.target sm_75\n.address_size 64\n"
    ".extern .func (.param .u32 r) twice(.param .u32 x);\n"
    ".visible .entry store(.param .u64 to) {\n"
    ".reg .u64 %a; .reg .u32 %v; ld.param.u64 %a, [to];\n"
    "{ .param .u32 x; .param .u32 r; st.param.u32 [x], 3; call (r), twice, (x); ld.param.u32 %v, [r]; }\n"
    "st.global.u32 [%a], %v; ret; }\n",
    ".version 8.0\n.target sm_75\n.address_size 64\n"
    ".visible .func (.param .u32 r) twice(.param .u32 x) {\n"
    ".reg .u32 %v; ld.param.u32 %v, [x]; add.u32 %v, %v, %v; st.param.u32 [r], %v; ret; }\n",
    ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry broken( { ret; }\n",
    "no image at all"};

// Takes whatever is sent, and says that the peer has gone when it is asked: a frame whose turn never comes is
// given up at once.
class Nobody final : public wire::Transport {
  public:
    bool send(iovec* parts, int count) override {
        last.clear();
        for (int i = 0; i < count; ++i) {
            const auto* bytes = static_cast<const std::byte*>(parts[i].iov_base);
            last.insert(last.end(), bytes, bytes + parts[i].iov_len);
        }
        return true;
    }
    size_t receive(iovec*, int, size_t) override { return 0; }
    void tell(wire::Waiting*, long) override {}
    bool hung_up() override { return true; }
    void shut() override {}
    std::vector<std::byte> last;  // reply
};

const char* driver_path() {
    const char* path = std::getenv("FUZZ_DRIVER");
    return path ? path : "";
}

worker::Worker& the_worker() {
    static auto* worker = [] {
        auto* made = new worker::Worker(-1, {16 << 20});
        worker::Options options;
        options.slices.push_back({.mib = 16, .thousandths = 100, .uuid = "GPU-fuzz"});
        options.name = "Fuzzed GPU";
        std::string error;
        if (!made->driver.open(driver_path(), error) ||
            !open_devices(made->driver, options, made->devices, error)) {
            std::fprintf(stderr, "FUZZ_DRIVER must name a driver: %s\n", error.c_str());
            std::exit(2);
        }
        made->host_memory.set_limit(worker::HostMemory::kDefaultMib, 16 << 20);
        return made;
    }();
    return *worker;
}

// Presses the button when an input lasts: a kernel may run as long as it wants, and a person would not wait.
class Impatience {
  public:
    Impatience() {
        std::thread([this] { watch(); }).detach();
    }
    void begin(std::shared_ptr<worker::Session> session) {
        const std::lock_guard lock(mutex_);
        session_ = std::move(session);
        since_ = Clock::now();
    }
    void end() {
        const std::lock_guard lock(mutex_);
        session_ = nullptr;
    }

  private:
    using Clock = std::chrono::steady_clock;
    [[noreturn]] void watch() {
        for (;;) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            const std::lock_guard lock(mutex_);
            if (session_ && Clock::now() - since_ > std::chrono::milliseconds(200))
                session_->software.interrupt();
        }
    }

    std::mutex mutex_;
    std::shared_ptr<worker::Session> session_;
    Clock::time_point since_;
};

// After a fault has ended the context: another, as another worker would have.
void begin_anew(worker::Worker& worker) {
    static void* const library = dlopen(driver_path(), RTLD_NOW | RTLD_NOLOAD);
    static const auto reset =
        reinterpret_cast<CUresult (*)(CUdevice)>(dlsym(library, "cuDevicePrimaryCtxReset_v2"));
    for (worker::Device& device : worker.devices) {
        if (reset(device.handle) != CUDA_SUCCESS ||
            worker.driver.cuDevicePrimaryCtxRetain(&device.context, device.handle) != CUDA_SUCCESS ||
            worker.driver.cuCtxSetCurrent(device.context) != CUDA_SUCCESS ||
            worker.driver.cuCtxSynchronize() != CUDA_SUCCESS) {
            std::abort();
        }
        worker::invoke(worker.driver.cuDeviceGetDefaultMemPool, &device.pool, device.handle);
    }
    // What of the slice was to come back when the lost context got there went with it.
    std::destroy_at(&worker.ending_frees);
    std::construct_at(&worker.ending_frees, worker);
    std::destroy_at(&worker.pools);
    std::construct_at(&worker.pools);
    // So did what its limits took: a context that is lost lets no session's be lowered when that leaves.
    std::destroy_at(&worker.limits);
    std::construct_at(&worker.limits);
    worker.memory.give_back(0, worker.memory.used(0));
}

bool consume(worker::Lane& lane, std::span<const std::byte> bytes) {
    size_t done = 0;
    return lane.consume(bytes, done);
}

template <typename... Values>
void send(worker::Lane& lane, uint16_t opcode, uint64_t order, const Values&... values) {
    wire::Writer payload, frame;
    (payload.put(values), ...);
    frame.put(wire::FrameHeader{static_cast<uint32_t>(payload.size()), opcode, 0, 0, order});
    frame.put_bytes(payload.bytes().data(), payload.size());
    consume(lane, frame.bytes());
}

// What a session has before the lies begin: memory, whose address comes back, a stream, an event, a program.
uint64_t furnish(worker::Lane& lane, Nobody& transport, uint64_t& order) {
    send(lane, wire::kOp_cuStreamCreateWithPriority, ++order, kStream, uint32_t{0}, int32_t{0});
    send(lane, wire::kOp_cuEventCreate, ++order, kEvent, uint32_t{0});
    for (const std::string_view program : kFirst) {
        wire::LoadHead head{};
        head.library = kLibrary;
        head.image_bytes = program.size();
        head.inline_image = 1;
        head.digest = wire::blake2b(program.data(), program.size());
        wire::Writer frame;
        frame.put(wire::FrameHeader{static_cast<uint32_t>(sizeof head + program.size()), wire::kOpLoadLibrary,
                                    0, 0, order});
        frame.put(head);
        frame.put_text(program);
        consume(lane, frame.bytes());
    }
    send(lane, wire::kOpAllocate, order, wire::AllocateHead{0, 0, 8192, 0, 0, 0});
    uint64_t address = 0;
    if (transport.last.size() >= sizeof(wire::ReplyHeader) + sizeof address)
        std::memcpy(&address, transport.last.data() + sizeof(wire::ReplyHeader), sizeof address);
    return address;
}

void send_lies(worker::Lane& lane, Nobody& transport, std::span<const uint8_t> bytes) {
    constexpr int kMostFrames = 64;
    uint64_t order = 0;
    const uint64_t memory = furnish(lane, transport, order);
    fuzzing::FuzzedData data(bytes);
    hostile::Frames frames(data, memory, order, kPrograms);
    for (int i = 0; i < kMostFrames && data.remaining_bytes() > 0; ++i) {
        transport.last.clear();
        if (!consume(lane, frames.next())) return;
        uint64_t first = 0;
        if (transport.last.size() >= sizeof(wire::ReplyHeader) + sizeof first)
            std::memcpy(&first, transport.last.data() + sizeof(wire::ReplyHeader), sizeof first);
        if (first > wire::kChunk) frames.heard(first);
    }
}

// What a session took of the slice comes back when the driver has let go of it: soon, since its work was
// interrupted. Otherwise the fuzzer would soon try nothing but refusals.
void must_have_all_back(worker::Worker& worker) {
    constexpr int kLooks = 2000;
    for (int i = 0; i < kLooks; ++i) {
        worker.room.look();
        if (worker.memory.used(0) == 0) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::fprintf(stderr, "%llu bytes of the slice are nobody's\n",
                 static_cast<unsigned long long>(worker.memory.used(0)));
    std::abort();
}

// An interrupt may end the worker, as it should, and the fuzzer with it: not that one.
void spare_the_worker(std::span<std::byte> bytes) {
    wire::FrameHeader header;
    while (bytes.size() >= sizeof header) {
        std::memcpy(&header, bytes.data(), sizeof header);
        bytes = bytes.subspan(sizeof header);
        if (header.length > bytes.size()) return;
        if (header.opcode == wire::kOpInterrupt) std::memset(bytes.data(), 0, header.length);
        bytes = bytes.subspan(header.length);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    worker::Worker& worker = the_worker();
    static auto* impatience = new Impatience;
    auto session = worker.enter("fuzzed session..");
    auto transport = std::make_unique<Nobody>();
    Nobody& peer = *transport;
    session->add_lane(0, transport.get());
    session->software.enter();
    impatience->begin(session);
    {
        worker::Lane lane(worker, *session, std::move(transport));
        const std::span rest(data + 1, size - 1);
        if (data[0] & 1) {
            send_lies(lane, peer, rest);
        } else {
            std::vector<std::byte> bytes(std::as_bytes(rest).begin(), std::as_bytes(rest).end());
            spare_the_worker(bytes);
            consume(lane, bytes);
        }
        session->own_work.thread_ends();
        worker.ending_frees.thread_ends();
        session->remove_lane(0);
    }
    impatience->end();
    if (worker.driver.software) worker.driver.software->enter_session(nullptr);
    // A worker whose context is lost ends with its last session: not the fuzzer.
    const bool lost = worker.poisoned.exchange(CUDA_SUCCESS) != CUDA_SUCCESS;
    worker.leave("fuzzed session..", session);
    session = nullptr;
    // A kernel's fault may be known to the driver alone so far.
    if (lost || worker::invoke(worker.driver.cuCtxSynchronize) != CUDA_SUCCESS) begin_anew(worker);
    must_have_all_back(worker);
    return 0;
}
