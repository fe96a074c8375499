#include "session.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstring>

#include "calls_wire.h"
#include "lane.h"
#include "log.h"
#include "payload.h"
#include "sticky.h"
#include "thread.h"

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
    if (forked_) return CUDA_ERROR_NOT_INITIALIZED;
    if (!attempted_) {
        attempted_ = true;
        first_result_ = connect();
    }
    return first_result_;
}

CUresult Session::refuse(CUresult status, std::string_view text) {
    tell_user(text);
    return status;
}

CUresult Session::connect() {
    std::string error;
    if (!getenv("GPU_KERNELS_AGENT")) {
        return refuse(CUDA_ERROR_NO_DEVICE,
                      "this process holds no GPU: start a GPU kernel, or run the program with "
                      "'jupyter gpu run -p SIZE -- COMMAND'.");
    }
    if (!wire::credentials_from_environment(credentials_, error)) {
        return refuse(CUDA_ERROR_NO_DEVICE, "no GPU: " + error);
    }
    id_ = wire::random_session();
    pthread_atfork(nullptr, nullptr, after_fork);
    // A worker that has met a fatal error ends when its last session has gone, and so may close a lane that
    // it was just given; the agent then starts a new one.
    const auto deadline = wire::deadline_in(kConnectTime);
    for (auto pause = 20ms;; pause *= 2) {
        bool gone = false;
        if (Lane* lane = open_lane(error, gone)) {
            idle_.push_back(lane);
            break;
        }
        if (!gone || wire::deadline_in(pause) > deadline)
            return refuse(CUDA_ERROR_DEVICE_UNAVAILABLE, "no GPU: " + error);
        const timespec time{pause.count() / 1000, pause.count() % 1000 * 1'000'000};
        nanosleep(&time, nullptr);
    }
    initialised_.store(true, std::memory_order_release);
    error_.store(CUDA_SUCCESS, std::memory_order_release);
    return CUDA_SUCCESS;
}

// With mutex_ held.
Lane* Session::open_lane(std::string& error, bool& gone) {
    const uint32_t number = lane_count_.load();
    if (number == kMaxLanes) {
        error =
            "more than " + std::to_string(kMaxLanes) + " threads of this process use CUDA at the same time";
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
    if (devices_.empty()) {
        devices_ = std::move(devices);
        driver_version_ = static_cast<int>(welcome.driver_version);
    }
    return true;
}

Lane* Session::lane() {
    Thread& thread = Thread::current();
    if (thread.lane) return thread.lane;
    std::string error;
    bool gone = false;
    {
        const std::lock_guard lock(mutex_);
        if (forked_) return nullptr;
        if (!idle_.empty()) {
            thread.lane = idle_.back();
            idle_.pop_back();
        } else {
            thread.lane = open_lane(error, gone);
        }
    }
    if (!thread.lane) tell_user("this thread cannot use the GPU: " + error);
    return thread.lane;
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

void Session::note(CUresult status) {
    int healthy = CUDA_SUCCESS;
    if (!wire::is_sticky(status) || !error_.compare_exchange_strong(healthy, status)) return;
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

// Runs between fork and whatever the child does: async-signal-safe calls only, and no lock that another
// thread of the parent may have held.
void Session::forget_after_fork() {
    error_.store(CUDA_ERROR_NOT_INITIALIZED);
    initialised_.store(false);
    new (&mutex_) std::mutex;
    forked_ = true;
    const uint32_t count = lane_count_.load();
    for (uint32_t i = 0; i < count; ++i) close(lanes_[i].load()->fd());
    lane_count_.store(0);
    Thread::forget_lane();
}

}  // namespace client
