#include "session.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "attach.h"
#include "attach_point.h"
#include "calls_wire.h"
#include "copies_back.h"
#include "host_files.h"
#include "interrupt.h"
#include "lane.h"
#include "life.h"
#include "log.h"
#include "notices.h"
#include "payload.h"
#include "slice_file.h"
#include "sticky.h"
#include "thread.h"
#include "visible_devices.h"

namespace client {
namespace {

using namespace std::chrono_literals;

// What the person can do when this life is of no more use.
const char* remedy() {
    return wire::has_attach_point()
               ? "Variables and files are there. In a notebook '%gpu wait' starts over on a working GPU."
               : "Restart the kernel (or the program) to get a working GPU again.";
}

// Why the slice has gone, if it has: the attach point asks, and answers soon or not in time.
std::string why_gone() {
    if (!wire::has_attach_point()) return {};
    int ticks = 8;
    const wire::AttachAnswer answer =
        wire::ask_attach_point("check", [&](const wire::Waits* waits) { return !waits && --ticks > 0; });
    return answer.attached == wire::Attached::no ? answer.text : std::string();
}

// What one receive may wait; 0 is for ever.
void wait_at_most(int fd, std::chrono::seconds time) {
    const timeval limit{time.count(), 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

}  // namespace

Session& Session::get() {
    static auto* session = new Session;
    return *session;
}

CUresult Session::open() {
    const CUresult now = error();
    if (now == CUDA_ERROR_NOT_INITIALIZED || ended_.load(std::memory_order_acquire)) return begin();
    const std::lock_guard lock(mutex_);
    return first_result_;
}

// Another thread may have ended the new life already, before this one is within again.
CUresult Session::go_on() {
    while (ended_.load(std::memory_order_acquire)) {
        if (CUresult error = begin()) return error;
    }
    return CUDA_SUCCESS;
}

// A thread that waits for its slice, or for another thread that does, holds up neither other calls nor the
// end of a life. What it was given is of no use when a life has ended since it asked: the slice may be
// another one.
CUresult Session::begin() {
    const Outside outside;
    const std::lock_guard one(beginning_);
    for (;;) {
        uint64_t asked_in;
        {
            const Entry entry;
            const std::lock_guard lock(mutex_);
            if (forked_) return error();
            if (attempted_) return first_result_;  // another thread was first
            asked_in = ends_.load();
        }
        Beginning fresh;
        const CUresult result = connect(fresh);
        const Entry entry;
        const std::lock_guard lock(mutex_);
        if (result == CUDA_SUCCESS && asked_in != ends_.load()) {
            delete fresh.lane;
            continue;
        }
        first_result_ = result;
        if (result == CUDA_SUCCESS) take_over(fresh);
        // At an attach point the next call may find another answer, until a worker has answered.
        attempted_ = first_result_ == CUDA_SUCCESS || !wire::has_attach_point() || !all_devices_.empty();
        return first_result_;
    }
}

// With mutex_ held.
void Session::take_over(Beginning& fresh) {
    credentials_ = std::move(fresh.credentials);
    id_ = fresh.id;
    all_devices_ = std::move(fresh.devices);
    driver_version_ = fresh.driver_version;
    if (!see_devices()) {
        first_result_ = CUDA_ERROR_NO_DEVICE;
        delete std::exchange(fresh.lane, nullptr);
        return;
    }
    presence_.show(credentials_.lease);
    error_.store(CUDA_SUCCESS, std::memory_order_release);
    idle_.push_back(fresh.lane);
    lanes_[0].store(fresh.lane);
    lane_count_.store(1);  // from here on there is a life to end, which looks at nothing but this first
    ended_.store(false, std::memory_order_release);
    initialised_.store(true, std::memory_order_release);
}

CUresult Session::connect(Beginning& fresh) {
    auto refuse = [](CUresult status, const std::string& text) {
        tell_user(text);
        return status;
    };
    std::string error;
    if (!getenv("GPU_KERNELS_AGENT") && !wire::has_attach_point()) {
        return refuse(CUDA_ERROR_NO_DEVICE,
                      "this process holds no GPU: start a GPU kernel, or run the program with "
                      "'jupyter gpu run -p SIZE -- COMMAND'.");
    }
    // Such a program wants no slice, and waits for none.
    if (cuda::hides_all_devices(getenv(cuda::kVisibleDevices))) return CUDA_ERROR_NO_DEVICE;
    switch (get_slice(fresh.credentials, error)) {
        case Got::slice:
            break;
        case Got::refusal:
            return refuse(CUDA_ERROR_NO_DEVICE, "no GPU: " + error);
        case Got::interrupt:
            return refuse(CUDA_ERROR_DEVICE_UNAVAILABLE, error);
    }
    fresh.id = wire::random_session();
    // A worker that has met a fatal error ends when its last session has gone, and so may close a lane that
    // it was just given; the agent then starts a new one.
    const auto deadline = wire::deadline_in(kConnectTime);
    for (auto pause = 20ms;; pause *= 2) {
        bool gone = false;
        std::vector<std::byte> welcome;
        fresh.lane = open_lane(fresh, 0, welcome, error, gone);
        if (fresh.lane && read_welcome(welcome, fresh, error)) {
            if (ask_for_checks(*fresh.lane)) return CUDA_SUCCESS;
            error = "the connection broke";
        }
        delete std::exchange(fresh.lane, nullptr);
        if (!gone || wire::deadline_in(pause) > deadline)
            return refuse(CUDA_ERROR_DEVICE_UNAVAILABLE, "no GPU: " + error);
        const timespec time{pause.count() / 1000, pause.count() % 1000 * 1'000'000};
        nanosleep(&time, nullptr);
    }
}

Lane* Session::open_lane(const Beginning& of, uint32_t number, std::vector<std::byte>& welcome,
                         std::string& error, bool& gone) {
    const wire::Opened opened =
        wire::open_lane(of.credentials, of.id, number, wire::deadline_in(kConnectTime));
    if (opened.answer != wire::Answer::ok) {
        error = opened.text;
        return nullptr;
    }
    auto* lane = new Lane(wire::stream_socket(opened.fd), opened.fd);
    // What accepts a connection and then says nothing must not hold the program for ever.
    wait_at_most(opened.fd, kConnectTime);
    const bool welcomed = lane->receive_welcome(welcome, error, gone);
    wait_at_most(opened.fd, 0s);
    if (welcomed) return lane;
    delete lane;
    return nullptr;
}

bool Session::read_welcome(const std::vector<std::byte>& bytes, Beginning& fresh, std::string& error) {
    wire::Reader reader(bytes);
    wire::Welcome welcome{};
    if (!reader.take(welcome) || welcome.protocol_version != wire::kProtocolVersion ||
        welcome.calls_digest != wire::kCallsDigest) {
        error =
            "the GPU server runs another version of gpu-kernels; ask the administrator to install the same "
            "version on both";
        return false;
    }
    fresh.devices.clear();
    for (uint32_t i = 0; i < welcome.device_count && i < wire::kMaxDevices; ++i) {
        wire::DeviceSnapshot device;
        if (!reader.take(device)) break;
        device.name[sizeof device.name - 1] = 0;
        device.pci_bus_id[sizeof device.pci_bus_id - 1] = 0;
        fresh.devices.push_back(device);
    }
    if (fresh.devices.empty() || !reader.finished()) {
        error = "the GPU server's answer cannot be read";
        return false;
    }
    fresh.driver_version = static_cast<int>(welcome.driver_version);
    return true;
}

// With mutex_ held.
bool Session::see_devices() {
    std::vector<cuda::DeviceUuid> uuids(all_devices_.size());
    for (size_t i = 0; i < uuids.size(); ++i)
        std::copy(std::begin(all_devices_[i].uuid), std::end(all_devices_[i].uuid), uuids[i].begin());
    const char* list = getenv(cuda::kVisibleDevices);
    for (const size_t number : cuda::visible_devices(list, uuids)) {
        numbers_in_lease_[devices_.size()] = static_cast<uint8_t>(number);
        devices_.push_back(all_devices_[number]);
    }
    if (devices_.empty() && cuda::wants_devices(list)) tell_user(cuda::no_visible_device(list, uuids.size()));
    return !devices_.empty();
}

// With mutex_ held.
Lane* Session::another_lane(std::string& error, bool& gone) {
    const uint32_t number = lane_count_.load();
    if (number == kMaxLanes) {
        error =
            std::to_string(kMaxLanes) +
            " threads of this process use CUDA already. Let threads end that have no more to do there, or "
            "give their work to fewer";
        return nullptr;
    }
    std::vector<std::byte> welcome;
    Beginning seen{credentials_, id_, nullptr, {}, 0};
    Lane* lane = open_lane(seen, number, welcome, error, gone);
    if (lane && !read_welcome(welcome, seen, error)) delete std::exchange(lane, nullptr);
    if (!lane) return nullptr;
    lanes_[number].store(lane);
    lane_count_.store(number + 1);
    return lane;
}

// With mutex_ held.
Lane* Session::idle_lane(std::string& error, bool& gone) {
    if (idle_.empty()) return another_lane(error, gone);
    Lane* lane = idle_.back();
    idle_.pop_back();
    return lane;
}

Lane* Session::lane() {
    Thread& thread = Thread::current();
    if (thread.lane) return thread.lane;
    std::string error;
    bool gone = false;
    {
        const std::lock_guard lock(mutex_);
        // gkNewLife waits for whoever opens a lane, so that only one may be at it when a life ends.
        if (forked_ || error_.load() == CUDA_ERROR_CONTEXT_IS_DESTROYED) return nullptr;
        thread.lane = idle_lane(error, gone);
    }
    if (thread.lane && !thread.of_library) thread.lane->watch_waits();
    // Each thread once, and not all of thousands: the text is the same for each.
    const bool ends = error_.load() == CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (!thread.lane && !ends && !std::exchange(thread.told, true) && threads_told_.fetch_add(1) < kMostTold)
        tell_user("this thread cannot use the GPU: " + error);
    return thread.lane;
}

int Session::open_here(int (*open)(const wire::Credentials&, const wire::SessionId&, wire::Deadline)) {
    wire::Credentials credentials;
    wire::SessionId id;
    {
        const std::lock_guard lock(mutex_);
        credentials = credentials_;
        id = id_;
    }
    const int file = open(credentials, id, wire::deadline_in(kConnectTime));
    explicit_bzero(credentials.secret.data(), credentials.secret.size());
    return file;
}

CUresult Session::interrupt(bool end_worker) {
    std::string error;
    bool gone = false;
    Lane* lane = nullptr;
    {
        const std::lock_guard lock(mutex_);
        lane = idle_lane(error, gone);
    }
    if (!lane) return CUDA_ERROR_DEVICE_UNAVAILABLE;
    wire::InterruptMessage message{end_worker};
    wire::FrameHeader head{sizeof message, wire::kOpInterrupt, 0, 0, 0};
    const iovec parts[2] = {{&head, sizeof head}, {&message, sizeof message}};
    wire::ReplyHeader reply{};
    std::span<const std::byte> payload;
    wait_at_most(lane->fd(), kConnectTime);
    const bool answered = lane->send_now(parts, 2) && lane->receive(reply, payload);
    wait_at_most(lane->fd(), 0s);
    if (end_worker) lose("its worker was ended by your interrupt");
    if (answered) give_back(lane);
    return answered ? static_cast<CUresult>(reply.status) : CUDA_ERROR_DEVICE_UNAVAILABLE;
}

void Session::give_back(Lane* lane) {
    lane->flush(true);
    lane->leave_waits();
    const std::lock_guard lock(mutex_);
    idle_.push_back(lane);
}

void Session::lose(std::string_view reason) {
    int seen = error_.load();
    do {
        if (seen == CUDA_ERROR_CONTEXT_IS_DESTROYED) return;  // gkNewLife has closed it
    } while (!wire::is_sticky(static_cast<CUresult>(seen)) &&
             !error_.compare_exchange_weak(seen, CUDA_ERROR_DEVICE_UNAVAILABLE));
    if (told_lost_.exchange(true)) return;
    shut_lanes();
    if (const std::string why = why_gone(); !why.empty()) {
        tell_user("your GPU has gone: " + why);
    } else {
        tell_user("the connection to the GPU server was lost: " + std::string(reason) + ". " + remedy());
    }
    if (SliceFile::get().keeps_any())
        tell_user("what lay in managed memory has gone with the GPU: it may read as zeros from now on");
}

void Session::note(CUresult status, bool context_goes_on) {
    int healthy = CUDA_SUCCESS;
    if (context_goes_on || !wire::is_sticky(status) || !error_.compare_exchange_strong(healthy, status))
        return;
    const char* name = gk_error_name(status);
    const char* text = gk_error_string(status);
    tell_user(std::string(name ? name : "an error") + " (" + (text ? text : "unknown") +
              "): a kernel failed on the GPU, and every CUDA call of this process fails from now on. " +
              remedy());
}

void Session::shut_lanes() {
    const uint32_t count = lane_count_.load();
    for (uint32_t i = 0; i < count; ++i) lanes_[i].load()->shut();
}

uint64_t Session::life(int* state) const {
    if (state) {
        const int now = error_.load(std::memory_order_acquire);
        *state = !initialised_.load(std::memory_order_acquire) ? 0
                 : ended_.load(std::memory_order_acquire)      ? 3
                                                               : (now == CUDA_SUCCESS ? 1 : 2);
    }
    return lives_ended();
}

// With mutex_ held. Who is about to begin with a slice asks again.
void Session::begin_from_nothing() {
    all_devices_.clear();
    devices_.clear();
    attempted_ = false;
    first_result_ = CUDA_SUCCESS;
    ends_.fetch_add(1);
}

bool Session::nothing_to_end() {
    if (lane_count_.load() > 0) return false;  // mutex_ may be held while a thread's lane is opened
    const std::lock_guard lock(mutex_);
    if (lane_count_.load() > 0) return false;
    begin_from_nothing();
    return true;
}

void Session::forget_life() {
    const std::lock_guard lock(mutex_);
    drop_lanes();
    presence_.forget();
    explicit_bzero(credentials_.secret.data(), credentials_.secret.size());
    credentials_ = {};
    begin_from_nothing();
    posted_.store(0);
    streams_known_.forget();
    told_lost_.store(false);
    threads_told_.store(0);
    error_.store(CUDA_ERROR_CONTEXT_IS_DESTROYED);
    ended_.store(initialised_.load(), std::memory_order_release);
}

// With mutex_ held. Their numbers go first: the child of a fork looks at them.
void Session::drop_lanes() {
    idle_.clear();
    const uint32_t count = lane_count_.exchange(0);
    for (uint32_t i = 0; i < count; ++i) delete lanes_[i].exchange(nullptr);
}

bool Session::flush_all() {
    bool any = false;
    const uint32_t count = lane_count_.load(std::memory_order_acquire);
    for (uint32_t i = 0; i < count; ++i) {
        Lane* lane = lanes_[i].load(std::memory_order_acquire);
        if (!lane->has_unsent()) continue;
        any = true;
        if (!lane->flush(false)) lose("it cannot be written to");
    }
    return any;
}

void Session::tell_forked_child() const {
    if (!forked_.load() || told_forked_.exchange(true)) return;
    tell_user(
        "this process was forked from one that had started CUDA, and cannot use the GPU. Start it with "
        "multiprocessing.get_context('spawn') in Python, with fork and exec in C, or start CUDA after the "
        "fork.");
}

// Runs between fork and whatever the child does: async-signal-safe calls only, and no lock that another
// thread of the parent may have held.
void Session::forget_after_fork() {
    new (&mutex_) std::mutex;
    new (&beginning_) std::mutex;
    new (&ending_) std::mutex;
    Thread::forget_after_fork();
    const bool ending = Gate::get().forget_after_fork();
    flusher_.forget_after_fork();
    HostFiles::get().forget_after_fork();
    CopiesBack::get().forget_after_fork();
    // The parent had no GPU yet, or no longer, and may have waited for one: the child may ask for itself.
    if (lane_count_.load() == 0 && !forked_ && !ending) return;
    error_.store(CUDA_ERROR_NOT_INITIALIZED);
    initialised_.store(false);
    forked_ = true;
    told_forked_ = false;
    presence_.forget();
    SliceFile::get().forget_after_fork();
    const uint32_t count = lane_count_.load();
    for (uint32_t i = 0; i < count; ++i) close(lanes_[i].load()->fd());
    lane_count_.store(0);
    ended_ = false;
}

}  // namespace client
