#include "life.h"

#include <time.h>

#include <functional>
#include <utility>
#include <vector>

#include "array.h"
#include "context.h"
#include "copies_back.h"
#include "front/library.h"
#include "graph_replay.h"
#include "graphs/life.h"
#include "host_calls.h"
#include "host_files.h"
#include "library.h"
#include "managed_advice.h"
#include "memory_map.h"
#include "pool.h"
#include "session.h"
#include "shared_memory.h"
#include "slice_file.h"
#include "stream_event.h"
#include "texture.h"
#include "virtual_memory.h"

namespace client {

Gate& Gate::get() {
    static Gate gate;
    return gate;
}

// A closer sees `inside` go by looking again: who leaves pays for nothing but a store.
void Gate::wait(Thread& thread) {
    do {
        leave(thread);
        closed_.wait(1);
        thread.inside.store(true, std::memory_order_seq_cst);
    } while (closed_.load(std::memory_order_seq_cst));
}

void Gate::close(void (*hurry)()) {
    closed_.store(1, std::memory_order_seq_cst);
    for (hurry(); Thread::any_inside(); hurry()) {
        constexpr timespec kPause{0, 200'000};
        nanosleep(&kPause, nullptr);
    }
}

void Gate::open() {
    closed_.store(0, std::memory_order_seq_cst);
    closed_.notify_all();
}

Outside::Outside() : thread_(Thread::current()), entries_(std::exchange(thread_.entries, 0)) {
    if (entries_) Gate::get().leave(thread_);
}

Outside::~Outside() {
    if (entries_) Gate::get().enter(thread_);
    thread_.entries = entries_;
}

namespace {

// All that a life has left in the client; the gate is closed. Graphs first: they hold kernels, tickets and
// memory. What the program's own functions are to be told is returned.
std::vector<std::function<void()>> take_down() {
    GraphOutputs::get().forget();
    std::vector<std::function<void()>> told = graphs::forget_life();
    HostCalls::end_life();
    CopiesBack::get().forget_life();
    SharedMemory::get().forget_life();
    forget_managed_variables();
    cuda::ManagedAdvice::get().forget_all();
    MemoryMap::get().end_life();
    SliceFile::get().end_life();
    HostFiles::get().end_life();
    forget_physicals();
    forget_pools();
    forget_textures();
    forget_arrays();
    forget_libraries();
    front::forget_links();
    forget_streams_and_events();
    forget_contexts();
    Thread::forget_life();
    return told;
}

}  // namespace

CUresult Session::end_life() {
    Thread& thread = Thread::current();
    if (thread.in_callback || thread.entries) return CUDA_ERROR_NOT_PERMITTED;
    std::unique_lock one(ending_);
    {
        const Entry entry;
        if (forked_) return CUDA_ERROR_NOT_INITIALIZED;
        if (nothing_to_end()) return CUDA_SUCCESS;
        error_.store(CUDA_ERROR_CONTEXT_IS_DESTROYED, std::memory_order_seq_cst);
    }
    // What the program has in managed memory is taken while the worker, which hears of the end by its lanes,
    // still has it.
    Gate::get().close([] {
        SliceFile::get().end_life();
        Session::get().shut_lanes();
    });
    std::vector<std::function<void()>> told = take_down();
    forget_life();
    Gate::get().open();
    one.unlock();
    thread.to_tell = std::move(told);
    thread.tell();
    return CUDA_SUCCESS;
}

}  // namespace client

extern "C" {

int gkNewLife(void) {
    return client::Session::get().end_life();
}

unsigned long long gkLife(int* state) {
    return client::Session::get().life(state);
}
}
