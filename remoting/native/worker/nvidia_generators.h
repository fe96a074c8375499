// NVIDIA's cuRAND at the worker: a generator of the program's is made again here at its first call, and kept.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "cuda_abi.h"
#include "libraries/call.h"

namespace worker {

class Context;
class Session;

class NvidiaGenerators {
  public:
    static NvidiaGenerators& get();

    // `arguments` was looked at, and its operand is the lease's memory.
    CUresult call(Context& context, void* library, CUstream stream, const GkLibraryCall& head,
                  const void* arguments);
    // The program has ended the one of this number.
    CUresult end(Context& context, uint8_t major, uint64_t number);
    // Its generators end. The session's work has ended, and the device's context is current.
    void forget(const Session& session, uint8_t device);

  private:
    // More generators no session keeps at once.
    static constexpr size_t kMostGenerators = 16;
    struct Made;
    using Kind = std::tuple<uint8_t, uint8_t, int64_t>;  // device, major version, curandRngType
    using Key = std::tuple<const Session*, uint8_t, uint8_t,
                           uint64_t>;  // device, major version, the generator's number

    void* take_idle(const Kind& kind);
    void keep(const Kind& kind, void* handle);
    std::shared_ptr<Made> take(const Key& key);
    std::shared_ptr<Made> generator_of(const Key& key, void* library);

    std::mutex mutex_;
    std::map<Key, std::shared_ptr<Made>> generators_;
    std::map<Kind, std::vector<void*>> idle_;  // never ended: that would wait for the work of all sessions
};

}  // namespace worker
