// What ducc0 asks for where it is built without threads of its own (DUCC0_CUSTOM_LOWLEVEL_THREADING): fft_threads.cc has the
// rest. Its own pool reads variables of the environment, where it ends the process at what it cannot read, and stops at
// each fork until its work has ended.
#pragma once

#include <condition_variable>
#include <mutex>

namespace DUCC0_NAMESPACE::detail_threading {

using Mutex = std::mutex;
using UniqueLock = std::unique_lock<std::mutex>;
using LockGuard = std::lock_guard<std::mutex>;
using CondVar = std::condition_variable;
inline thread_local bool in_parallel_region = false;

}  // namespace DUCC0_NAMESPACE::detail_threading
