// Threads of this library in the program's process.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace client {

// Runs `entry` in a thread of its own. False when there can be none. Signals belong to the program's threads.
inline bool start_service_thread(void* (*entry)(void*), void* argument) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    const bool made = pthread_create(&thread, nullptr, entry, argument) == 0;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (made) pthread_detach(thread);
    return made;
}

}  // namespace client
