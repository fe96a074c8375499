#include "nvidia_libraries.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "cublas_messages.h"
#include "handlers.h"
#include "libraries/cublas/status.h"
#include "libraries/messages.h"
#include "nvidia_cublaslt.h"
#include "nvidia_cudnn.h"
#include "nvidia_cusolver.h"
#include "nvidia_cusparse.h"
#include "nvidia_function.h"
#include "nvidia_generators.h"
#include "nvidia_transforms.h"
#include "sticky.h"

namespace worker {
namespace {

constexpr std::chrono::milliseconds kLook{100};
constexpr size_t kWorkspace = 4 << 20;  // what cuBLAS takes by default on most GPUs

std::string file_of(uint16_t library, uint8_t major) {
    return std::string("lib") + maths::library_of(library)->file + ".so." + std::to_string(major);
}

// A library that failed does not say whether the context has: the driver does. What ends the context ends the
// lease's work, and another failure must not.
CUresult fault_of(Context& context, CUstream stream) {
    const CUresult now = invoke(context.driver().cuStreamQuery, stream);
    return wire::is_sticky(now) ? now : CUDA_ERROR_UNKNOWN;
}

template <typename... Arguments>
int invoke_named(void* library, const char* name, Arguments... arguments) {
    const auto function = reinterpret_cast<int (*)(Arguments...)>(function_of(library, name));
    return function ? function(arguments...) : static_cast<int>(cublas::kNotSupported);
}

// The memory of each operand is the lease's. What addresses lie in arrays on the device is, as those in a
// kernel's parameters, the GPU's page tables' business.
class InSlice final : public maths::Look {
  public:
    InSlice(const Context& context, const GkLibraryCall& head)
        : Look(head.wide != 0, head.scalars_on_device != 0),
          context_(context),
          drops_addresses_(head.library == kGkCusolver) {}
    // Empty, or which operand is elsewhere.
    const std::string& elsewhere() const { return elsewhere_; }

  private:
    void operand(const maths::Operand& operand) override {
        const uint64_t bytes =
            operand.count == 0 ? operand.bytes : maths::product(operand.count, sizeof(uint64_t));
        const bool may_lack = scalars_on_device() && operand.access == maths::Access::kRead;
        const bool need_not_be = operand.bytes == 0 || (may_lack && operand.address == 0);
        if (!need_not_be) require(operand.name, operand.address, bytes);
        // What is not touched NVIDIA's library is given no address of.
        if (operand.bytes == 0 && drops_addresses_) operand.address = 0;
    }

    // It stays where it is.
    bool fetch(const char* name, maths::Scalar& scalar, maths::Type type) override {
        uint64_t address;
        std::memcpy(&address, scalar.bytes, sizeof address);
        require(name, address, maths::bytes_of(type));
        return false;
    }

    void require(const char* name, uint64_t address, uint64_t bytes) {
        if (!elsewhere_.empty() || context_.accessible(address, bytes)) return;
        char text[24];
        std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(address));
        elsewhere_ = std::string(name) + " has " + std::to_string(bytes) + " bytes at " + text +
                     ", which are not all memory of the slice";
    }

    const Context& context_;
    const bool drops_addresses_;
    std::string elsewhere_;
};

// What the generated calls ask for (cublas_nvidia.inc).
struct Calling {
    void* library;
    void* handle;
    bool wide;
    bool scalars_on_device;

    const void* scalar(const maths::Scalar& scalar) const {
        uint64_t address;
        std::memcpy(&address, scalar.bytes, sizeof address);
        return scalars_on_device ? reinterpret_cast<const void*>(address) : scalar.bytes;
    }
    template <typename Signature, typename... Arguments>
    int invoke(const char* name, Arguments... arguments) const {
        const auto function = reinterpret_cast<Signature*>(function_of(library, name));
        return function ? function(arguments...) : static_cast<int>(cublas::kNotSupported);
    }
};

// Without memory of the host, which must stay until the stream comes to it.
CUresult write_in(const Context& context, CUstream stream, uint64_t address, uint64_t value, size_t bytes) {
    const auto set = context.driver().cuMemsetD32Async;
    const CUresult result = invoke(set, address, static_cast<unsigned>(value), size_t{1}, stream);
    if (result != CUDA_SUCCESS || bytes == 4) return result;
    return invoke(set, address + 4, static_cast<unsigned>(value >> 32), size_t{1}, stream);
}

// By GkLibrary, of those with handles.
constexpr const char* kCreate[] = {"cublasCreate_v2", "cublasLtCreate", nullptr, "cudnnCreate",
                                   "cusparseCreate"};
static_assert(std::size(kCreate) == kGkCufft);

// As the program has set its own.
int set_up_cublas(void* library, void* handle, CUstream stream, const GkLibraryCall& head,
                  const NvidiaLibraries::Workspace& workspace) {
    int status = cublas::kSuccess;
    const auto set = [&](const char* name, auto... values) {
        if (status == cublas::kSuccess) status = invoke_named(library, name, handle, values...);
    };
    set("cublasSetStream_v2", stream);
    set("cublasSetWorkspace_v2", reinterpret_cast<void*>(workspace.address),
        static_cast<size_t>(workspace.bytes));
    set("cublasSetPointerMode_v2", static_cast<int>(head.scalars_on_device));
    set("cublasSetMathMode", static_cast<int>(head.math));
    set("cublasSetAtomicsMode", static_cast<int>(head.atomics));
    return status;
}

}  // namespace
}  // namespace worker

namespace maths::cublas {

static int invoke_function(uint16_t function, const void* arguments, const worker::Calling& call) {
    switch (function) {
#include "cublas_nvidia.inc"
        default:
            return ::cublas::kNotSupported;
    }
}

}  // namespace maths::cublas

namespace worker {

CUresult allocate_in_slice(Context& context, uint64_t bytes, uint64_t& address) {
    Worker& worker = context.worker();
    const uint64_t charge = MemoryLedger::charge_of(bytes);
    const std::string no_room =
        "NVIDIA's library works in " + mib(bytes) +
        " of the slice, and so much of it is not free: free memory, or take a larger slice";
    if (!worker.room.take(context.session(), context.device(), charge))
        return refused(CUDA_ERROR_OUT_OF_MEMORY, no_room);
    CUdeviceptr memory = 0;
    const CUresult result = invoke(context.driver().cuMemAlloc_v2, &memory, bytes);
    if (result != CUDA_SUCCESS) {
        worker.memory.give_back(context.device(), charge);
        return refused(result, no_room);
    }
    worker.memory.add({memory, bytes, charge, &context.session(), context.device()});
    address = memory;
    return CUDA_SUCCESS;
}

NvidiaLibraries& NvidiaLibraries::get() {
    static auto* const all = new NvidiaLibraries;
    return *all;
}

// By GkLibrary.
constexpr const char* kProperty[] = {"cublasGetProperty", "cublasLtGetProperty", "cusolverGetProperty",
                                     "cudnnGetProperty",  "cusparseGetProperty", "cufftGetProperty",
                                     "curandGetProperty"};
static_assert(std::size(kProperty) == kGkLibraries);

// As the library says it itself: major, minor, patch. Nothing where it does not.
static std::vector<int> version_of(void* opened, uint16_t library) {
    const auto property = reinterpret_cast<int (*)(int, int*)>(dlsym(opened, kProperty[library]));
    std::vector<int> version;
    for (int part = 0, value = 0; property && part < 3 && property(part, &value) == 0; ++part)
        version.push_back(value);
    return version;
}

static std::string words_of(const std::vector<int>& version) {
    std::string words;
    for (const int part : version) {
        if (!words.empty()) words += '.';
        words += std::to_string(part);
    }
    return words;
}

// With mutex_ held. Opens the first that is there; `refusal` says what to do where none is, or it is not what
// it is called.
void NvidiaLibraries::open(Opened& opened, uint16_t library, uint8_t major) {
    const std::string file = file_of(library, major);
    const std::string renew = ": its admin installs NVIDIA's wheel of it";
    opened.refusal =
        "this GPU server has no " + file + renew + ", and names the folder in worker_libraries\n";
    void* found = nullptr;
    for (const std::string& folder : folders_) {
        const std::string path = folder + "/" + file;
        if (found || access(path.c_str(), F_OK) != 0) continue;
        found = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (found) continue;
        log_line("library calls: " + std::string(dlerror()));
        opened.refusal = "this GPU server has a " + file + " that cannot be loaded" + renew +
                         " anew, with all that it needs; the worker's log says why\n";
    }
    if (!found) found = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!found) return log_line("library calls: " + std::string(dlerror()));
    const std::vector<int> version = version_of(found, library);
    opened.version = words_of(version);
    if (!version.empty() && version[0] != major) {
        opened.refusal = "this GPU server's " + file + " is another major version, " + opened.version +
                         renew + " that belongs to that name\n";
        return log_line("library calls: " + opened.refusal.substr(0, opened.refusal.size() - 1));
    }
    opened.library = found;
}

NvidiaLibraries::Opened NvidiaLibraries::opened(uint16_t library, uint8_t major) {
    const std::lock_guard lock(mutex_);
    const auto [place, is_new] = opened_.try_emplace({library, major});
    if (is_new) open(place->second, library, major);
    return place->second;
}

CUresult NvidiaLibraries::look(Session& session, uint16_t library, uint8_t major) {
    const Opened found = opened(library, major);
    if (found.library) return CUDA_SUCCESS;
    session.notices.add(wire::NoticeKind::lines, found.refusal);
    return CUDA_ERROR_NOT_SUPPORTED;
}

// Once for each.
void NvidiaLibraries::tell_of_missing(Session& session, uint16_t library, uint8_t major,
                                      const std::string& name) {
    const std::string version = opened(library, major).version;
    {
        const std::lock_guard lock(mutex_);
        if (!told_[&session].insert(name).second) return;
    }
    session.notices.add(wire::NoticeKind::lines,
                        "this GPU server's " + file_of(library, major) +
                            (version.empty() ? "" : " (" + version + ")") + " has no " + name +
                            ": its admin installs a newer one of NVIDIA's wheels of it\n");
}

// Of a call that was not done, and whose error a program may read much later. What has no reason here
// NVIDIA's library itself has refused, or failed in.
static void tell_of_refusal(Session& session, const char* function, CUresult result, const std::string& why) {
    const char* const error = gk_error_name(result);
    session.refuse(
        std::string(function) + ": " + (why.empty() ? "the GPU server's own library has not done it" : why) +
        ": " + (error ? error : std::to_string(result)) + ", which the program's next call that waits says");
}

// Those of one device serve whoever calls there: nothing that a call has set is left to the next one.
void* NvidiaLibraries::borrow(const Session& session, const Kind& kind, void* library, int& status) {
    {
        std::unique_lock lock(mutex_);
        // A session that has ended waits for none of its own, which may be kept long.
        while (lent_[{&session, kind}] >= kMostOfSession) {
            if (session.ended()) return nullptr;
            given_back_.wait_for(lock, kLook);
        }
        ++lent_[{&session, kind}];
        std::vector<void*>& idle = idle_[kind];
        if (!idle.empty()) {
            void* const handle = idle.back();
            idle.pop_back();
            return handle;
        }
    }
    void* handle = nullptr;
    status = invoke_named(library, std::get<1>(kind).data(), &handle);
    if (!handle) {
        give_back(session, kind, nullptr);
        note_refusal(std::string(std::get<1>(kind)) + " of the GPU server's library failed with " +
                     std::to_string(status) +
                     ", for want of the GPU's own memory, say: try it again, and tell "
                     "the server's admin if it lasts");
    }
    return handle;
}

void NvidiaLibraries::give_back(const Session& session, const Kind& kind, void* handle) {
    {
        const std::lock_guard lock(mutex_);
        if (handle) idle_[kind].push_back(handle);
        const auto lent = lent_.find({&session, kind});
        if (--lent->second == 0) lent_.erase(lent);
    }
    given_back_.notify_all();
}

// Of the stream's own, which the slice is charged for, and which grows. The libraries take none themselves.
CUresult NvidiaLibraries::own_workspace(Context& context, CUstream stream, uint64_t bytes,
                                        Workspace& workspace) {
    const bool of_thread = stream == CU_STREAM_PER_THREAD;
    const Place place{&context.session(), context.device(), stream,
                      of_thread ? std::this_thread::get_id() : std::thread::id{}};
    // A program may have freed what it never got.
    const auto serves = [&](const Workspace& one) {
        return one.bytes >= bytes && context.accessible(one.address, one.bytes);
    };
    {
        const std::lock_guard lock(workspaces_mutex_);
        const auto known = workspaces_.find(place);
        if (known != workspaces_.end() && serves(known->second))
            return workspace = known->second, CUDA_SUCCESS;
    }
    // Without the lock, as it may wait for memory, and other sessions are not to wait with it.
    Workspace made{0, std::max<uint64_t>(bytes, kWorkspace)};
    if (CUresult error = allocate_in_slice(context, made.bytes, made.address)) return error;
    const std::lock_guard lock(workspaces_mutex_);
    Workspace& own = workspaces_[place];
    // Two lanes that begin with one stream keep one.
    Workspace& left = serves(own) ? made : own;
    if (left.address && context.accessible(left.address, left.bytes))
        context.session().free_in(stream, left.address);
    if (&left == &own) own = made;
    workspace = own;
    return CUDA_SUCCESS;
}

// The program's, where it has set one.
CUresult NvidiaLibraries::workspace_for(Context& context, CUstream stream, const GkLibraryCall& head,
                                        Workspace& workspace) {
    workspace = {head.workspace, head.workspace_bytes};
    if (workspace.address && workspace.bytes && context.accessible(workspace.address, workspace.bytes)) {
        return CUDA_SUCCESS;
    }
    return own_workspace(context, stream, kWorkspace, workspace);
}

CUresult NvidiaLibraries::call(Context& context, CUstream stream, const GkLibraryCall& head, void* arguments,
                               size_t bytes) {
    InSlice look(context, head);
    const maths::Library* const of = maths::library_of(head.library);
    if (!of || of->look_at(head.function, arguments, bytes, look) != maths::Fit::fits) return kMalformed;
    void* const library = opened(head.library, head.major).library;
    if (!library) return CUDA_ERROR_NOT_SUPPORTED;
    take_missing_function(), take_refusal();
    const CUresult result = look.elsewhere().empty() ? call_with(context, stream, head, arguments, library)
                                                     : refused(CUDA_ERROR_INVALID_VALUE, look.elsewhere());
    const std::string missing = take_missing_function(), why = take_refusal();
    if (missing.empty()) {
        if (result != CUDA_SUCCESS && result != kMalformed && !wire::is_sticky(result))
            tell_of_refusal(context.session(), of->name_of(head.function), result, why);
        return result;
    }
    // Whichever step wanted it, and whatever was made of its answer: the call was not done as it was asked
    // for.
    tell_of_missing(context.session(), head.library, head.major, missing);
    return wire::is_sticky(result) ? result : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult NvidiaLibraries::ask(Context& context, const GkLibraryCall& head, const void* arguments,
                              uint64_t& workspace_bytes) {
    void* const library = opened(head.library, head.major).library;
    if (!library) return CUDA_ERROR_NOT_SUPPORTED;
    take_missing_function(), take_refusal();
    const Kind kind{context.device(), kCreate[head.library], head.major};
    int status = cublas::kSuccess;
    void* const handle = borrow(context.session(), kind, library, status);
    if (handle) {
        status = ask_cublaslt(
            arguments, {library, handle, nullptr, head.scalars_on_device != 0, 0, head.workspace_bytes},
            workspace_bytes);
        give_back(context.session(), kind, handle);
    }
    const std::string missing = take_missing_function(), why = take_refusal();
    if (!missing.empty()) {
        tell_of_missing(context.session(), head.library, head.major, missing);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (!handle) {
        if (!why.empty()) context.session().refuse("cublasLtMatmulAlgoGetHeuristic: " + why);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return status == cublas::kNotSupported ? CUDA_ERROR_NOT_FOUND : cublas::result_of(status);
}

CUresult NvidiaLibraries::call_with(Context& context, CUstream stream, const GkLibraryCall& head,
                                    void* arguments, void* library) {
    if (head.library == kGkCufft) {
        const CUresult done = NvidiaTransforms::get().call(context, library, stream, head, arguments);
        return done == CUDA_ERROR_LAUNCH_FAILED ? fault_of(context, stream) : done;
    }
    if (head.library == kGkCurand) {
        const CUresult done = NvidiaGenerators::get().call(context, library, stream, head, arguments);
        return done == CUDA_ERROR_LAUNCH_FAILED ? fault_of(context, stream) : done;
    }
    const bool is_cusolver = head.library == kGkCusolver;  // which has a kind of handle for each of its parts
    const Kind kind{context.device(), is_cusolver ? cusolver_create(head.function) : kCreate[head.library],
                    head.major};
    int status = cublas::kSuccess;
    void* const handle = borrow(context.session(), kind, library, status);
    if (!handle) return status == cublas::kNotSupported ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult result = invoke_with(context, stream, head, arguments, library, handle);
    give_back(context.session(), kind, handle);
    return result == CUDA_ERROR_LAUNCH_FAILED ? fault_of(context, stream) : result;
}

CUresult NvidiaLibraries::invoke_with(Context& context, CUstream stream, const GkLibraryCall& head,
                                      void* arguments, void* library, void* handle) {
    const MakeRoom make_room = [&](uint64_t bytes, uint64_t& address) {
        Workspace room{};
        const CUresult result = own_workspace(context, stream, bytes, room);
        address = room.address;
        return result;
    };
    const auto write = [&](uint64_t address, uint64_t value, size_t size) {
        return write_in(context, stream, address, value, size);
    };
    const auto put = [&](uint64_t address, const void* from, size_t count) {
        const auto copy = context.driver().cuMemcpyHtoDAsync_v2;
        const CUdeviceptr to = address;
        return buffer_is_read(context, stream, invoke(copy, to, from, count, stream));
    };
    if (head.library == kGkCusolver) {
        const auto read = [&](uint64_t address, void* to, size_t count) {
            const CUdeviceptr from = address;
            if (count == 0) return CUDA_SUCCESS;
            const CUresult result = invoke(context.driver().cuMemcpyDtoHAsync_v2, to, from, count, stream);
            return result == CUDA_SUCCESS ? invoke(context.driver().cuStreamSynchronize, stream) : result;
        };
        return invoke_cusolver(
            head.function, arguments,
            {library, handle, stream, make_room, context.worker().host_memory, write, read, put});
    }
    if (head.library == kGkCusparse) {
        return invoke_cusparse(
            head.function, arguments,
            {library, handle, stream, head.scalars_on_device != 0, make_room,
             [&](uint64_t bytes, uint64_t& address) { return allocate_in_slice(context, bytes, address); },
             [&](uint64_t address) { context.session().free_in(stream, address); },
             [&](uint64_t address, uint64_t count) { return context.accessible(address, count); }, write});
    }
    Workspace workspace;
    const CUresult error = workspace_for(context, stream, head, workspace);
    // cuBLASLt finds an algorithm that needs none.
    if (error == CUDA_ERROR_OUT_OF_MEMORY && head.library == kGkCublasLt)
        workspace = {}, take_refusal();
    else if (error)
        return error;
    if (head.library == kGkCudnn) {
        return invoke_cudnn(head.function, arguments,
                            {library, handle, stream, workspace.address, workspace.bytes, make_room, put});
    }
    if (head.library == kGkCublasLt) {
        return cublas::result_of(invoke_cublaslt(
            head.function, arguments,
            {library, handle, stream, head.scalars_on_device != 0, workspace.address, workspace.bytes}));
    }
    if (const int status = set_up_cublas(library, handle, stream, head, workspace))
        return cublas::result_of(status);
    const Calling call{library, handle, head.wide != 0, head.scalars_on_device != 0};
    return cublas::result_of(maths::cublas::invoke_function(head.function, arguments, call));
}

uint64_t NvidiaLibraries::take_workspace(const Session& session, CUstream stream) {
    const std::lock_guard lock(workspaces_mutex_);
    for (auto place = workspaces_.begin(); place != workspaces_.end(); ++place) {
        if (std::get<0>(place->first) != &session || std::get<2>(place->first) != stream) continue;
        const uint64_t address = place->second.address;
        workspaces_.erase(place);
        return address;
    }
    return 0;
}

void NvidiaLibraries::forget(const Session& session, uint8_t device) {
    NvidiaTransforms::get().forget(session, device);
    NvidiaGenerators::get().forget(session, device);
    {
        const std::lock_guard told(mutex_);
        told_.erase(&session);
    }
    const std::lock_guard lock(workspaces_mutex_);
    std::erase_if(workspaces_, [&](const auto& entry) {
        return std::get<0>(entry.first) == &session && std::get<1>(entry.first) == device;
    });
}

}  // namespace worker
