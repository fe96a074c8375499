#include "session.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "attach.h"
#include "attach_point.h"
#include "calls_wire.h"
#include "interrupt.h"
#include "lane.h"
#include "log.h"
#include "notices.h"
#include "payload.h"
#include "sticky.h"
#include "thread.h"
#include "visible_devices.h"

namespace client {
namespace {

using namespace std::chrono_literals;

constexpr const char* kRestart = "Restart the kernel (or the program) to get a working GPU again.";

// What one receive may wait; 0 is for ever.
void wait_at_most(int fd, std::chrono::seconds time) {
    const timeval limit{time.count(), 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

void after_fork() {
    Session::get().forget_after_fork();
}

}  // namespace

Session& Session::get() {
    static auto* session = new Session;
    return *session;
}

CUresult Session::open() {
    const std::lock_guard lock(mutex_);
    if (forked_) return error();
    if (!attempted_) {
        first_result_ = connect();
        // At an attach point the next call may find another answer, until a worker has answered.
        attempted_ = first_result_ == CUDA_SUCCESS || !wire::has_attach_point() || !all_devices_.empty();
    }
    return first_result_;
}

CUresult Session::refuse(CUresult status, std::string_view text) {
    tell_user(text);
    return status;
}

CUresult Session::connect() {
    std::string error;
    if (!getenv("GPU_KERNELS_AGENT") && !wire::has_attach_point()) {
        return refuse(CUDA_ERROR_NO_DEVICE,
                      "this process holds no GPU: start a GPU kernel, or run the program with "
                      "'jupyter gpu run -p SIZE -- COMMAND'.");
    }
    // Before the wait, which may be long: what another thread forks meanwhile must not find mutex_ held.
    static const int once = pthread_atfork(nullptr, nullptr, after_fork);
    (void)once;
    switch (get_slice(credentials_, error)) {
        case Got::slice:
            break;
        case Got::refusal:
            return refuse(CUDA_ERROR_NO_DEVICE, "no GPU: " + error);
        case Got::interrupt:
            return refuse(CUDA_ERROR_DEVICE_UNAVAILABLE, error);
    }
    id_ = wire::random_session();
    // A worker that has met a fatal error ends when its last session has gone, and so may close a lane that
    // it was just given; the agent then starts a new one.
    const auto deadline = wire::deadline_in(kConnectTime);
    for (auto pause = 20ms;; pause *= 2) {
        bool gone = false;
        if (Lane* lane = open_lane(error, gone)) {
            if (!ask_for_checks(*lane))
                return refuse(CUDA_ERROR_DEVICE_UNAVAILABLE, "no GPU: the connection broke");
            idle_.push_back(lane);
            break;
        }
        if (!gone || wire::deadline_in(pause) > deadline)
            return refuse(CUDA_ERROR_DEVICE_UNAVAILABLE, "no GPU: " + error);
        const timespec time{pause.count() / 1000, pause.count() % 1000 * 1'000'000};
        nanosleep(&time, nullptr);
    }
    if (!see_devices()) return CUDA_ERROR_NO_DEVICE;
    presence_.show(credentials_.lease);
    initialised_.store(true, std::memory_order_release);
    error_.store(CUDA_SUCCESS, std::memory_order_release);
    return CUDA_SUCCESS;
}

// With mutex_ held.
Lane* Session::open_lane(std::string& error, bool& gone) {
    const uint32_t number = lane_count_.load();
    if (number == kMaxLanes) {
        error =
            std::to_string(kMaxLanes) +
            " threads of this process use CUDA already. Let threads end that have no more to do there, or "
            "give their work to fewer";
        return nullptr;
    }
    const wire::Opened opened = wire::open_lane(credentials_, id_, number, wire::deadline_in(kConnectTime));
    if (opened.answer != wire::Answer::ok) {
        error = opened.text;
        return nullptr;
    }
    auto* lane = new Lane(wire::stream_socket(opened.fd), opened.fd);
    std::vector<std::byte> welcome;
    // What accepts a connection and then says nothing must not hold the program for ever.
    wait_at_most(opened.fd, kConnectTime);
    const bool welcomed = lane->receive_welcome(welcome, error, gone);
    wait_at_most(opened.fd, 0s);
    if (!welcomed || !read_welcome(welcome, error)) {
        delete lane;
        return nullptr;
    }
    lanes_[number].store(lane);
    lane_count_.store(number + 1);
    return lane;
}

bool Session::read_welcome(const std::vector<std::byte>& bytes, std::string& error) {
    wire::Reader reader(bytes);
    wire::Welcome welcome{};
    if (!reader.take(welcome) || welcome.protocol_version != wire::kProtocolVersion ||
        welcome.calls_digest != wire::kCallsDigest) {
        error =
            "the GPU server runs another version of gpu-kernels; ask the administrator to install the same "
            "version on both";
        return false;
    }
    std::vector<wire::DeviceSnapshot> devices;
    for (uint32_t i = 0; i < welcome.device_count && i < wire::kMaxDevices; ++i) {
        wire::DeviceSnapshot device;
        if (!reader.take(device)) break;
        device.name[sizeof device.name - 1] = 0;
        device.pci_bus_id[sizeof device.pci_bus_id - 1] = 0;
        devices.push_back(device);
    }
    if (devices.empty() || !reader.finished()) {
        error = "the GPU server's answer cannot be read";
        return false;
    }
    if (all_devices_.empty()) {
        all_devices_ = std::move(devices);
        driver_version_ = static_cast<int>(welcome.driver_version);
    }
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
Lane* Session::idle_lane(std::string& error, bool& gone) {
    if (idle_.empty()) return open_lane(error, gone);
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
        if (forked_) return nullptr;
        thread.lane = idle_lane(error, gone);
    }
    if (thread.lane && is_main_thread()) thread.lane->watch_for_interrupts();
    // Each thread once, and not all of thousands: the text is the same for each.
    if (!thread.lane && !std::exchange(thread.told, true) && threads_told_.fetch_add(1) < kMostTold)
        tell_user("this thread cannot use the GPU: " + error);
    return thread.lane;
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
    const std::lock_guard lock(mutex_);
    idle_.push_back(lane);
}

void Session::lose(std::string_view reason) {
    int seen = error_.load();
    while (!wire::is_sticky(static_cast<CUresult>(seen)) &&
           !error_.compare_exchange_weak(seen, CUDA_ERROR_DEVICE_UNAVAILABLE)) {
    }
    if (told_lost_.exchange(true)) return;
    tell_user("the connection to the GPU server was lost: " + std::string(reason) + ". " + kRestart);
    const uint32_t count = lane_count_.load();
    for (uint32_t i = 0; i < count; ++i) lanes_[i].load()->shut();
}

void Session::note(CUresult status, bool context_goes_on) {
    int healthy = CUDA_SUCCESS;
    if (context_goes_on || !wire::is_sticky(status) || !error_.compare_exchange_strong(healthy, status))
        return;
    const char* name = gk_error_name(status);
    const char* text = gk_error_string(status);
    tell_user(std::string(name ? name : "an error") + " (" + (text ? text : "unknown") +
              "): a kernel failed on the GPU, and every CUDA call of this process fails from now on. " +
              kRestart);
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
    // The parent had no GPU yet, and may have waited for one: the child may ask for itself.
    if (lane_count_.load() == 0 && !forked_) return;
    error_.store(CUDA_ERROR_NOT_INITIALIZED);
    initialised_.store(false);
    forked_ = true;
    told_forked_ = false;
    presence_.forget();
    const uint32_t count = lane_count_.load();
    for (uint32_t i = 0; i < count; ++i) close(lanes_[i].load()->fd());
    lane_count_.store(0);
    Thread::forget_lane();
}

}  // namespace client
