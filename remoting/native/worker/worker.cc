#include "worker.h"

#include <unistd.h>

#include <algorithm>
#include <string>

#include "sticky.h"

namespace worker {

// The id's first bytes in hexadecimal: enough to tell sessions apart in a log.
std::string short_name(const std::string& id) {
    constexpr const char* kDigits = "0123456789abcdef";
    std::string text;
    for (const char c : id.substr(0, 4)) {
        text += kDigits[static_cast<unsigned char>(c) >> 4];
        text += kDigits[c & 15];
    }
    return text;
}

bool Worker::note(CUresult result, const char* call) {
    if (!wire::is_sticky(result)) return true;
    // An interrupted kernel's error does not stay: the driver answers other calls as before.
    size_t free = 0, total = 0;
    if (result == CUDA_ERROR_LAUNCH_TIMEOUT && poisoned.load() == CUDA_SUCCESS &&
        invoke(driver.cuMemGetInfo_v2, &free, &total) == CUDA_SUCCESS) {
        return false;
    }
    int healthy = CUDA_SUCCESS;
    if (!poisoned.compare_exchange_strong(healthy, result)) return true;
    const char* name = gk_error_name(result);
    status.fault(std::string(name ? name : "a fatal error") + " at " + call +
                 ": the lease's context is lost; every call fails until its processes have ended");
    return true;
}

void Worker::freed(const Allocation& allocation) {
    if (!allocation.pool) return memory.give_back(allocation.device, allocation.charged);
    allocation.pool->freed(allocation.charged);
    allocation.pool->look();
    room.note();
}

void Worker::end(const std::string& why) {
    status.report(memory);
    log_line("this worker ends: " + why);
    _exit(0);
}

std::vector<std::shared_ptr<Session>> Worker::all_sessions() {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<Session>> all;
    for (const auto& [id, session] : sessions_) all.push_back(session);
    return all;
}

void Worker::end_abandoned() {
    const auto all = all_sessions();
    size_t stuck = 0;
    for (const auto& session : all) stuck += session->end_if_abandoned();
    if (stuck > 0 && stuck == all.size()) {
        end("its programs have gone, and a kernel of theirs that cannot be stopped alone still runs");
    }
}

bool Worker::has_most(Session& session) {
    // Who has so little is not the cause, not even alone: what another has left may still be on its way back.
    constexpr uint64_t kLittle = 1024;
    const uint64_t own = session.weight();
    if (own < kLittle) return false;
    const auto sessions = all_sessions();
    return std::all_of(sessions.begin(), sessions.end(),
                       [&](const auto& other) { return other->weight() <= own; });
}

std::shared_ptr<Session> Worker::enter(const std::string& id) {
    const std::lock_guard lock(mutex_);
    auto found = sessions_.find(id);
    if (found != sessions_.end()) return found->second;
    if (sessions_.size() == kMaxSessions) return nullptr;
    auto session = std::make_shared<Session>(*this, short_name(id));
    sessions_.emplace(id, session);
    status.sessions.store(sessions_.size());
    return session;
}

std::shared_ptr<Session> Worker::find(const std::string& id) {
    const std::lock_guard lock(mutex_);
    const auto found = sessions_.find(id);
    return found == sessions_.end() ? nullptr : found->second;
}

void Worker::leave(const std::string& id, const std::shared_ptr<Session>& session) {
    session->software.interrupt();  // nobody is left to wait for its kernels, or to stop them
    session->free_all();
    const std::lock_guard lock(mutex_);
    auto found = sessions_.find(id);
    if (found != sessions_.end() && found->second == session) sessions_.erase(found);
    status.sessions.store(sessions_.size());
    if (!sessions_.empty() || poisoned.load() == CUDA_SUCCESS) return;
    end("the last session has gone, and the context is lost");
}

}  // namespace worker
