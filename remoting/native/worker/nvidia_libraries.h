// The other end of library calls: NVIDIA's own library, of the GPU server, for a real GPU. It is called by the
// signature that functions.txt gives, with the arguments that the program passed.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "cuda_abi.h"
#include "libraries/call.h"

namespace worker {

class Context;
class Session;

class NvidiaLibraries {
  public:
    static NvidiaLibraries& get();

    // Where they lie, in order; what is in none of these the loader looks for.
    void search(std::vector<std::string> folders) { folders_ = std::move(folders); }

    // Whether the library of this major version is here; tells the session's person once where it is not.
    CUresult look(Session& session, uint16_t library, uint8_t major);
    // `arguments` was looked at, and goes together.
    CUresult call(Context& context, CUstream stream, const GkLibraryCall& head, void* arguments, size_t bytes);
    // Its handles end. The session's work has ended, and the device's context is current.
    void forget(const Session& session, uint8_t device);

  private:
    // A session's handle on a device: calls that use it come one at a time.
    struct Handle {
        explicit Handle(void* library) : library(library) {}
        void* const library;
        std::mutex mutex;
        void* handle = nullptr;  // made at the first call
        uint64_t workspace = 0;
    };
    using Key = std::tuple<const Session*, uint8_t, uint16_t, uint8_t>;

    void* open(uint16_t library, uint8_t major);
    static CUresult prepare(Context& context, Handle& handle, CUstream stream, const GkLibraryCall& head);
    std::shared_ptr<Handle> handle_of(Context& context, const GkLibraryCall& head, CUresult& result);

    std::vector<std::string> folders_;
    std::mutex mutex_;
    std::map<std::pair<uint16_t, uint8_t>, void*> opened_;  // null: it is not here
    std::map<Key, std::shared_ptr<Handle>> handles_;
};

}  // namespace worker
