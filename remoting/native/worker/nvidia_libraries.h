// The other end of library calls: NVIDIA's own library, of the GPU server, for a real GPU. It is called by
// the signature that functions.txt gives, with the arguments that the program passed.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <vector>

#include "cuda_abi.h"
#include "libraries/call.h"

namespace worker {

class Context;
class Session;

// Memory of the slice like any other of the session, with which it goes: what a library works in.
CUresult allocate_in_slice(Context& context, uint64_t bytes, uint64_t& address);

class NvidiaLibraries {
  public:
    static NvidiaLibraries& get();

    // Where they lie, in order; what is in none of these the loader looks for.
    void search(std::vector<std::string> folders) { folders_ = std::move(folders); }

    // Whether the library of this major version is here; tells the session's person once where it is not.
    CUresult look(Session& session, uint16_t library, uint8_t major);
    // `arguments` was looked at, and goes together.
    CUresult call(Context& context, CUstream stream, const GkLibraryCall& head, void* arguments,
                  size_t bytes);
    // Whether NVIDIA's cuBLASLt has an algorithm for a product that was looked at, and how much workspace it
    // needs: NOT_FOUND where it has none.
    CUresult ask(Context& context, const GkLibraryCall& head, const void* arguments,
                 uint64_t& workspace_bytes);
    // The memory that the stream's calls worked in, which the caller frees; 0 where there is none. The stream
    // ends.
    uint64_t take_workspace(const Session& session, CUstream stream);
    // All that it had on the device; its memory is freed as the session's other.
    void forget(const Session& session, uint8_t device);

    struct Workspace {
        uint64_t address = 0, bytes = 0;
    };

  private:
    // Of a handle of NVIDIA's: its device, what makes it, and the library's major version.
    using Kind = std::tuple<uint8_t, std::string_view, uint8_t>;
    // A stream of a session on a device; the thread, where it is the thread's own.
    using Place = std::tuple<const Session*, uint8_t, CUstream, std::thread::id>;

    // A call has a handle for as long as it is being posted. None is ended: that would wait for the work of
    // all. What the library has for one is memory of the GPU that no slice is charged for, so a session has
    // few at once, and waits for none but its own.
    static constexpr size_t kMostOfSession = 4;

    struct Opened {
        void* library = nullptr;
        std::string refusal;  // where it is null: a line that says what to do
        std::string version;  // as it says itself; empty where it does not
    };
    Opened opened(uint16_t library, uint8_t major);
    void open(Opened& opened, uint16_t library, uint8_t major);
    void tell_of_missing(Session& session, uint16_t library, uint8_t major, const std::string& name);
    CUresult call_with(Context& context, CUstream stream, const GkLibraryCall& head, void* arguments,
                       void* library);
    void* borrow(const Session& session, const Kind& kind, void* library, int& status);
    void give_back(const Session& session, const Kind& kind, void* handle);
    CUresult invoke_with(Context& context, CUstream stream, const GkLibraryCall& head, void* arguments,
                         void* library, void* handle);
    CUresult own_workspace(Context& context, CUstream stream, uint64_t bytes, Workspace& workspace);
    CUresult workspace_for(Context& context, CUstream stream, const GkLibraryCall& head,
                           Workspace& workspace);

    std::vector<std::string> folders_;
    std::mutex mutex_;
    std::map<std::pair<uint16_t, uint8_t>, Opened> opened_;
    std::map<const Session*, std::set<std::string>> told_;  // which functions are missing
    std::map<Kind, std::vector<void*>> idle_;
    std::map<std::pair<const Session*, Kind>, size_t> lent_;
    std::condition_variable given_back_;
    std::mutex workspaces_mutex_;
    std::map<Place, Workspace> workspaces_;
};

}  // namespace worker
