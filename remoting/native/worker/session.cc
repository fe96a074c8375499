#include "session.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>

#include "graph.h"
#include "host_mapping.h"
#include "in_context.h"
#include "nvidia_libraries.h"
#include "worker.h"

namespace worker {

Session::Session(Worker& worker, std::string name)
    : addresses(this),
      host_calls(std::make_shared<HostCalls>([this] { return abandoned(); })),
      copies_back([this] { return abandoned(); }),
      own_work(worker, *this),
      notices(worker.host_memory.notices),
      software(worker.driver),
      worker_(worker),
      name_(std::move(name)) {
    software.begin(*this);
}

CUresult Session::refuse(const std::string& why) {
    static LimitedLog log;
    log.line("session " + name_ + ": " + why);
    notices.add(wire::NoticeKind::lines, why);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult Session::refuse_option(uint32_t option) {
    if (!option_refused_.exchange(true)) {
        refuse("the JIT option " + std::to_string(option) +
               ", or its value, is none that may be passed on to this GPU server's driver: "
               "CUDA_ERROR_INVALID_VALUE. Leave it out; docs/design/forwarding.md lists those that may");
    }
    return CUDA_ERROR_INVALID_VALUE;
}

void Session::hold(CUresult error, const char* call) {
    int none = CUDA_SUCCESS;
    if (!held_.compare_exchange_strong(none, error) || error == worker_.poisoned.load()) return;
    const char* text = gk_error_name(error);
    static LimitedLog log;
    log.line("session " + name_ + ": " + call + " failed with " + (text ? text : std::to_string(error)));
}

CUresult Session::take_held() {
    if (held_.load(std::memory_order_relaxed) == CUDA_SUCCESS) return CUDA_SUCCESS;
    return static_cast<CUresult>(held_.exchange(CUDA_SUCCESS));
}

std::shared_ptr<Upload> Session::upload(const wire::Digest& digest, uint64_t total) {
    constexpr size_t kAtOnce = 8;  // a client sends one after the other
    const std::lock_guard lock(mutex_);
    auto& slot = uploads_[digest];
    if (!slot) {
        if (uploads_.size() > kAtOnce) {
            uploads_.erase(digest);
            return nullptr;
        }
        slot = std::make_shared<Upload>(total);
    }
    return slot;
}

void Session::end_upload(const wire::Digest& digest) {
    const std::lock_guard lock(mutex_);
    uploads_.erase(digest);
}

bool Session::add_lane(uint32_t lane, wire::Transport* transport) {
    const std::lock_guard lock(mutex_);
    return !ended() && lanes_.emplace(lane, transport).second;
}

bool Session::remove_lane(uint32_t lane) {
    const std::lock_guard lock(mutex_);
    lanes_.erase(lane);
    if (lanes_.empty()) ended_.store(true, std::memory_order_release);
    return lanes_.empty();
}

void Session::end() {
    const std::lock_guard lock(mutex_);
    ended_.store(true, std::memory_order_release);
    for (auto& [lane, transport] : lanes_) transport->shut();
}

void Session::use_passage(int socket) {
    auto passage = std::make_shared<wire::Descriptor>(socket);
    const std::lock_guard lock(passage_mutex_);
    if (passage_ || ended()) return;
    const char here = 0;
    send(socket, &here, sizeof here, MSG_DONTWAIT | MSG_NOSIGNAL);
    passage_ = std::move(passage);
}

std::shared_ptr<wire::Descriptor> Session::passage() {
    const std::lock_guard lock(passage_mutex_);
    return passage_;
}

void Session::close_passage() {
    std::shared_ptr<wire::Descriptor> gone;
    const std::lock_guard lock(passage_mutex_);
    gone.swap(passage_);
}

int Session::take_passed(uint64_t name) {
    const auto passage = this->passage();
    if (!passage) return -1;
    for (;;) {
        std::array<uint8_t, sizeof name> of{};
        wire::Descriptor passed;
        const ssize_t got = wire::receive_with_descriptor(passage->fd(), of, MSG_DONTWAIT, passed);
        if (got <= 0) return -1;
        if (got == sizeof name && std::bit_cast<uint64_t>(of) == name) return passed.release();
    }
}

void Session::free(const Allocation& allocation) {
    if (allocation.charged == 0) return;
    own_work.free(allocation.device, allocation.base);
    worker_.freed(allocation);
}

void Session::reset(uint8_t device) {
    NvidiaLibraries::get().forget(*this, device);
    for (const auto& stream : streams.take_if([&](const auto& s) { return s.device == device; })) {
        worker_.ending_frees.stream_ends(stream.handle);
        invoke(worker_.driver.cuStreamDestroy_v2, stream.handle);
    }
    for (const auto& event : events.take_if([&](const auto& e) { return e.device == device; })) {
        invoke(worker_.driver.cuEventDestroy_v2, event.handle);
    }
    graphs.take_if([&](const auto& graph) { return graph->device() == device; });
    {
        const std::lock_guard lock(graphs_mutex);
        ending_graphs.clear();
    }
    for (auto* objects : {&textures, &surfaces})
        objects->take_if([&](const auto& object) { return object->device() == device; });
    arrays.take_if([&](const auto& array) { return array.device == device; });
    mipmapped_arrays.take_if([&](const auto& array) { return array.device == device; });
    for (const Allocation& allocation : worker_.memory.take_device(this, device)) free(allocation);
}

void Session::stream_ends(const OnDevice<CUstream>& stream) {
    const InContext context(worker_, stream.device);  // the thread's may be that of another device
    own_work.stream_ends(stream.handle, stream.device);
    if (const uint64_t workspace = NvidiaLibraries::get().take_workspace(*this, stream.handle))
        free_in(stream.handle, workspace);
    worker_.ending_frees.stream_ends(stream.handle);
}

void Session::free_in(CUstream stream, uint64_t address) {
    const auto allocation = worker_.memory.take(address, this);
    if (!allocation) return;
    if (invoke(worker_.driver.cuMemFreeAsync, static_cast<CUdeviceptr>(address), stream) == CUDA_SUCCESS) {
        worker_.ending_frees.add(allocation->device, stream, *allocation);
    } else {
        worker_.memory.add(*allocation);  // until the session ends
    }
}

uint64_t Session::weight() {
    constexpr uint64_t kStream = 16, kGraph = 64, kLibrary = 256;
    return events.size() + arrays.size() + textures.size() + surfaces.size() + kStream * streams.size() +
           kGraph * graphs.size() + kLibrary * libraries.size();
}

void Session::give_back(uint64_t owned) {
    const auto& driver = worker_.driver;
    OnDevice<CUstream> stream;
    OnDevice<CUevent> event;
    if (streams.find(owned, stream)) {
        stream_ends(stream);
        streams.take(owned, stream);
        invoke(driver.cuStreamDestroy_v2, stream.handle);
    } else if (events.take(owned, event)) {
        invoke(driver.cuEventDestroy_v2, event.handle);
    } else if (const auto allocation = worker_.memory.take(owned, this)) {
        free(*allocation);
    } else if (!end_array(owned)) {
        unload(owned);
    }
}

bool Session::unload(uint64_t handle) {
    std::shared_ptr<LoadedLibrary> library;
    if (!libraries.take(handle, library)) return false;
    {
        const std::lock_guard lock(worker_.globals_mutex);
        for (const uint64_t global : library->globals) worker_.memory.forget_global(global, this);
    }
    return true;
}

bool Session::abandoned() {
    const std::lock_guard lock(mutex_);
    return ended() ||
           std::all_of(lanes_.begin(), lanes_.end(), [](const auto& lane) { return lane.second->hung_up(); });
}

bool Session::end_if_abandoned() {
    constexpr std::chrono::seconds kPatience{1};
    {
        const std::lock_guard lock(mutex_);
        if (lanes_.empty() && !ended()) return false;  // it begins
    }
    if (!abandoned()) return false;
    end();
    if (software.interrupt()) return false;
    const auto now = std::chrono::steady_clock::now();
    if (!abandoned_since_) abandoned_since_ = now;
    return now - *abandoned_since_ > kPatience;
}

void Session::free_all() {
    host_calls->close();
    copies_back.streams->close();
    if (worker_.poisoned.load() != CUDA_SUCCESS)
        return;  // the driver's context is dead, and the process ends
    // A graph of one device may run in a stream of another: nothing is freed before all of its work has come
    // to rest. Work of other sessions is not waited for: it may never end.
    for (size_t i = 0; i < worker_.devices.size(); ++i) {
        invoke(worker_.driver.cuCtxSetCurrent, worker_.devices[i].context);
        own_work.wait(static_cast<uint8_t>(i));
    }
    worker_.shared_streams.forget(*this);
    for (size_t i = 0; i < worker_.devices.size(); ++i) {
        invoke(worker_.driver.cuCtxSetCurrent, worker_.devices[i].context);
        reset(static_cast<uint8_t>(i));
        worker_.limits.forget(worker_, this, static_cast<uint8_t>(i));
        libraries.take_if([&](const auto& library) { return library->device == i; });
    }
    worker_.memory.take_all(this);
    addresses.free_all(worker_);
    physicals.take_if([](const auto&) { return true; });
    pools.take_if([](const auto&) { return true; });
    {
        const std::lock_guard lock(pools_mutex_);
        default_pools_.clear();
    }
    worker_.room.look();
}

LoadedLibrary::~LoadedLibrary() {
    if (!handle || invoke(worker.driver.cuLibraryUnload, handle) == CUDA_SUCCESS)
        worker.memory.give_back(device, charged);
}

}  // namespace worker
