#include "thread.h"

#include <pthread.h>

#include <atomic>

#include "host_calls.h"
#include "session.h"

namespace client {
namespace {

// A pointer alone, so that the library needs next to no static thread-local space.
thread_local Thread* current_thread __attribute__((tls_model("initial-exec"))) = nullptr;

pthread_key_t key;
pthread_once_t key_once = PTHREAD_ONCE_INIT;

void thread_ended(void* pointer) {
    auto* thread = static_cast<Thread*>(pointer);
    if (thread->lane) Session::get().give_back(thread->lane);
    const bool in_callback = thread->in_callback;
    current_thread = nullptr;
    delete thread;
    if (in_callback) HostCalls::get().thread_ended_in_function();
}

}  // namespace

Thread& Thread::current() {
    if (!current_thread) {
        pthread_once(&key_once, [] { pthread_key_create(&key, thread_ended); });
        static std::atomic<uint64_t> last{0};
        current_thread = new Thread;
        current_thread->number = ++last;
        pthread_setspecific(key, current_thread);
    }
    return *current_thread;
}

void Thread::forget_lane() {
    if (current_thread) current_thread->lane = nullptr;
}

}  // namespace client
