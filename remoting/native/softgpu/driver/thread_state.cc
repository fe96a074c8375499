#include "thread_state.h"

#include <pthread.h>

#include "session.h"
#include "stream.h"

namespace softgpu::driver {
namespace {

// A plain pointer and a pthread key, no thread_local object: libraries call the driver from exit handlers,
// when the main thread's thread_local objects are destroyed already.
__thread ThreadState* state = nullptr;

pthread_key_t key() {
    static const pthread_key_t made = [] {
        pthread_key_t fresh;
        pthread_key_create(&fresh, [](void* old) {
            state = nullptr;
            delete static_cast<ThreadState*>(old);
        });
        return fresh;
    }();
    return made;
}

}  // namespace

ThreadState& thread_state() {
    if (!state) {
        state = new ThreadState;
        pthread_setspecific(key(), state);
    }
    return *state;
}

}  // namespace softgpu::driver
