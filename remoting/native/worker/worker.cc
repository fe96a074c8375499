#include "worker.h"

#include <unistd.h>

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

void Worker::note(CUresult result, const char* call) {
    int healthy = CUDA_SUCCESS;
    if (!wire::is_sticky(result) || !poisoned.compare_exchange_strong(healthy, result)) return;
    const char* name = gk_error_name(result);
    status.fault(std::string(name ? name : "a fatal error") + " at " + call +
                 ": the lease's context is lost; every call fails until its processes have ended");
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

void Worker::leave(const std::string& id, const std::shared_ptr<Session>& session) {
    session->free_all();
    const std::lock_guard lock(mutex_);
    auto found = sessions_.find(id);
    if (found != sessions_.end() && found->second == session) sessions_.erase(found);
    status.sessions.store(sessions_.size());
    if (!sessions_.empty() || poisoned.load() == CUDA_SUCCESS) return;
    status.report(memory);
    log_line("the last session has gone; this worker ends, because its context is lost");
    _exit(0);
}

}  // namespace worker
