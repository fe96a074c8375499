// NVIDIA's cuFFT at the worker: a plan of the program's is made again here at its first transform, and kept.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "cuda_abi.h"
#include "libraries/call.h"

namespace worker {

class Context;
class Session;

class NvidiaTransforms {
  public:
    static NvidiaTransforms& get();

    // `arguments` was looked at, and its operands are the lease's memory.
    CUresult call(Context& context, void* library, CUstream stream, const GkLibraryCall& head, const void* arguments);
    // The program has ended the plan of this number, if there is one. Waits for the session's work.
    CUresult end(Context& context, uint8_t major, uint64_t number);
    // Its plans end. The session's work has ended, the device's context is current, and what they worked in goes
    // with the session.
    void forget(const Session& session, uint8_t device);

  private:
    // More plans no session keeps at once; what the library has for each is not charged.
    static constexpr size_t kMostPlans = 1024;
    struct Made;
    using Key = std::tuple<const Session*, uint8_t, uint8_t, uint64_t>;  // device, major version, the plan's number

    std::shared_ptr<Made> take(const Key& key);
    std::shared_ptr<Made> plan_of(const Key& key, void* library, CUresult& result);

    std::mutex mutex_;
    std::map<Key, std::shared_ptr<Made>> plans_;
};

}  // namespace worker
