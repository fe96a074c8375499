#include "flusher.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "lane.h"
#include "life.h"
#include "service_thread.h"
#include "session.h"

namespace client {
namespace {

int64_t nanoseconds_now() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

long futex(std::atomic<uint32_t>& word, int operation, uint32_t value) {
    return syscall(SYS_futex, &word, operation | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
}

// A lane lasts as long as its life.
bool flush(Session& session) {
    const Entry entry;
    return session.flush_all();
}

}  // namespace

bool Flusher::schedule(Session& session, Lane& lane) {
    // The append's store of the fill and this load are both sequentially consistent, as are the flusher's
    // store of kAsleep and its last look at the fills: one of the two sees the other.
    const uint32_t state = state_.load(std::memory_order_seq_cst);
    if (lane.unsent() >= Lane::kSendAt) return lane.flush(true);
    if (state == kRunning) return true;
    const int64_t now = nanoseconds_now();
    const bool burst = now - lane.last_direct_send < 200'000;
    lane.last_direct_send = now;
    if (!burst || state == kUnavailable) return lane.flush(true);
    wake(session);
    return state_.load(std::memory_order_relaxed) == kUnavailable ? lane.flush(true) : true;
}

void Flusher::wake(Session& session) {
    uint32_t seen = kAsleep;
    if (state_.compare_exchange_strong(seen, kRunning)) {
        futex(state_, FUTEX_WAKE, 1);
        return;
    }
    if (seen != kNotStarted || !state_.compare_exchange_strong(seen, kRunning)) return;
    if (!start_service_thread(&Flusher::entry, &session)) state_.store(kUnavailable);
}

void* Flusher::entry(void* argument) {
    auto& session = *static_cast<Session*>(argument);
    pthread_setname_np(pthread_self(), "gpu-flush");
    prctl(PR_SET_TIMERSLACK, 1000UL);
    session.flusher().run(session);
    return nullptr;
}

void Flusher::run(Session& session) {
    const timespec period{0, std::chrono::nanoseconds(kPeriod).count()};
    int idle = 0;
    for (;;) {
        idle = flush(session) ? 0 : idle + 1;
        if (idle * kPeriod > kAwake) {
            state_.store(kAsleep, std::memory_order_seq_cst);
            if (flush(session)) {
                state_.store(kRunning, std::memory_order_seq_cst);
            } else {
                while (state_.load(std::memory_order_seq_cst) == kAsleep) futex(state_, FUTEX_WAIT, kAsleep);
            }
            idle = 0;
        }
        nanosleep(&period, nullptr);
    }
}

}  // namespace client
